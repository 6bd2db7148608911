//! What a client may expect.

use super::*;

fn met(metadata: &Metadata, requirement: Value) -> Result<(), Trouble> {
    check(&[requirement], metadata)
}

/// Goal: each requirement, with the value that is there and with another.
#[test]
fn a_requirement_is_met_by_what_is_there_and_by_nothing_else() {
    let table = applied(&table(), append(7, None, 1)).unwrap();
    for (kind, key, is, other) in [
        ("assert-table-uuid", "uuid", json!(UUID), json!(Uuid::nil())),
        ("assert-current-schema-id", "current-schema-id", json!(0), json!(1)),
        ("assert-default-spec-id", "default-spec-id", json!(0), json!(1)),
        ("assert-default-sort-order-id", "default-sort-order-id", json!(0), json!(1)),
        ("assert-last-assigned-field-id", "last-assigned-field-id", json!(2), json!(3)),
        (
            "assert-last-assigned-partition-id",
            "last-assigned-partition-id",
            json!(999),
            json!(1000),
        ),
    ] {
        assert_eq!(met(&table, json!({"type": kind, key: is})), Ok(()), "{kind}");
        assert_eq!(
            class(met(&table, json!({"type": kind, key: other}))),
            Class::Conflict,
            "{kind}"
        );
        assert_eq!(class(met(&table, json!({"type": kind}))), Class::Invalid, "{kind}");
        assert_eq!(class(met(&table, json!({"type": kind, key: []}))), Class::Invalid, "{kind}");
    }
}

#[test]
fn a_snapshot_id_of_null_demands_that_the_reference_is_absent() {
    let table = applied(&table(), append(7, None, 1)).unwrap();
    let of = |name: &str, id: Value| json!({"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": id});
    assert_eq!(met(&table, of("main", json!(7))), Ok(()));
    assert_eq!(class(met(&table, of("main", json!(8)))), Class::Conflict);
    assert_eq!(class(met(&table, of("main", json!(null)))), Class::Conflict);
    assert_eq!(met(&table, of("other", json!(null))), Ok(()));
    assert_eq!(class(met(&table, of("other", json!(7)))), Class::Conflict);
    let silent = json!({"type": "assert-ref-snapshot-id", "ref": "other"});
    assert_eq!(class(met(&table, silent)), Class::Invalid, "null was not said");
}

#[test]
fn what_asserts_creation_fails_and_what_is_unknown_is_refused_even_behind_it() {
    let creation = json!({"type": "assert-create"});
    assert_eq!(class(met(&table(), creation.clone())), Class::Conflict);
    let unknown = json!({"type": "assert-bogus"});
    assert_eq!(class(met(&table(), unknown.clone())), Class::Invalid);
    assert_eq!(class(check(&[creation, unknown], &table())), Class::Invalid);
    assert_eq!(class(met(&table(), json!({}))), Class::Invalid);
    assert_eq!(check(&[], &table()), Ok(()));
    let many = vec![json!({"type": "assert-table-uuid", "uuid": UUID}); 1_025];
    assert_eq!(check(&many[..1_024], &table()), Ok(()));
    assert_eq!(class(check(&many, &table())), Class::Invalid);
}

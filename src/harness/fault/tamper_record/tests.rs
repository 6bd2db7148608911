//! Each condition on the records of one generation: what is changed, and what it becomes.

use super::*;

const INTENT: &str = ".rustfs.sys/buckets/ahm-replacement/1_ahm_replacement_intent.json";

fn record(cursor: &str, error: &str, revision: u64) -> Vec<u8> {
    let text = format!(
        "{{\"resume_cursor\":{cursor},\"error_message\":{error},\"retry_count\":3,\"last_update\":1,\"replacement_revision\":{revision}}}"
    );
    text.into_bytes()
}

fn tampered(into: Tampering, around: &Files) -> Tampered {
    let edit = Edit {
        drive: "0/4".to_owned(),
        root: PathBuf::new(),
        path: layout::HEALING.to_owned(),
        before: None,
        after: Some(b"stranger".to_vec()),
    };
    Tampered { node: 0, into, edit, around: around.clone(), has_made_folder: false }
}

fn files(intent: Vec<u8>, marker: &[u8]) -> Files {
    Files::from([
        (("0/0".to_owned(), INTENT.to_owned()), intent),
        (("0/4".to_owned(), layout::HEALING.to_owned()), marker.to_vec()),
    ])
}

/// Goal: only the failure may be written down beside a strange marker; beside a record that blocks, nothing.
#[test]
fn what_may_change_is_the_recorded_failure_alone() {
    let before = files(record("null", "null", 1), b"stranger");
    let failed = files(record("null", "\"refused\"", 2), b"stranger");
    assert!(tampered(Tampering::E28, &before).changed(&failed).is_empty());
    assert_eq!(tampered(Tampering::E5, &before).changed(&failed).len(), 1);
    let went_on = files(record("\"k\"", "\"refused\"", 2), b"stranger");
    assert_eq!(tampered(Tampering::E28, &before).changed(&went_on).len(), 1);
    let taken_over = files(record("null", "\"refused\"", 2), b"own");
    assert_eq!(tampered(Tampering::E28, &before).changed(&taken_over).len(), 1);
    let mut lost = before.clone();
    lost.retain(|(_, path), _| path != INTENT);
    assert_eq!(tampered(Tampering::E28, &before).changed(&lost).len(), 1);
}

#[test]
fn a_marker_that_is_taken_back_is_no_change_after_a_failed_acquisition() {
    let mut before = files(record("null", "null", 1), b"stranger");
    before.insert(("0/2".to_owned(), layout::HEALING.to_owned()), b"own".to_vec());
    let after = files(record("null", "\"refused\"", 2), b"stranger");
    assert!(tampered(Tampering::SecondMarker, &before).changed(&after).is_empty());
    assert_eq!(tampered(Tampering::E28, &before).changed(&after).len(), 1);
}

#[test]
fn a_ledger_that_cannot_be_trusted_is_flagged_and_nothing_else() {
    let before = files(record("5", "null", 4), b"owner");
    let mut after = files(record("5", "\"E62\"", 5), b"owner");
    let flag = ".rustfs.sys/buckets/1_ahm_checkpoint.blocked".to_owned();
    after.insert(("0/0".to_owned(), flag.clone()), b"blocked".to_vec());
    assert!(tampered(Tampering::E62, &before).changed(&after).is_empty());
    assert_eq!(tampered(Tampering::E28, &before).changed(&after).len(), 1, "no flag belongs here");
    let gone = tampered(Tampering::E62, &after).changed(&before);
    assert!(gone.iter().any(|it| it.contains(&flag)), "a flag that is gone: {gone:?}");
}

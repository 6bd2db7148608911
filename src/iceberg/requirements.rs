//! What a client expects of a table or view before its commit is applied.

use iceberg::TableRequirement;
use serde_json::Value;
use uuid::Uuid;

use super::Metadata;
use super::Trouble;
use super::View;
use super::limits;
use super::shown::read;
use super::trouble::guarded;

const TABLE_REQUIREMENTS: &[&str] = &[
    "assert-create",
    "assert-table-uuid",
    "assert-ref-snapshot-id",
    "assert-current-schema-id",
    "assert-default-spec-id",
    "assert-default-sort-order-id",
    "assert-last-assigned-field-id",
    "assert-last-assigned-partition-id",
];

/// Whether a table meets all `requirements` of a commit.
///
/// # Errors
/// `Conflict` for one that is not met (`assert-create` never is, on a table that exists); `Invalid` for one that is
/// unknown or malformed, also when it follows one that is not met.
pub fn check(requirements: &[Value], metadata: &Metadata) -> Result<(), Trouble> {
    let requirements: Vec<TableRequirement> =
        within(requirements)?.iter().map(requirement).collect::<Result<_, _>>()?;
    for requirement in requirements {
        guarded("a requirement", || requirement.check(Some(metadata.seen())))?;
    }
    Ok(())
}

/// Whether a view meets all `requirements`: the only one there is asserts its UUID.
///
/// # Errors
/// As [`check`].
pub fn check_view(requirements: &[Value], view: &View) -> Result<(), Trouble> {
    for requirement in within(requirements)? {
        let kind = kind_of(requirement)?;
        if kind != "assert-view-uuid" {
            return Err(unknown(kind));
        }
        let uuid = requirement["uuid"].as_str().and_then(|uuid| Uuid::parse_str(uuid).ok());
        match uuid {
            None => return Err(Trouble::invalid("assert-view-uuid has no uuid")),
            Some(uuid) if uuid != view.uuid() => {
                return Err(Trouble::conflict("the view has another uuid than was required"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn within(requirements: &[Value]) -> Result<&[Value], Trouble> {
    if requirements.len() > limits::REQUIREMENTS_MAX {
        let max = limits::REQUIREMENTS_MAX;
        return Err(Trouble::invalid(format!("a commit has at most {max} requirements")));
    }
    Ok(requirements)
}

fn requirement(value: &Value) -> Result<TableRequirement, Trouble> {
    let kind = kind_of(value)?;
    if !TABLE_REQUIREMENTS.contains(&kind) {
        return Err(unknown(kind));
    }
    // A snapshot-id of null demands that the reference is absent. The crate takes a missing one for null, so that a
    // client that forgot it would demand what it never said.
    if kind == "assert-ref-snapshot-id" && value.get("snapshot-id").is_none() {
        return Err(Trouble::invalid("assert-ref-snapshot-id has no snapshot-id"));
    }
    read(&format!("the requirement {kind}"), value.clone())
}

fn kind_of(requirement: &Value) -> Result<&str, Trouble> {
    requirement["type"].as_str().ok_or_else(|| Trouble::invalid("a requirement has no type"))
}

fn unknown(kind: &str) -> Trouble {
    Trouble::invalid(format!("the requirement {kind:?} is unknown"))
}

//! How a drive of this node is opened.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use crate::disk::drive::DriveError;
use crate::disk::drive::Fences;
use crate::disk::drive::LocalDrive;
use crate::disk::drive::LocalOptions;
use crate::disk::drive::LocalSeams;
use crate::node::control::Orders;
use crate::node::drives::Attached;
use crate::node::drives::keeper::Open;
use crate::node::locks::LocalLocks;
use crate::protocol::config::NodeConfig;
use crate::protocol::crash_point::Passing;
use crate::protocol::rules::SharedRules;
use crate::sys;

/// Opens the drive in `slot` of the configured node. With a planted defect it opens only file systems
/// that the harness made for this run.
pub fn opener(
    config: &NodeConfig,
    slot: usize,
    orders: &Orders,
    locks: &LocalLocks,
    passing: &Arc<dyn Passing>,
    rules: &SharedRules,
) -> Arc<Open> {
    let options = LocalOptions {
        name: format!("{}/{slot}", config.node),
        root: config.nodes[config.node].drives[slot].clone(),
        allow_unmounted: config.allow_unmounted,
        durability: config.durability,
    };
    let seams = LocalSeams {
        fences: Arc::new(locks.clone()) as Arc<dyn Fences>,
        passing: Arc::clone(passing),
        rules: Arc::clone(rules),
    };
    let orders = orders.clone();
    Arc::new(move || {
        refuse_foreign(&options.name, &options.root, &orders)?;
        let drive = LocalDrive::open(options.clone(), seams.clone())?;
        Ok(Arc::new(drive) as Arc<dyn Attached>)
    })
}

/// Refuses to open a drive that was not made by this run when a defect is planted.
fn refuse_foreign(name: &str, root: &Path, orders: &Orders) -> Result<(), DriveError> {
    if orders.defects.is_empty() {
        return Ok(());
    }
    let uuid = File::open(root).and_then(|root| sys::file_system_uuid(root.as_fd()));
    let found = match uuid {
        Ok(uuid) => Uuid::from_bytes(uuid).to_string(),
        Err(error) => format!("none ({error})"),
    };
    if orders.run_file_systems.iter().any(|ours| ours.eq_ignore_ascii_case(&found)) {
        return Ok(());
    }
    let why = format!(
        "drive {name} has file system UUID {found}, which this run did not make; a node with planted defects opens no other"
    );
    Err(DriveError::Illegal { why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::control::Defect;

    #[test]
    fn a_planted_defect_never_meets_a_drive_of_somebody_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let sound = Orders::default();
        assert_eq!(refuse_foreign("0/0", folder.path(), &sound), Ok(()));
        let bent = Orders {
            defects: vec![Defect::SkipsDirectorySync],
            run_file_systems: vec![Uuid::from_u128(1).to_string()],
        };
        let refused = refuse_foreign("0/0", folder.path(), &bent);
        assert!(matches!(refused, Err(DriveError::Illegal { .. })), "{refused:?}");
    }
}

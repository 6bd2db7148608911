//! What the drives of a set hold of the protocol, as the protocol wants to see it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::ReplacementCopy;
use crate::node::replacement::places;
use crate::node::seams::DriveClient;
use crate::node::service::Node;
use crate::protocol::replacement::discover::Drive;
use crate::protocol::replacement::discover::DriveState;
use crate::protocol::replacement::discover::Survey;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::status::DriveRecords;
use crate::protocol::replacement::store::Files;

/// Asks one drive.
///
/// # Errors
///
/// Why it says nothing, in words.
pub async fn read(drive: Arc<dyn DriveClient>) -> Result<ReplacementCopy, String> {
    match drive.call(DriveRequest::ReadReplacement).await {
        Ok(DriveReply::Replacement(copy)) => Ok(*copy),
        Ok(other) => Err(format!("another answer than asked for: {other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// The files of a drive, as decisions read them.
pub fn files(copy: &ReplacementCopy) -> Files {
    let records = copy.records.iter();
    Files {
        has_folder: copy.has_folder,
        is_blank: copy.format_id.is_none(),
        bytes: records.map(|(path, bytes)| (path.clone(), bytes.to_vec())).collect(),
    }
}

/// Reads every drive of a set.
pub async fn survey(node: &Arc<Node>, set: usize) -> Survey {
    let size = node.loaded.config.set_drives;
    let names = places::endpoints(&node.loaded.config);
    let owners = node.loaded.endpoints();
    let drives = (set * size..(set + 1) * size).map(|endpoint| {
        let name = names[endpoint].clone();
        let is_local = owners[endpoint].0 == node.me();
        let client = node.client(endpoint);
        async move { drive(name, is_local, read(client).await) }
    });
    let drives = futures::future::join_all(drives).await;
    let (active, anchors) = node.replacements.remembered(&drives);
    Survey { set: SetId { pool: 0, set }, drives, active, anchors }
}

fn drive(endpoint: String, is_local: bool, copy: Result<ReplacementCopy, String>) -> Drive {
    let mut drive = Drive {
        endpoint,
        is_local,
        state: DriveState::Formatted,
        marker: None,
        intents: BTreeMap::new(),
        torn: BTreeSet::new(),
    };
    let copy = match copy {
        Ok(copy) => copy,
        Err(why) => {
            drive.state = DriveState::Away(why);
            return drive;
        }
    };
    // One that was formatted for a rebuild, and that nobody has marked, is as good as blank.
    let is_waiting = copy.format_id.is_none() || copy.is_unfinished && copy.marker.is_none();
    drive.state = match &copy.mount {
        Err(why) if is_waiting => DriveState::Away(why.clone()),
        _ if is_waiting => DriveState::Blank,
        _ => DriveState::Formatted,
    };
    drive.marker = copy.marker.as_ref().map(|marker| marker.to_vec());
    let files = files(&copy);
    for id in files.generations() {
        if files.is_torn(id) {
            drive.torn.insert(id);
        } else if let Some(bytes) = files.record(Record::Intent, id) {
            drive.intents.insert(id, Intent::read(id, bytes));
        }
    }
    drive
}

/// What a drive holds for the status.
pub fn records(copy: Result<ReplacementCopy, String>) -> DriveRecords {
    let mut records = DriveRecords::default();
    let copy = match copy {
        Ok(copy) => copy,
        Err(why) => return DriveRecords { error: Some(why), ..records },
    };
    for (path, bytes) in &copy.records {
        match names::parse(path) {
            Name::Record(Record::Intent, id) => {
                records.intents.insert(id, Intent::read(id, bytes));
            }
            Name::Record(Record::Proof, id) => {
                records.proofs.insert(id, Proof::read(id, bytes));
            }
            _ => {}
        }
    }
    records
}

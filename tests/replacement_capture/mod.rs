//! What is asked about captured records.

use firedrill::protocol::replacement::checkpoint::Checkpoint;
use firedrill::protocol::replacement::identity::Identity;
use firedrill::protocol::replacement::identity::Mounted;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::proof::Proof;
use firedrill::protocol::replacement::refusal::Refusal;

use crate::Case;

pub mod legacy;
pub mod next;
pub mod upgrade;

/// The host part of every endpoint of the captures; the rest is the drive's root.
const HOST: &str = "http://127.0.0.1:9402";

/// Where `endpoint` lies, as `node2/d1`.
pub fn drive(endpoint: &str) -> &str {
    endpoint.strip_prefix(HOST).and_then(|path| path.strip_prefix("/srv/repl/")).unwrap()
}

/// The target `endpoint` as it is mounted during the capture: as the capture says, or else as recorded.
pub fn mounted(case: &Case, recorded: &Identity, format_id: Option<String>) -> Mounted {
    let mut identity = recorded.clone();
    if drive(&recorded.endpoint) == "node2/d1"
        && let Some((device, filesystem)) = case.mount()
    {
        identity.physical_device_ids = vec![device];
        identity.filesystem_identity = filesystem;
    }
    // The captures say nothing of the file systems' UUIDs: another device is another file system here.
    let filesystem_uuid = Some(identity.physical_device_ids.join("+"));
    Mounted { identity, filesystem_uuid, format_id }
}

/// Parses and encodes a record, by the rules of its kind; what is wrong with it otherwise.
pub fn round_trip(record: Record, id: GenerationId, bytes: &[u8]) -> Result<(), String> {
    let encoded = match record {
        Record::Seal => names::SEAL_BYTES.to_vec(),
        Record::Intent => {
            let intent = Intent::parse(bytes).map_err(|error| error.to_string())?;
            match Intent::read(id, bytes) {
                Ok(read) if read == intent => {}
                Err(Refusal::LegacyRecord(_)) if intent.schema_version == 5 => {}
                other => return Err(format!("{other:?}")),
            }
            intent.encode()
        }
        Record::ResumeState => {
            // An ordinary heal's state is never a conflict, whatever its schema.
            let read = Intent::read(id, bytes).map_err(|refusal| refusal.to_string())?;
            assert!(!read.is_replacement() && read.schema_version == 7);
            Intent::parse(bytes).map_err(|error| error.to_string())?.encode()
        }
        Record::Proof => Proof::read(id, bytes).map_err(|refusal| refusal.to_string())?.encode(),
        Record::Checkpoint => {
            Checkpoint::read(id, bytes).map_err(|refusal| refusal.to_string())?;
            Checkpoint::parse(bytes).map_err(|error| error.to_string())?.encode()
        }
        other => return Err(format!("a {other:?} was not expected")),
    };
    if encoded == bytes {
        return Ok(());
    }
    let (ours, theirs) = (String::from_utf8_lossy(&encoded), String::from_utf8_lossy(bytes));
    Err(format!("comes back as {ours}, was {theirs}"))
}

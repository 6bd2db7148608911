//! Where the records lie: one place for every name, and which record a name in a listing is.
//!
//! All paths are relative to a drive's root. Names that are not listed here (locks of other releases,
//! leftovers of a replaced file, whatever an operator left) are [`Name::Other`]: they are neither read nor
//! removed.
//!
//! # Sources
//!
//! The layout of the released servers, `.rustfs.sys/buckets`; the identity side-file is our own.

use crate::protocol::replacement::ids::GenerationId;

/// The folder of the intents, seals, proofs and migration files, on the survivor anchor.
pub const FOLDER: &str = ".rustfs.sys/buckets/ahm-replacement";
/// The folder of the checkpoints and of older releases' records, on the survivor anchor.
pub const LEDGERS: &str = ".rustfs.sys/buckets";
/// The ownership marker, on a target.
pub const MARKER: &str = ".rustfs.sys/healing.bin";
/// The drive's format, on a target.
pub const FORMAT: &str = ".rustfs.sys/format.json";
/// The execution lease, at the root of a target. It is never removed.
pub const LEASE: &str = ".rustfs-replacement.lock";
/// The lock of compare-and-swap updates, one in each folder where one happened. It is never removed.
pub const SWAP_LOCK: &str = ".rustfs-cas.lock";

/// What a seal holds.
pub const SEAL_BYTES: &[u8] = b"sealed";
/// What the flag of a refused checkpoint holds.
pub const BLOCKED_BYTES: &[u8] = b"blocked";

/// Declares the records that are named after one generation: kind, folder, ending of the name.
macro_rules! records {
    ($($(#[doc = $doc:literal])+ $variant:ident = $folder:ident / $ending:literal,)+) => {
        /// A record that is named after one generation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Record {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Record {
            /// Every kind there is.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The folder that it lies in.
            pub fn folder(self) -> &'static str {
                match self { $(Self::$variant => $folder,)+ }
            }

            /// What follows the generation in its name.
            pub fn ending(self) -> &'static str {
                match self { $(Self::$variant => $ending,)+ }
            }
        }
    };
}

records! {
    /// The generation's own record, the only authority about its phase.
    Intent = FOLDER / "_ahm_replacement_intent.json",
    /// Proves that the intent was once completely published.
    Seal = FOLDER / "_ahm_replacement_intent_seal",
    /// What the targets were when the generation began: our own side-file.
    Note = FOLDER / "_firedrill_identity.json",
    /// Durable evidence that the generation finished.
    Proof = FOLDER / "_ahm_replacement_completion_proof.json",
    /// An operator's permission to import legacy records, named after the successor.
    Approval = FOLDER / "_legacy_replacement_approval.json",
    /// The approval's bytes, kept after it was consumed, named after the successor.
    Receipt = FOLDER / "_legacy_replacement_receipt.json",
    /// The ledger of the pass that is under way.
    Checkpoint = LEDGERS / "_ahm_checkpoint.json",
    /// Flags a checkpoint that was refused.
    Blocked = LEDGERS / "_ahm_checkpoint.blocked",
    /// An older release's digest of a checkpoint.
    CheckpointDigest = LEDGERS / "_ahm_checkpoint.sha256",
    /// An older release's progress.
    Progress = LEDGERS / "_ahm_progress.json",
    /// An intent where older releases kept it.
    FlatIntent = LEDGERS / "_ahm_replacement_intent.json",
    /// A proof where older releases kept it.
    FlatProof = LEDGERS / "_ahm_replacement_completion_proof.json",
    /// An older release's index entry.
    FlatIndex = LEDGERS / "_ahm_replacement_recovery.json",
    /// An ordinary heal's state; older releases kept intents under this name too.
    ResumeState = LEDGERS / "_ahm_resume_state.json",
}

/// Where `record` of `generation` lies.
pub fn path(record: Record, generation: GenerationId) -> String {
    format!("{}/{generation}{}", record.folder(), record.ending())
}

/// Where the original bytes of a retired `source` lie after their import into `successor`.
pub fn archive_path(successor: GenerationId, source: GenerationId) -> String {
    format!("{FOLDER}/{successor}_{source}{ARCHIVE_ENDING}")
}

/// What follows both generations in the name of an archive.
const ARCHIVE_ENDING: &str = "_legacy_original.json";

/// What a name in a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// A record of a generation.
    Record(Record, GenerationId),
    /// The original bytes of a source that was imported.
    Archive {
        /// Into which generation.
        successor: GenerationId,
        /// Whose bytes.
        source: GenerationId,
    },
    /// Nothing of ours: left alone.
    Other,
}

/// What `path`, relative to a drive's root, is.
pub fn parse(path: &str) -> Name {
    let Some((folder, name)) = path.rsplit_once('/') else {
        return Name::Other;
    };
    if folder == FOLDER
        && let Some(ids) = name.strip_suffix(ARCHIVE_ENDING)
        && let Some((successor, source)) = ids.split_once('_')
        && let (Ok(successor), Ok(source)) = (successor.parse(), source.parse())
    {
        return Name::Archive { successor, source };
    }
    Record::ALL
        .iter()
        .filter(|record| record.folder() == folder)
        .find_map(|record| {
            let id = name.strip_suffix(record.ending())?.parse().ok()?;
            Some(Name::Record(*record, id))
        })
        .unwrap_or(Name::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_found_again_by_its_name() {
        let id: GenerationId = "3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001".parse().unwrap();
        for record in Record::ALL {
            assert_eq!(parse(&path(*record, id)), Name::Record(*record, id));
        }
        let archive = archive_path(id, id);
        assert_eq!(parse(&archive), Name::Archive { successor: id, source: id });
    }

    #[test]
    fn names_of_others_are_nobodys_record() {
        let id = "3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001";
        let names = [
            format!("{FOLDER}/.rustfs-cas.lock"),
            format!("{FOLDER}/{id}_ahm_replacement_intent.rustfs-cas.lock"),
            format!("{FOLDER}/{}_ahm_replacement_intent.json", id.to_uppercase()),
            format!("{FOLDER}/.buckets_ahm-replacement_{id}_ahm_replacement_intent.json.{id}.tmp"),
            format!("{FOLDER}/.{id}.migration.tmp"),
            format!("{LEDGERS}/{id}_ahm_replacement_intent_seal"),
            format!("{id}_ahm_replacement_intent.json"),
        ];
        for name in names {
            assert_eq!(parse(&name), Name::Other, "{name}");
        }
    }
}

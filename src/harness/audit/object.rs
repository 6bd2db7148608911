//! The shards of one object, on the drives that agree on its metadata.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;

use super::AuditOptions;
use super::census::DriveProblem;
use super::census::ProblemKind;
use super::content::Contents;
use super::key::Holding;
use super::key::Key;
use super::part::Buffers;
use super::part::PartFinding;
use super::part::PartReader;
use super::part::Source;
use super::stripe::members;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::Version;
use crate::disk::layout;
use crate::value::Digest;

/// What the shards of an object are worth.
#[derive(Default)]
pub(super) struct Shards {
    /// The least number of good shards over all blocks of all parts.
    pub(super) good: usize,
    /// SHA-256 of the contents, where they can be decoded and somebody asked.
    pub(super) digest: Option<Digest>,
    /// Whether shards or contents contradict what is stored in a way that names no culprit.
    pub(super) is_contradictory: bool,
}

/// Reads the shards of one object.
pub(super) struct ObjectReader<'a> {
    pub(super) key: &'a Key<'a>,
    pub(super) object: &'a ObjectBody,
    /// The drives that agree on it.
    pub(super) slots: &'a [usize],
    pub(super) problems: &'a mut Vec<DriveProblem>,
    pub(super) bytes_read: &'a mut u64,
}

impl<'a> ObjectReader<'a> {
    pub(super) fn read(&mut self, options: &AuditOptions, buffers: &mut Buffers) -> Shards {
        let object = self.object;
        let slots = self.usable_slots();
        let mut good = slots.len();
        let Some(erasure) = buffers.erasure(object.data, object.parity) else {
            return Shards::default();
        };
        let mut contents = Contents::new(object, options);
        let mut is_decoded = true;
        let mut is_contradictory = false;
        for part in &object.parts {
            let sources = self.sources(part, &slots);
            let reader = PartReader { object, part, erasure: &erasure, sources: &sources };
            let finding = reader.read(&mut contents, buffers);
            good = good.min(finding.good_min);
            is_decoded &= finding.is_decoded;
            is_contradictory |= finding.unsettled != 0 || finding.is_padded_wrongly;
            self.report(part, &slots, &finding);
        }
        if !is_decoded {
            return Shards { good, digest: None, is_contradictory };
        }
        let (digest, mismatches) = contents.finish();
        for mismatch in &mismatches {
            self.everywhere(mismatch);
        }
        is_contradictory |= !mismatches.is_empty();
        Shards { good, digest, is_contradictory }
    }

    /// The slot that holds each shard, among the drives that agree; a drive that claims another shard than
    /// the distribution gives it is left out.
    fn usable_slots(&mut self) -> BTreeMap<usize, usize> {
        let mut slots = BTreeMap::new();
        for slot in self.slots {
            let Holding::Held(meta, _) = &self.key.holdings[*slot] else { continue };
            let own = meta.find(self.object.version).and_then(Version::as_object);
            let claimed = own.map_or(0, |own| own.shard);
            let given = usize::from(self.object.distribution[*slot]);
            if claimed == given {
                slots.insert(given - 1, *slot);
            } else {
                let detail = format!("it claims shard {claimed}, its slot has shard {given}");
                self.add(*slot, ProblemKind::Inconsistent, self.key.meta_path(), detail);
            }
        }
        slots
    }

    /// Opens one part on every usable drive.
    fn sources(&mut self, part: &Part, slots: &BTreeMap<usize, usize>) -> Vec<Source<'a>> {
        let layout = PartLayout {
            part_bytes: part.size,
            data: self.object.data,
            block_bytes: self.object.block_bytes,
        };
        let expected = layout.file_bytes();
        (0..self.object.total())
            .map(|shard| match slots.get(&shard) {
                Some(slot) => self.source(part, *slot, expected),
                None => Source::Absent,
            })
            .collect()
    }

    fn source(&mut self, part: &Part, slot: usize, expected: u64) -> Source<'a> {
        let path = self.path(part);
        let found =
            if self.object.is_inline() { self.inline(slot) } else { self.file(slot, &path) };
        match found {
            Ok((source, bytes)) if bytes == expected => {
                *self.bytes_read += bytes;
                source
            }
            Ok((_, bytes)) => {
                let detail = format!("it has {bytes} bytes, {expected} belong there");
                self.add(slot, ProblemKind::PartLength, path, detail);
                Source::Absent
            }
            Err(detail) => {
                self.add(slot, ProblemKind::PartMissing, path, detail);
                Source::Absent
            }
        }
    }

    fn inline(&self, slot: usize) -> Result<(Source<'a>, u64), String> {
        let Holding::Held(meta, error) = &self.key.holdings[slot] else {
            return Err("there is no xl.meta".to_owned());
        };
        match (meta.inline(self.object.version), error) {
            (Some(value), _) => Ok((Source::Inline(value), value.len() as u64)),
            (None, Some(error)) => Err(format!("the inline block is broken: {error}")),
            (None, None) => Err("the inline value is missing".to_owned()),
        }
    }

    fn file(&self, slot: usize, path: &str) -> Result<(Source<'a>, u64), String> {
        let Some(root) = &self.key.seats[slot].root else {
            return Err("the drive is not there".to_owned());
        };
        let opened = File::open(root.join(path)).and_then(|file| {
            let facts = file.metadata()?;
            Ok((file, facts))
        });
        match opened {
            Ok((_, facts)) if !facts.is_file() => Err("it is not a file".to_owned()),
            Ok((file, facts)) => Ok((Source::File(file), facts.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err("the shard file is missing".to_owned())
            }
            Err(error) => Err(format!("it cannot be opened: {error}")),
        }
    }

    fn report(&mut self, part: &Part, slots: &BTreeMap<usize, usize>, finding: &PartFinding) {
        let path = self.path(part);
        let what = if self.object.is_inline() { "the inline value" } else { "the file" };
        for (shard, (block, seen)) in &finding.corrupt {
            let Some(slot) = slots.get(shard) else { continue };
            let detail = format!("frame {block} of {what}: {seen}");
            self.add(*slot, ProblemKind::FrameCorrupt, path.clone(), detail);
        }
        for (shard, block) in &finding.misplaced {
            let Some(slot) = slots.get(shard) else { continue };
            let number = shard + 1;
            let detail = format!(
                "frame {block} of {what} is whole, but not shard {number} of this stripe: the others agree without it"
            );
            self.add(*slot, ProblemKind::ShardMisplaced, path.clone(), detail);
        }
        for shard in members(finding.unsettled) {
            let Some(slot) = slots.get(&shard) else { continue };
            let detail = format!(
                "the shards of part {} contradict each other, and nothing stored tells which are wrong",
                part.number
            );
            self.add(*slot, ProblemKind::ShardMisplaced, path.clone(), detail);
        }
        if finding.is_padded_wrongly {
            self.everywhere(&format!("the padding of part {} is not zero", part.number));
        }
    }

    /// A problem of the contents, which no drive has more than another.
    fn everywhere(&mut self, detail: &str) {
        for slot in self.slots {
            self.add(*slot, ProblemKind::ContentMismatch, self.key.meta_path(), detail.to_owned());
        }
    }

    fn add(&mut self, slot: usize, kind: ProblemKind, path: String, detail: String) {
        self.problems.push(self.key.problem(slot, kind, path, detail));
    }

    fn path(&self, part: &Part) -> String {
        if self.object.is_inline() {
            return self.key.meta_path();
        }
        let Key { bucket, path, .. } = self.key;
        let data_dir = self.object.data_dir.hyphenated();
        format!("{bucket}/{path}/{data_dir}/{}", layout::part_file(part.number))
    }
}

//! One part of one version: every frame of every shard, every stripe, and the contents.
//!
//! Each byte is read once, unless shards contradict each other in a way that only the contents can
//! settle: then the part is read again for each explanation until one fits.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use md5::Digest as _;
use md5::Md5;

use super::content::Contents;
use super::content::expected_md5;
use super::stripe;
use super::stripe::Mask;
use super::stripe::Scratch;
use super::stripe::Stripe;
use super::stripe::members;
use super::stripe::subsets;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;

/// How many explanations of contradicting shards are tried.
const EXPLANATIONS_MAX: usize = 256;

/// Where a shard's bytes are.
pub(super) enum Source<'a> {
    /// Nowhere.
    Absent,
    /// In a file of the right length.
    File(File),
    /// In the metadata, with the right length.
    Inline(&'a [u8]),
}

/// Buffers that are reused from part to part.
#[derive(Default)]
pub(super) struct Buffers {
    frames: Vec<Vec<u8>>,
    scratch: Scratch,
    erasures: BTreeMap<(usize, usize), Arc<Erasure>>,
}

impl Buffers {
    /// The code for a geometry; `None` when it is impossible.
    pub(super) fn erasure(&mut self, data: usize, parity: usize) -> Option<Arc<Erasure>> {
        if let Some(erasure) = self.erasures.get(&(data, parity)) {
            return Some(Arc::clone(erasure));
        }
        let erasure = Arc::new(Erasure::new(data, parity).ok()?);
        self.erasures.insert((data, parity), Arc::clone(&erasure));
        Some(erasure)
    }
}

/// What was found out about one part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PartFinding {
    /// The least number of good shards over all blocks.
    pub(super) good_min: usize,
    /// Whether the contents were decoded.
    pub(super) is_decoded: bool,
    /// First block whose frame does not verify, by shard, with what was seen.
    pub(super) corrupt: BTreeMap<usize, (u64, String)>,
    /// First block in which a shard contradicts the others, by shard.
    pub(super) misplaced: BTreeMap<usize, u64>,
    /// Shards of which some are wrong, and nothing stored tells which.
    pub(super) unsettled: Mask,
    /// Whether a block is followed by other bytes than zeros.
    pub(super) is_padded_wrongly: bool,
}

/// One way in which contradicting shards may have come about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Explanation {
    /// Wrong shards by block; a block that is not named has none.
    wrong: BTreeMap<u64, Mask>,
    /// Two shards that stand in each other's place in every block.
    exchanged: Option<(usize, usize)>,
}

/// The reader of one part.
pub(super) struct PartReader<'a> {
    pub(super) object: &'a ObjectBody,
    pub(super) part: &'a Part,
    pub(super) erasure: &'a Erasure,
    /// By shard, from 0.
    pub(super) sources: &'a [Source<'a>],
}

/// What one pass over a part saw.
struct Pass {
    finding: PartFinding,
    /// Candidates by block, where the shards contradict each other and redundancy does not tell.
    ambiguous: BTreeMap<u64, Vec<Mask>>,
    /// Frames that verify, by block.
    have_min: Mask,
}

impl PartReader<'_> {
    /// Reads the whole part and feeds what it decodes to `contents`.
    pub(super) fn read(&self, contents: &mut Contents, buffers: &mut Buffers) -> PartFinding {
        let before = contents.clone();
        let pass = self.pass(&Explanation::default(), buffers, &mut |bytes| contents.update(bytes));
        let mut finding = pass.finding;
        let expected = expected_md5(self.object, self.part);
        let found_md5 = contents.part_md5();
        let is_wrong = expected.is_some() && found_md5.is_some() && expected != found_md5;
        let settled = if !pass.ambiguous.is_empty() {
            let found = expected.and_then(|expected| {
                let mut explanations = explanations(&pass.ambiguous);
                explanations.extend(exchanges(pass.have_min));
                self.explain(&explanations, expected, buffers)
            });
            if found.is_none() {
                let shards = pass.ambiguous.values().flatten().fold(0, |all, mask| all | mask);
                finding.unsettled = shards;
                finding.is_decoded = false;
                let fewest = pass.ambiguous.values().flatten().map(|mask| mask.count_ones());
                let most_wrong = fewest.max().unwrap_or_default() as usize;
                let have = pass.have_min.count_ones() as usize;
                finding.good_min = finding.good_min.min(have.saturating_sub(most_wrong));
                *contents = before;
                return finding;
            }
            found
        } else if finding.is_decoded && is_wrong {
            // With one parity shard, or none, two shards can be exchanged so that the stripe still fits.
            let explanations = exchanges(pass.have_min);
            expected.and_then(|expected| self.explain(&explanations, expected, buffers))
        } else {
            None
        };
        if let Some(explanation) = settled {
            *contents = before;
            let again = self.pass(&explanation, buffers, &mut |bytes| contents.update(bytes));
            finding = again.finding;
        }
        if finding.is_decoded {
            contents.end_part(self.part);
        }
        finding
    }

    /// The first explanation under which the contents have the MD5 that they should have.
    fn explain(
        &self,
        explanations: &[Explanation],
        expected: [u8; 16],
        buffers: &mut Buffers,
    ) -> Option<Explanation> {
        let fits = |explanation: &&Explanation| {
            let mut md5 = Md5::new();
            let pass = self.pass(explanation, buffers, &mut |bytes| md5.update(bytes));
            pass.finding.is_decoded && <[u8; 16]>::from(md5.finalize()) == expected
        };
        explanations.iter().take(EXPLANATIONS_MAX).find(fits).cloned()
    }

    fn pass(
        &self,
        explanation: &Explanation,
        buffers: &mut Buffers,
        consume: &mut dyn FnMut(&[u8]),
    ) -> Pass {
        let layout = PartLayout {
            part_bytes: self.part.size,
            data: self.erasure.data(),
            block_bytes: self.object.block_bytes,
        };
        let present = self.present();
        let mut pass = Pass {
            finding: PartFinding {
                good_min: present.count_ones() as usize,
                is_decoded: true,
                ..PartFinding::default()
            },
            ambiguous: BTreeMap::new(),
            have_min: present,
        };
        buffers.frames.resize(self.erasure.total(), Vec::new());
        for block in 0..layout.frames() {
            let span = layout.frame(block);
            let have = self.load(block, span, present, &mut buffers.frames, &mut pass.finding);
            if have.count_ones() < pass.have_min.count_ones() {
                pass.have_min = have;
            }
            let mut shards = buffers
                .frames
                .iter()
                .map(|frame| frame.get(frame::HASH_BYTES..).unwrap_or_default())
                .collect::<Vec<_>>();
            let mut wrong = explanation.wrong.get(&block).copied().unwrap_or_default();
            if let Some((one, other)) = explanation.exchanged {
                shards.swap(one, other);
                // They decode, but neither is where a reader would look for it.
                wrong |= 1 << one | 1 << other;
            }
            let usable = if explanation.exchanged.is_some() { have } else { have & !wrong };
            let verdict = stripe::examine(self.erasure, &shards, usable, &mut buffers.scratch);
            let mut good = usable;
            match verdict {
                Stripe::Fits => {}
                Stripe::Wrong(more) => {
                    good &= !more;
                    wrong |= more;
                }
                Stripe::Ambiguous(candidates) => {
                    pass.ambiguous.insert(block, candidates);
                    pass.finding.is_decoded = false;
                }
                Stripe::Lost => pass.finding.is_decoded = false,
            }
            for shard in members(wrong & have) {
                pass.finding.misplaced.entry(shard).or_insert(block);
            }
            let good_count = (have & !wrong).count_ones() as usize;
            pass.finding.good_min = pass.finding.good_min.min(good_count);
            if pass.finding.is_decoded {
                match consume_block(self.erasure, &shards, good, span.block_bytes, consume) {
                    Consumed::Whole => {}
                    Consumed::Padded => pass.finding.is_padded_wrongly = true,
                    Consumed::Nothing => pass.finding.is_decoded = false,
                }
            }
        }
        pass
    }

    fn present(&self) -> Mask {
        let there = |shard: &usize| !matches!(self.sources[*shard], Source::Absent);
        (0..self.sources.len()).filter(there).fold(0, |mask, shard| mask | 1 << shard)
    }

    /// Reads one frame of every shard; returns those that verify.
    fn load(
        &self,
        block: u64,
        span: frame::FrameSpan,
        present: Mask,
        frames: &mut [Vec<u8>],
        finding: &mut PartFinding,
    ) -> Mask {
        let mut have = 0;
        for shard in members(present) {
            let bytes = &mut frames[shard];
            bytes.resize(frame::HASH_BYTES + span.shard_bytes, 0);
            let seen = match self.sources[shard].read_at(span.offset, bytes) {
                Ok(()) if frame::verify(bytes).is_some() => {
                    have |= 1 << shard;
                    continue;
                }
                Ok(()) => "its hash does not match its bytes".to_owned(),
                Err(error) => format!("it cannot be read: {error}"),
            };
            finding.corrupt.entry(shard).or_insert((block, seen));
        }
        have
    }
}

impl Source<'_> {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Absent => Err(io::ErrorKind::NotFound.into()),
            Self::File(file) => file.read_exact_at(bytes, offset),
            Self::Inline(value) => {
                let start = usize::try_from(offset).map_err(io::Error::other)?;
                let from = start.checked_add(bytes.len()).and_then(|end| value.get(start..end));
                bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// What became of a block.
enum Consumed {
    Whole,
    /// Whole, but followed by other bytes than zeros.
    Padded,
    Nothing,
}

/// Hands on the contents of one block.
fn consume_block(
    erasure: &Erasure,
    shards: &[&[u8]],
    good: Mask,
    block_bytes: usize,
    consume: &mut dyn FnMut(&[u8]),
) -> Consumed {
    let data = erasure.data();
    let data_mask = (1 << data) - 1;
    let decoded;
    let decoded_slices;
    let slices = if good & data_mask == data_mask {
        &shards[..data]
    } else {
        match stripe::data_of(erasure, shards, good) {
            Some(data) => decoded = data,
            None => return Consumed::Nothing,
        }
        decoded_slices = decoded.iter().map(Vec::as_slice).collect::<Vec<_>>();
        &decoded_slices
    };
    let mut left = block_bytes;
    let mut consumed = Consumed::Whole;
    for shard in slices {
        let (contents, padding) = shard.split_at(shard.len().min(left));
        consume(contents);
        left -= contents.len();
        if padding.iter().any(|byte| *byte != 0) {
            consumed = Consumed::Padded;
        }
    }
    consumed
}

/// Explanations in which the same shards are wrong throughout, then those in which each block has its own.
fn explanations(ambiguous: &BTreeMap<u64, Vec<Mask>>) -> Vec<Explanation> {
    let of = |wrong: BTreeMap<u64, Mask>| Explanation { wrong, exchanged: None };
    let Some(candidates) = ambiguous.values().next() else { return Vec::new() };
    let uniform = candidates
        .iter()
        .filter(|mask| ambiguous.values().all(|candidates| candidates.contains(mask)))
        .map(|mask| of(ambiguous.keys().map(|block| (*block, *mask)).collect()));
    let mut all = uniform.collect::<Vec<_>>();
    let combinations = ambiguous.values().try_fold(1_usize, |product, candidates| {
        product.checked_mul(candidates.len()).filter(|product| *product <= EXPLANATIONS_MAX)
    });
    for mut number in 0..combinations.unwrap_or_default() {
        let mut wrong = BTreeMap::new();
        for (block, candidates) in ambiguous {
            wrong.insert(*block, candidates[number % candidates.len()]);
            number /= candidates.len();
        }
        let explanation = of(wrong);
        if !all.contains(&explanation) {
            all.push(explanation);
        }
    }
    all
}

/// Explanations in which two shards stand in each other's place.
fn exchanges(have: Mask) -> Vec<Explanation> {
    let pairs = subsets(have, 2).filter_map(|pair| {
        let mut shards = members(pair);
        Some((shards.next()?, shards.next()?))
    });
    pairs.map(|pair| Explanation { wrong: BTreeMap::new(), exchanged: Some(pair) }).collect()
}

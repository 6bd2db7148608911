//! A body on its way in: cut into blocks, and digested.

use bytes::Bytes;
use futures::StreamExt as _;

use super::api::BodyStream;
use super::api::ExpectedChecksum;
use super::api::StoreError;
use super::api::WantedChecksum;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Hasher;
use crate::disk::format::frame::BLOCK_BYTES;

/// The MD5 in hexadecimal, and the additional checksums.
pub(super) type Checked = (String, Vec<(Algorithm, Vec<u8>)>);

/// Digests of the whole contents.
pub(super) struct Digests {
    md5: Hasher,
    others: Vec<(Algorithm, Hasher)>,
}

impl Digests {
    /// Digests of nothing yet.
    pub(super) fn new(checksums: &[WantedChecksum]) -> Self {
        let others = checksums.iter().map(|it| (it.algorithm, Hasher::new(it.algorithm)));
        Self { md5: Hasher::new(Algorithm::Md5), others: others.collect() }
    }

    /// Takes in more bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.others.iter_mut().for_each(|(_, hasher)| hasher.update(bytes));
    }

    /// The MD5 in hexadecimal and the others, if all are what was announced.
    pub(super) fn finish(
        self,
        content_md5: Option<[u8; 16]>,
        checksums: Vec<WantedChecksum>,
    ) -> Result<Checked, StoreError> {
        let md5 = self.md5.finish();
        if content_md5.is_some_and(|expected| expected[..] != md5[..]) {
            return Err(StoreError::BadDigest);
        }
        let mut digests = Vec::new();
        for ((algorithm, hasher), wanted) in self.others.into_iter().zip(checksums) {
            let digest = hasher.finish();
            let expected = match wanted.expected {
                ExpectedChecksum::Any => None,
                ExpectedChecksum::Is(expected) => Some(expected),
                ExpectedChecksum::Trailing(trailer) => Some(trailer().ok_or_else(|| {
                    StoreError::InvalidRequest("the announced trailer is missing".to_owned())
                })?),
            };
            if expected.is_some_and(|expected| expected != digest) {
                return Err(StoreError::BadChecksum(algorithm));
            }
            digests.push((algorithm, digest));
        }
        Ok((hex::encode(md5), digests))
    }
}

/// Cuts a body into blocks.
pub(super) struct Blocks {
    body: BodyStream,
    rest: Bytes,
    /// Bytes that were announced, if any were.
    announced: Option<u64>,
    /// Bytes so far.
    pub(super) received: u64,
}

impl Blocks {
    /// Cuts this body.
    pub(super) fn new(body: BodyStream, announced: Option<u64>) -> Self {
        Self { body, rest: Bytes::new(), announced, received: 0 }
    }

    /// The next block: whole, or shorter at the end, or empty after it.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut block = Vec::new();
        let full = BLOCK_BYTES as usize;
        while block.len() < full {
            if self.rest.is_empty() {
                match self.body.next().await {
                    Some(Ok(bytes)) => self.rest = bytes,
                    Some(Err(error)) => return Err(StoreError::IncompleteBody(error)),
                    None => break,
                }
                continue;
            }
            if block.is_empty() {
                // Only once something has come: who announces much and sends nothing costs nothing.
                let left = self.announced.map_or(0, |all| all.saturating_sub(self.received));
                block.reserve_exact(usize::try_from(left).map_or(full, |left| left.min(full)));
            }
            let take = self.rest.len().min(full - block.len());
            block.extend_from_slice(&self.rest.split_to(take));
        }
        self.received += block.len() as u64;
        Ok(block)
    }
}

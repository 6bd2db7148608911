//! Packed blocks, unpacked up to a limit.

use std::borrow::Cow;
use std::io::Read;

use crate::iceberg::Trouble;

/// How the blocks of a file are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Deflate,
    Snappy,
    Zstandard,
}

impl Packing {
    /// The packing of that name in a file's header; none there is none.
    pub(super) fn named(name: Option<&[u8]>) -> Result<Self, Trouble> {
        match name {
            None | Some(b"null") => Ok(Self::None),
            Some(b"deflate") => Ok(Self::Deflate),
            Some(b"snappy") => Ok(Self::Snappy),
            Some(b"zstandard") => Ok(Self::Zstandard),
            Some(_) => {
                Err(Trouble::unsupported("an Avro file is packed in a way that is not served"))
            }
        }
    }

    /// The plain bytes of a block.
    pub(super) fn unpacked(self, block: &[u8], bytes_max: usize) -> Result<Cow<'_, [u8]>, Trouble> {
        if self == Self::None {
            return if block.len() > bytes_max {
                Err(too_large())
            } else {
                Ok(Cow::Borrowed(block))
            };
        }
        let unpacked = match self {
            Self::None | Self::Deflate => {
                limited(flate2::read::DeflateDecoder::new(block), bytes_max)?
            }
            Self::Zstandard => {
                let decoder = zstd::Decoder::with_buffer(block).map_err(|_| broken())?;
                limited(decoder, bytes_max)?
            }
            Self::Snappy => snappy(block, bytes_max)?,
        };
        Ok(Cow::Owned(unpacked))
    }
}

/// Reads to the end, or one byte past the limit.
pub(in crate::iceberg) fn limited(reader: impl Read, bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    let mut plain = Vec::new();
    let limit = (bytes_max as u64).saturating_add(1);
    reader.take(limit).read_to_end(&mut plain).map_err(|_| broken())?;
    if plain.len() > bytes_max { Err(too_large()) } else { Ok(plain) }
}

/// A snappy block says its length, and is followed by a checksum of what it holds.
fn snappy(block: &[u8], bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    let (packed, sum) = block.split_last_chunk::<4>().ok_or_else(broken)?;
    let length = snap::raw::decompress_len(packed).map_err(|_| broken())?;
    if length > bytes_max {
        return Err(too_large());
    }
    let plain = snap::raw::Decoder::new().decompress_vec(packed).map_err(|_| broken())?;
    if crc32fast::hash(&plain) != u32::from_be_bytes(*sum) {
        return Err(broken());
    }
    Ok(plain)
}

fn broken() -> Trouble {
    Trouble::invalid("packed data is broken")
}

fn too_large() -> Trouble {
    Trouble::invalid("packed data is too large")
}

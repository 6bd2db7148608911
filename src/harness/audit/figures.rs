//! How fast the census is, beside the speed of its parts on the same bytes.
//!
//! One core throughout. Contents are not compared with their ETags here: what is measured is reading,
//! verifying every frame and encoding every stripe again.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::io::Read as _;
use std::time::Duration;
use std::time::Instant;

use super::AuditError;
use super::AuditOptions;
use super::DriveSource;
use super::pool::Pool;
use super::take;
use super::walk_all;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CensusFigures {
    /// Bytes that the census read.
    pub bytes: u64,
    /// The census, walk included.
    pub census: Duration,
    /// Reading the same shard files, and nothing else.
    pub read: Duration,
    /// Hashing so many bytes in frames of the same length.
    pub hash: Duration,
    /// Encoding so many bytes in stripes of the same geometry.
    pub encode: Duration,
}

impl CensusFigures {
    /// The census' speed as a part of what its parts allow one after another; 1 would be perfect.
    pub fn ratio(&self) -> f64 {
        (self.read + self.hash + self.encode).as_secs_f64() / self.census.as_secs_f64()
    }
}

/// Measures the census of drives that hold large objects.
///
/// # Errors
///
/// As [`take`].
pub fn measure(drives: &[DriveSource]) -> Result<CensusFigures, AuditError> {
    let options = AuditOptions { digests: false, contents: false, threads: 1 };
    // Once for the page cache.
    let census = take(drives, &options)?;
    let begun = Instant::now();
    black_box(take(drives, &options)?);
    let taken = begun.elapsed();
    let largest = census.keys.iter().flat_map(|key| &key.versions).max_by_key(|it| it.size);
    let (data, parity) = largest.map_or((1, 0), |it| (it.data_shards.max(1), it.parity_shards));
    let read = read_all(drives, &options)?;
    Ok(CensusFigures {
        bytes: census.bytes_read,
        census: taken,
        read,
        hash: hash(census.bytes_read, data),
        encode: encode(census.bytes_read, data, parity),
    })
}

fn read_all(drives: &[DriveSource], options: &AuditOptions) -> Result<Duration, AuditError> {
    let pool = Pool::open(drives)?;
    let trees = walk_all(&pool, options);
    let mut buffer = vec![0; 1 << 20];
    let begun = Instant::now();
    for (seat, tree) in pool.seats.iter().zip(&trees) {
        let Some(root) = &seat.root else { continue };
        for ((bucket, path), dir) in &tree.dirs {
            for (name, files) in &dir.data_dirs {
                for file in files {
                    let path = root.join(bucket).join(path).join(name).join(&file.name);
                    // What cannot be read costs no time; the census tells of it.
                    let _ = read(&path, &mut buffer);
                }
            }
        }
    }
    Ok(begun.elapsed())
}

fn read(path: &std::path::Path, buffer: &mut [u8]) -> io::Result<()> {
    let mut file = File::open(path)?;
    while file.read(buffer)? > 0 {
        black_box(&buffer);
    }
    Ok(())
}

fn hash(bytes: u64, data: usize) -> Duration {
    let shard = vec![0x5a; frame::shard_size(frame::BLOCK_BYTES, data) as usize];
    let begun = Instant::now();
    for _ in 0..bytes.div_ceil(shard.len() as u64) {
        black_box(frame::hash(black_box(&shard)));
    }
    begun.elapsed()
}

fn encode(bytes: u64, data: usize, parity: usize) -> Duration {
    let Ok(erasure) = Erasure::new(data, parity) else { return Duration::ZERO };
    let shards = erasure.encode_block(&vec![0x5a; frame::BLOCK_BYTES as usize]);
    let stripe_bytes = shards.iter().map(Vec::len).sum::<usize>() as u64;
    let (data, parity) = shards.split_at(data);
    let mut parity = parity.to_vec();
    let begun = Instant::now();
    for _ in 0..bytes.div_ceil(stripe_bytes) {
        erasure.encode_parity(black_box(data), &mut parity);
        black_box(&parity);
    }
    begun.elapsed()
}

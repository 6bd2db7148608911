//! Large objects: what one core could do at most, and an object of many parts with the memory that it takes.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use md5::Digest as _;

use super::Server;
use super::table;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::harness::runner::bench::Tell;
use crate::harness::runner::bench::client::Lane;
use crate::harness::runner::bench::client::Want;

/// The size that the budgets are about.
pub(super) const BUDGETED_BYTES: u64 = 64 << 20;
/// Bytes of a part.
const PART_BYTES: u64 = 64 << 20;
/// Parts that are sent at once.
const PARTS_AT_ONCE: usize = 4;
const KEY: &str = "of-many-parts";

/// What one core could do at most with large objects, in bytes a second.
pub(super) struct Budgets {
    put: f64,
    get: f64,
}

impl Budgets {
    /// Measures it with the node's own code: MD5, encoding and hashing of every byte, and the hashes alone.
    pub(super) fn measure() -> Self {
        const BLOCKS: usize = 64;
        let block: Vec<u8> = (0..frame::BLOCK_BYTES).map(|at| (at * 31 % 251) as u8).collect();
        let erasure = Erasure::new(4, 2).expect("a sound geometry");
        let bytes = (BLOCKS * block.len()) as f64;
        let seconds = |work: &mut dyn FnMut()| {
            let began = Instant::now();
            (0..BLOCKS).for_each(|_| work());
            began.elapsed().as_secs_f64() / bytes
        };
        let mut digest = md5::Md5::new();
        let md5_s = seconds(&mut || digest.update(&block));
        let mut shards = Vec::new();
        let encode_s = seconds(&mut || shards = erasure.encode_block(&block));
        let mut frames = Vec::new();
        let hash_s = seconds(&mut || {
            frames.clear();
            shards.iter().for_each(|shard| frame::encode(shard, &mut frames));
        });
        let four = &frames[..frames.len() * 4 / 6];
        let verify_s = seconds(&mut || {
            let sound = four.chunks(four.len() / 4).all(|framed| frame::verify(framed).is_some());
            assert!(sound, "frames are sound");
        });
        Self { put: 1.0 / (md5_s + encode_s + hash_s), get: 1.0 / verify_s }
    }

    /// Tells how much of it the node did at its best.
    pub(super) fn tell(&self, (put, get): (f64, f64), tell: Tell<'_>) {
        tell(&format!(
            "PUT of {}: {:.0} MB/s, {:.0} % of {:.0} MB/s, one core's MD5 + encode + hash   aim ≥ 60 %",
            table::size(BUDGETED_BYTES),
            put / 1e6,
            100.0 * put / self.put,
            self.put / 1e6
        ));
        tell(&format!(
            "GET of {}: {:.0} MB/s, {:.0} % of {:.0} MB/s, one core's hashes   aim ≥ 80 %",
            table::size(BUDGETED_BYTES),
            get / 1e6,
            100.0 * get / self.get,
            self.get / 1e6
        ));
    }
}

/// Writes an object in parts, reads it back, and tells what memory the server had at most.
pub(super) async fn multipart(server: &Server, bytes: u64, tell: Tell<'_>) -> Result<(), String> {
    let contents: Vec<u8> = (0..PART_BYTES.min(bytes)).map(|at| (at * 131 % 251) as u8).collect();
    let part = Bytes::from(contents);
    let parts = bytes.div_ceil(PART_BYTES).max(1);
    let lanes = (0..PARTS_AT_ONCE).map(|lane| Lane::open(&server.target, &server.bucket, lane));
    let mut lanes = try_join_all(lanes).await?;
    let answer = lanes[0].succeed(Method::POST, KEY, "uploads=", Bytes::new(), Want::Bytes).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let upload = text.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once("</UploadId>"));
    let upload = upload.map(|(id, _)| crate::sigv4::encode(id, false));
    let upload = upload.ok_or_else(|| format!("no upload id in {text}"))?;

    let began = Instant::now();
    let next = AtomicU64::new(1);
    let sent = try_join_all(lanes.iter_mut().map(|lane| {
        let (next, part, upload) = (&next, &part, &upload);
        async move {
            let mut sent = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > parts {
                    return Ok::<_, String>(sent);
                }
                let left = bytes - (number - 1) * PART_BYTES;
                let body = part.slice(..left.min(PART_BYTES) as usize);
                let query = format!("partNumber={number}&uploadId={upload}");
                let answer = lane.succeed(Method::PUT, KEY, &query, body, Want::Bytes).await?;
                let etag = answer.headers.get("etag").and_then(|etag| etag.to_str().ok());
                sent.push((number, etag.unwrap_or_default().to_owned()));
            }
        }
    }))
    .await?;
    let mut sent: Vec<_> = sent.into_iter().flatten().collect();
    sent.sort_unstable();
    let listed: String = sent
        .iter()
        .map(|(number, etag)| {
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
        })
        .collect();
    let body = format!("<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>");
    let query = format!("uploadId={upload}");
    let answer = lanes[0].succeed(Method::POST, KEY, &query, body.into(), Want::Bytes).await?;
    let text = String::from_utf8_lossy(&answer.body);
    if !text.contains("CompleteMultipartUploadResult") {
        return Err(format!("the upload was not completed: {text}"));
    }
    let wrote = began.elapsed();

    let began = Instant::now();
    let answer = lanes[0].succeed(Method::GET, KEY, "", Bytes::new(), Want::Length).await?;
    let read = began.elapsed();
    if answer.length != bytes {
        return Err(format!("the object has {} bytes of {bytes}", answer.length));
    }
    let rate = |took: std::time::Duration| bytes as f64 / took.as_secs_f64().max(1e-9) / 1e6;
    let resident = match server.outside.resident_bytes_max() {
        Some(bytes) => format!("{} MiB at most", bytes >> 20),
        None => "not ours to see".to_owned(),
    };
    tell(&format!(
        "{} in parts of {}, {PARTS_AT_ONCE} at once, {}: written at {:.0} MB/s, read at {:.0} MB/s; resident memory \
         {resident}   aim ≤ 256 MiB",
        table::size(bytes),
        table::size(PART_BYTES),
        server.target.name,
        rate(wrote),
        rate(read),
    ));
    Ok(())
}

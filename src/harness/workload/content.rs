//! Contents that can be traced to the operation that wrote them. Pure.
//!
//! Every 32-byte line names the operation and its own number, so that any stretch of 16 bytes that
//! begins a line tells who wrote it and where it belongs. Contents depend on nothing else: whoever
//! knows an operation's number and length can make them again.

use md5::Md5;
use sha2::Digest as _;
use sha2::Sha256;

use crate::value::Digest;

/// Bytes of a line: 16 digits of the operation, a blank, 14 digits of the line, a line feed.
pub const LINE_BYTES: u64 = 32;

/// The bytes from `first` on, `length` of them, of what operation `op` writes.
pub fn bytes(op: u64, first: u64, length: u64) -> Vec<u8> {
    let capacity = usize::try_from(length).expect("contents fit into memory");
    let mut bytes = Vec::with_capacity(capacity + 2 * LINE_BYTES as usize);
    let skipped = (first % LINE_BYTES) as usize;
    let mut line = first / LINE_BYTES;
    let mut text = [b'\n'; LINE_BYTES as usize];
    write_hexadecimal(&mut text[..16], op);
    text[16] = b' ';
    while bytes.len() < capacity + skipped {
        write_hexadecimal(&mut text[17..31], line);
        bytes.extend_from_slice(&text);
        line += 1;
    }
    bytes.truncate(capacity + skipped);
    bytes.drain(..skipped);
    bytes
}

/// Writes the low digits of `number` into all of `text`.
fn write_hexadecimal(text: &mut [u8], mut number: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

/// The operation that wrote `bytes`, which stood at `first` in what was read: the one that its first
/// whole line, or the beginning of one, names. `None` when no operation could have written them, or
/// when there are too few bytes to tell.
pub fn trace(bytes: &[u8], first: u64) -> Option<u64> {
    let skipped = (LINE_BYTES - first % LINE_BYTES) % LINE_BYTES;
    let line = bytes.get(usize::try_from(skipped).ok()?..)?;
    let text = std::str::from_utf8(line.get(..16)?).ok()?;
    let op = u64::from_str_radix(text, 16).ok()?;
    let length = line.len().min(LINE_BYTES as usize);
    let expected = self::bytes(op, first + skipped, length as u64);
    (line[..length] == expected).then_some(op)
}

/// SHA-256 of the bytes `first` to `last`, inclusive, of what operation `op` writes.
pub fn digest(op: u64, first: u64, last: u64) -> Digest {
    Digest::of(&bytes(op, first, last + 1 - first))
}

/// The ETag that S3 defines for contents sent in one request: their MD5.
pub fn etag(bytes: &[u8]) -> String {
    hex::encode(Md5::digest(bytes))
}

/// The ETag that S3 defines for contents sent in parts: the MD5 of the parts' MD5s, and their count.
pub fn multipart_etag<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut all = Md5::new();
    let mut count = 0;
    for part in parts {
        all.update(Md5::digest(part));
        count += 1;
    }
    format!("{}-{count}", hex::encode(all.finalize()))
}

/// Hashes contents while they arrive and keeps their beginning for [`trace`].
#[derive(Debug, Default)]
pub struct Receiver {
    hasher: Sha256,
    head: Vec<u8>,
    length: u64,
}

impl Receiver {
    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        let wanted = (2 * LINE_BYTES as usize).saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..wanted]);
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// Bytes taken so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The digest of everything taken, and who wrote its beginning, which stood at `first`.
    pub fn finish(self, first: u64) -> (Digest, Option<u64>) {
        (Digest(self.hasher.finalize().into()), trace(&self.head, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_contents_is_the_same_wherever_it_is_cut() {
        let whole = bytes(77, 0, 1000);
        for first in [0, 1, 31, 32, 33, 500, 999] {
            for length in [0, 1, 32, 100, 1000 - first] {
                let end = (first + length).min(1000);
                let stretch = bytes(77, first, end - first);
                assert_eq!(stretch, whole[first as usize..end as usize], "{first}+{length}");
            }
        }
    }

    #[test]
    fn bytes_name_their_writer_unless_they_are_mixed_or_moved() {
        let whole = bytes(0xabcdef, 0, 4096);
        assert_eq!(trace(&whole, 0), Some(0xabcdef));
        assert_eq!(trace(&whole[5..], 5), Some(0xabcdef));
        assert_eq!(trace(&whole[..16], 0), Some(0xabcdef));
        assert_eq!(trace(&whole[..15], 0), None, "too little to tell");
        assert_eq!(trace(&whole[64..], 0), None, "the right bytes at the wrong place");
        let mut rotten = whole.clone();
        rotten[20] ^= 1;
        assert_eq!(trace(&rotten, 0), None, "a flipped bit");
    }

    #[test]
    fn a_receiver_sees_what_was_sent_however_it_is_cut() {
        let whole = bytes(3, 40, 300);
        let mut receiver = Receiver::default();
        for chunk in whole.chunks(7) {
            receiver.take(chunk);
        }
        assert_eq!(receiver.length(), 300);
        assert_eq!(receiver.finish(40), (Digest::of(&whole), Some(3)));
        assert_eq!(digest(3, 40, 339), Digest::of(&whole));
    }

    #[test]
    fn etags_are_those_of_s3() {
        assert_eq!(etag(b""), "d41d8cd98f00b204e9800998ecf8427e");
        // MD5 of the 16 bytes d41d8cd9…7e, taken once.
        assert_eq!(multipart_etag([b"".as_slice()]), "59adb24ef3cdbe0297f05b395827453f-1");
    }
}

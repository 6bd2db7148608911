//! The file of a form, as a stream that ends where the file does.

use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use bytes::BytesMut;
use futures::Stream;
use futures::StreamExt as _;

use super::fields::Form;
use super::fields::find;
use crate::node::store::api::BodyError;
use crate::node::store::api::BodyStream;

/// Why a file is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untaken {
    /// What was posted ends before the file does.
    BrokenOff,
    /// It is smaller than the policy lets it be.
    TooSmall,
    /// It is larger than the policy, or anything, lets it be.
    TooLarge,
}

/// Where it is written down why a file was not taken: the store only learns that its body broke off.
pub type Fate = Arc<OnceLock<Untaken>>;

/// A file that is being read. It ends with an error unless it ends as the form says.
pub struct Contents {
    body: BodyStream,
    held: BytesMut,
    delimiter: Vec<u8>,
    length: RangeInclusive<u64>,
    passed: u64,
    has_ended: bool,
    fate: Fate,
}

impl Contents {
    /// The file of `form`, whose rest is `body`.
    pub fn new(form: &mut Form, body: BodyStream, length: RangeInclusive<u64>) -> Self {
        let held = BytesMut::from(&std::mem::take(&mut form.rest)[..]);
        let delimiter = form.delimiter.clone();
        Self { body, held, delimiter, length, passed: 0, has_ended: false, fate: Fate::default() }
    }

    /// Where it will be written down why the file was not taken.
    pub fn fate(&self) -> Fate {
        Arc::clone(&self.fate)
    }

    /// How much of what is held belongs to the file for certain, and whether the file ends there.
    fn certain(&self) -> (usize, bool) {
        let mut from = 0;
        while let Some(at) = find(&self.held, &self.delimiter, from) {
            match self.held.get(at + self.delimiter.len()..at + self.delimiter.len() + 2) {
                Some(b"--" | b"\r\n") => return (at, true),
                // The file holds what only begins like its end.
                Some(_) => from = at + 1,
                None => return (at, false),
            }
        }
        let tail = self.held.len().saturating_sub(self.delimiter.len() + 1).max(from);
        // An end may have begun in what is left.
        let begun = find(&self.held, b"\r", tail);
        (begun.unwrap_or(self.held.len()), false)
    }

    fn fail(&mut self, why: Untaken) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.has_ended = true;
        let _ = self.fate.set(why);
        Poll::Ready(Some(Err(BodyError(format!("the form's file is not taken: {why:?}")))))
    }
}

impl Stream for Contents {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.has_ended {
            return Poll::Ready(None);
        }
        loop {
            let (certain, is_end) = this.certain();
            this.passed += certain as u64;
            if this.passed > *this.length.end() {
                return this.fail(Untaken::TooLarge);
            }
            if is_end && this.passed < *this.length.start() {
                return this.fail(Untaken::TooSmall);
            }
            this.has_ended = is_end;
            if certain > 0 {
                return Poll::Ready(Some(Ok(this.held.split_to(certain).freeze())));
            }
            if is_end {
                return Poll::Ready(None);
            }
            match this.body.poll_next_unpin(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) => this.held.extend_from_slice(&bytes),
                Poll::Ready(Some(Err(_)) | None) => return this.fail(Untaken::BrokenOff),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::access::form::Fields;

    async fn read(
        text: &[u8],
        piece: usize,
        length: RangeInclusive<u64>,
    ) -> Result<Vec<u8>, Untaken> {
        let (rest, body) = text.split_at(text.len().min(piece));
        let pieces: Vec<_> = body.chunks(piece).map(|it| Ok(Bytes::copy_from_slice(it))).collect();
        let mut form = Form {
            fields: Fields::new(),
            file_name: String::new(),
            rest: rest.to_vec(),
            delimiter: b"\r\n--end".to_vec(),
        };
        let mut contents = Contents::new(&mut form, futures::stream::iter(pieces).boxed(), length);
        let (fate, mut all) = (contents.fate(), Vec::new());
        while let Some(piece) = contents.next().await {
            match piece {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(_) => return Err(*fate.get().expect("it is written down")),
            }
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_file_is_what_stands_before_its_end_whatever_the_pieces_are() {
        for file in [
            &b""[..],
            b"\r",
            b"plain",
            b"\r\n--en\r\n--endless\r\n\r\n--\r\n--end-\r\n--en",
            b"\r\n--end!\r\r\n",
        ] {
            for end in ["\r\n--end--\r\n", "\r\n--end\r\nanother field"] {
                let text = [file, end.as_bytes()].concat();
                for piece in 1..=text.len() {
                    let all = read(&text, piece, 0..=100).await;
                    assert_eq!(all.as_deref(), Ok(file), "in pieces of {piece}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_file_that_breaks_off_or_has_another_size_is_not_taken() {
        for (text, length, why) in [
            (&b"abc"[..], 0..=100, Untaken::BrokenOff),
            (b"abc\r\n--end", 0..=100, Untaken::BrokenOff),
            (b"abc\r\n--end--", 0..=2, Untaken::TooLarge),
            (b"abc\r\n--end--", 4..=9, Untaken::TooSmall),
            (b"\r\n--end--", RangeInclusive::new(5, 4), Untaken::TooSmall),
        ] {
            for piece in [1, 4, 100] {
                assert_eq!(read(text, piece, length.clone()).await, Err(why), "{length:?}");
            }
        }
        let all = read(b"abc\r\n--end--", 2, 3..=3).await;
        assert_eq!(all.as_deref(), Ok(&b"abc"[..]));
    }
}

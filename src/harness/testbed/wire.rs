//! HTTP/1.1 as it passes by: where a message begins and ends, and which request it is.
//!
//! Bytes are watched, never changed. A stream that cannot be understood is passed on unwatched: the
//! [`Framing`] then says [`Piece::Opaque`] for ever.

use crate::harness::scenario::fault::RequestKind;

/// Bytes of a message's head that are kept at most.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What a stretch of bytes is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A whole head, its empty line included.
    Head(Head, Vec<u8>),
    /// Bytes of the body that the last head announced.
    Body(Vec<u8>),
    /// The last message ended with the bytes so far.
    End,
    /// Bytes that nobody understands.
    Opaque(Vec<u8>),
}

/// The head of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The first line.
    pub(crate) first_line: String,
    /// Announced bytes of the body; `None` when it is chunked or ends with the connection.
    pub(crate) length: Option<u64>,
    is_chunked: bool,
    /// Whether it is a request that copies from another object.
    pub(crate) is_copy: bool,
}

/// Finds the messages in one direction of a connection.
#[derive(Debug)]
pub(crate) struct Framing {
    state: State,
    held: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before or in a head.
    Head,
    /// In a body of which so many bytes are to come.
    Body(u64),
    /// In a chunked body.
    Chunks(Chunk),
    /// In a body that ends with the connection, or in something that is not HTTP.
    Rest,
    Opaque,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In the line that tells the size.
    Size { size: u64, digits_done: bool },
    /// In the bytes of a chunk, its line end included.
    Bytes(u64),
    /// In the trailer; so many bytes of the current line.
    Trailer(u64),
}

impl Framing {
    pub(crate) fn new() -> Self {
        Self { state: State::Head, held: Vec::new() }
    }

    /// Bytes of a head that has not come whole yet.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Takes bytes in; answers what they complete. `has_no_body` decides, for a head that was just seen,
    /// whether its message ends there whatever it announces (answers to HEAD, 1xx, 204, 304).
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        mut has_no_body: impl FnMut(&Head) -> bool,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            match self.state {
                State::Opaque => {
                    pieces.push(Piece::Opaque(bytes.to_vec()));
                    return pieces;
                }
                State::Rest => {
                    pieces.push(Piece::Body(bytes.to_vec()));
                    return pieces;
                }
                State::Head => {
                    let from = self.held.len().saturating_sub(3);
                    self.held.extend_from_slice(bytes);
                    let Some(end) = find(&self.held[from..], b"\r\n\r\n") else {
                        if self.held.len() > HEAD_BYTES_MAX {
                            self.state = State::Opaque;
                            pieces.push(Piece::Opaque(std::mem::take(&mut self.held)));
                        }
                        return pieces;
                    };
                    let head_bytes = from + end + 4;
                    let rest = self.held.len() - head_bytes;
                    bytes = &bytes[bytes.len() - rest..];
                    self.held.truncate(head_bytes);
                    let raw = std::mem::take(&mut self.held);
                    let Some(head) = parse_head(&raw) else {
                        self.state = State::Opaque;
                        pieces.push(Piece::Opaque(raw));
                        continue;
                    };
                    let ends = has_no_body(&head);
                    self.state = match (&head, ends) {
                        (_, true) | (Head { length: Some(0), is_chunked: false, .. }, _) => {
                            State::Head
                        }
                        (Head { is_chunked: true, .. }, _) => {
                            State::Chunks(Chunk::Size { size: 0, digits_done: false })
                        }
                        (Head { length: Some(length), .. }, _) => State::Body(*length),
                        (Head { length: None, .. }, _) => State::Rest,
                    };
                    pieces.push(Piece::Head(head, raw));
                    if self.state == State::Head {
                        pieces.push(Piece::End);
                    }
                }
                State::Body(left) => {
                    let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    pieces.push(Piece::Body(bytes[..here].to_vec()));
                    bytes = &bytes[here..];
                    let left = left - here as u64;
                    self.state = if left == 0 { State::Head } else { State::Body(left) };
                    if left == 0 {
                        pieces.push(Piece::End);
                    }
                }
                State::Chunks(chunk) => {
                    let (used, next) = pass_chunks(chunk, bytes);
                    pieces.push(Piece::Body(bytes[..used].to_vec()));
                    bytes = &bytes[used..];
                    match next {
                        Some(chunk) => self.state = State::Chunks(chunk),
                        None => {
                            self.state = State::Head;
                            pieces.push(Piece::End);
                        }
                    }
                }
            }
        }
        pieces
    }
}

/// Walks through a chunked body; answers how many bytes belong to it, and where it stands (`None`: at its end).
fn pass_chunks(mut chunk: Chunk, bytes: &[u8]) -> (usize, Option<Chunk>) {
    let mut at = 0;
    while at < bytes.len() {
        match chunk {
            Chunk::Bytes(left) => {
                let here = (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                at += here;
                let left = left - here as u64;
                chunk = if left == 0 {
                    Chunk::Size { size: 0, digits_done: false }
                } else {
                    Chunk::Bytes(left)
                };
            }
            Chunk::Size { size, digits_done } => {
                let byte = bytes[at];
                at += 1;
                chunk = match (char::from(byte).to_digit(16), byte) {
                    (_, b'\n') if size == 0 => Chunk::Trailer(0),
                    (_, b'\n') => Chunk::Bytes(size.saturating_add(2)),
                    (Some(digit), _) if !digits_done => Chunk::Size {
                        size: size.saturating_mul(16).saturating_add(digit.into()),
                        digits_done,
                    },
                    _ => Chunk::Size { size, digits_done: true },
                };
            }
            Chunk::Trailer(length) => {
                let byte = bytes[at];
                at += 1;
                match (byte, length) {
                    (b'\n', 0) => return (at, None),
                    (b'\n', _) => chunk = Chunk::Trailer(0),
                    (b'\r', _) => {}
                    _ => chunk = Chunk::Trailer(length + 1),
                }
            }
        }
    }
    (at, Some(chunk))
}

/// Where `needle` begins.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Takes a head apart.
fn parse_head(raw: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(raw).ok()?;
    let mut lines = text.split("\r\n");
    let first_line = lines.next()?.to_owned();
    let is_request = !first_line.starts_with("HTTP/1.");
    if is_request && !first_line.rsplit_once(' ')?.1.starts_with("HTTP/1.") {
        return None;
    }
    let mut head = Head { first_line, length: None, is_chunked: false, is_copy: false };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = Some(value.trim().parse().ok()?),
            "transfer-encoding" => {
                head.is_chunked = value.trim().to_ascii_lowercase().ends_with("chunked");
            }
            "x-amz-copy-source" => head.is_copy = true,
            _ => {}
        }
    }
    if head.is_chunked {
        head.length = None;
    } else if is_request && head.length.is_none() {
        // A request without a length has no body.
        head.length = Some(0);
    }
    Some(head)
}

impl Head {
    /// The status of an answer.
    pub(crate) fn status(&self) -> Option<u16> {
        let rest = self.first_line.strip_prefix("HTTP/1.")?;
        rest.split(' ').nth(1)?.parse().ok()
    }

    /// Method and target of a request, without the protocol's version.
    pub(crate) fn request(&self) -> &str {
        self.first_line.rsplit_once(' ').map_or(&self.first_line, |(request, _)| request)
    }

    /// The method of a request.
    pub(crate) fn method(&self) -> &str {
        self.first_line.split(' ').next().unwrap_or_default()
    }

    /// Whether a request is of this kind.
    pub(crate) fn is(&self, kind: RequestKind) -> bool {
        let target = self.request().split_once(' ').map_or("", |(_, target)| target);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.trim_start_matches('/');
        if path.starts_with("health/") || path.starts_with("firedrill/v1/") {
            return false;
        }
        let has_key = path.split_once('/').is_some_and(|(_, key)| !key.is_empty());
        let names: Vec<&str> = query
            .split('&')
            .map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
            .filter(|name| !name.is_empty() && *name != "x-id" && !name.starts_with("X-Amz-"))
            .collect();
        match kind {
            RequestKind::Any => true,
            RequestKind::Put => {
                self.method() == "PUT" && has_key && names.is_empty() && !self.is_copy
            }
            RequestKind::Delete => {
                self.method() == "DELETE"
                    && has_key
                    && names.iter().all(|name| *name == "versionId")
            }
            RequestKind::CompleteUpload => {
                self.method() == "POST" && has_key && names == ["uploadId"]
            }
            RequestKind::Commit => {
                let parts: Vec<&str> = path.split('/').collect();
                let is_table = matches!(
                    *parts,
                    ["iceberg" | "_iceberg", "v1", _, "namespaces", _, "tables", _]
                );
                self.method() == "POST" && is_table
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(framing: &mut Framing, bytes: &[u8], step: usize) -> (Vec<u8>, usize, usize) {
        let (mut all, mut heads, mut ends) = (Vec::new(), 0, 0);
        for part in bytes.chunks(step) {
            for piece in framing.push(part, |_| false) {
                match piece {
                    Piece::Head(_, raw) => {
                        heads += 1;
                        all.extend(raw);
                    }
                    Piece::Body(raw) | Piece::Opaque(raw) => all.extend(raw),
                    Piece::End => ends += 1,
                }
            }
        }
        (all, heads, ends)
    }

    #[test]
    fn messages_are_found_however_the_bytes_arrive_and_no_byte_changes() {
        let stream = b"PUT /b/k HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloDELETE /b/k HTTP/1.1\r\n\r\n\
            POST /b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5;x=1\r\nhe\r\no\r\n10\r\n0123456789abcdef\r\n0\r\n\
            t: v\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        for step in 1..stream.len() {
            let mut framing = Framing::new();
            let (all, heads, ends) = pieces(&mut framing, stream, step);
            assert_eq!(all, stream, "step {step}");
            assert_eq!((heads, ends), (4, 4), "step {step}");
        }
    }

    #[test]
    fn what_is_no_http_passes_unwatched() {
        let mut framing = Framing::new();
        let stream = b"\x16\x03\x01 hello\r\n\r\nmore";
        let (all, heads, _) = pieces(&mut framing, stream, 3);
        assert_eq!((all.as_slice(), heads), (stream.as_slice(), 0));
    }

    fn head(text: &str) -> Head {
        parse_head(format!("{text}\r\n\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn requests_are_told_apart_by_method_path_and_query() {
        let kinds = |text: &str| {
            let all = [
                RequestKind::Put,
                RequestKind::Delete,
                RequestKind::CompleteUpload,
                RequestKind::Commit,
            ];
            let head = head(text);
            all.into_iter().filter(|kind| head.is(*kind)).collect::<Vec<_>>()
        };
        assert_eq!(kinds("PUT /b/k HTTP/1.1"), [RequestKind::Put]);
        assert_eq!(kinds("PUT /b/k?x-id=PutObject HTTP/1.1"), [RequestKind::Put]);
        assert_eq!(kinds("PUT /b/k?X-Amz-Date=1&X-Amz-Signature=2 HTTP/1.1"), [RequestKind::Put]);
        assert_eq!(kinds("PUT /b/ HTTP/1.1"), []);
        assert_eq!(kinds("PUT /b HTTP/1.1"), []);
        assert_eq!(kinds("PUT /b/k?partNumber=1&uploadId=u HTTP/1.1"), []);
        assert_eq!(kinds("PUT /b/k HTTP/1.1\r\nx-amz-copy-source: /b/l"), []);
        assert_eq!(kinds("DELETE /b/k?versionId=null HTTP/1.1"), [RequestKind::Delete]);
        assert_eq!(kinds("DELETE /b/k?uploadId=u HTTP/1.1"), []);
        assert_eq!(kinds("POST /b/k?uploadId=u HTTP/1.1"), [RequestKind::CompleteUpload]);
        assert_eq!(kinds("POST /b/k?uploads HTTP/1.1"), []);
        let table = "/iceberg/v1/lake/namespaces/a%1Fb/tables/t";
        assert_eq!(kinds(&format!("POST {table} HTTP/1.1")), [RequestKind::Commit]);
        assert_eq!(kinds(&format!("GET {table} HTTP/1.1")), []);
        assert_eq!(kinds(&format!("POST {table}/catalog/recovery HTTP/1.1")), []);
        assert!(head("GET /b HTTP/1.1").is(RequestKind::Any));
        assert!(!head("GET /health/ready HTTP/1.1").is(RequestKind::Any));
    }

    #[test]
    fn an_answer_without_a_body_ends_with_its_head() {
        let mut framing = Framing::new();
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let pieces = framing.push(bytes, |head| head.status() == Some(100));
        let ends = pieces.iter().filter(|piece| **piece == Piece::End).count();
        assert_eq!(ends, 2);
        assert!(matches!(&pieces[2], Piece::Head(head, _) if head.status() == Some(200)));
    }
}

//! The fields of a form (`multipart/form-data`, RFC 7578), as far as its file.
//!
//! It is fed with pieces as they come, and holds no more than [`BYTES_MAX`] of them.

use crate::protocol::access::form::Fields;

/// The most bytes of the fields' values, as S3 has it.
const VALUE_BYTES_MAX: usize = 20_000;
/// The most bytes before the file, names and what surrounds them included.
pub const BYTES_MAX: usize = 64 << 10;
/// The longest boundary (RFC 2046, 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// Why what is posted is no form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoilt {
    /// It is not built as a form is.
    Malformed,
    /// There is too much of it before the file.
    TooLong,
    /// It ends without a file.
    NoFile,
}

/// What stands before a form's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The fields.
    pub fields: Fields,
    /// The name of the file, without the folders that it lay in.
    pub file_name: String,
    /// What follows, and was read already: the file's beginning.
    pub rest: Vec<u8>,
    /// What ends the file.
    pub delimiter: Vec<u8>,
}

/// A form that is being read.
pub struct FormReader {
    /// `CR LF -- boundary`.
    delimiter: Vec<u8>,
    held: Vec<u8>,
    /// Where what is not understood yet begins.
    at: usize,
    /// Up to here nothing was found of what is looked for.
    searched: usize,
    /// The field whose value comes next.
    field: Option<String>,
    has_begun: bool,
    value_bytes: usize,
    fields: Fields,
}

impl FormReader {
    /// Reads a form whose `Content-Type` is this.
    ///
    /// # Errors
    /// [`Spoilt::Malformed`] when that is none of a form.
    pub fn new(media_type: &str) -> Result<Self, Spoilt> {
        let (_, parameters) = media_type.split_once(';').ok_or(Spoilt::Malformed)?;
        let boundary = parameter(parameters, "boundary").ok_or(Spoilt::Malformed)?;
        if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
            return Err(Spoilt::Malformed);
        }
        Ok(Self {
            delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
            // Its first delimiter needs no line before it.
            held: b"\r\n".to_vec(),
            at: 0,
            searched: 0,
            field: None,
            has_begun: false,
            value_bytes: 0,
            fields: Fields::new(),
        })
    }

    /// Takes the next piece; the form once its file begins.
    ///
    /// # Errors
    /// As [`Spoilt`] has them; the form is not to be fed any more.
    pub fn feed(&mut self, piece: &[u8]) -> Result<Option<Form>, Spoilt> {
        self.held.extend_from_slice(piece);
        let form = self.advance()?;
        let before = if form.is_some() { self.at } else { self.held.len() };
        if before > BYTES_MAX { Err(Spoilt::TooLong) } else { Ok(form) }
    }

    fn advance(&mut self) -> Result<Option<Form>, Spoilt> {
        loop {
            if !self.has_begun {
                let delimiter = self.delimiter.clone();
                let Some(start) = self.held.get(..delimiter.len()) else {
                    let is_so_far = delimiter.starts_with(&self.held);
                    return if is_so_far { Ok(None) } else { Err(Spoilt::Malformed) };
                };
                if start != delimiter {
                    return Err(Spoilt::Malformed);
                }
                self.has_begun = true;
                self.move_to(delimiter.len());
            } else if self.field.is_some() {
                let Some(end) = self.find(&self.delimiter.clone()) else { return Ok(None) };
                let value = std::str::from_utf8(&self.held[self.at..end]);
                let value = value.map_err(|_| Spoilt::Malformed)?.to_owned();
                self.value_bytes += value.len();
                if self.value_bytes > VALUE_BYTES_MAX {
                    return Err(Spoilt::TooLong);
                }
                let name = self.field.take().expect("it was looked at");
                // Of two with one name neither is what was meant.
                if self.fields.insert(name, value).is_some() {
                    return Err(Spoilt::Malformed);
                }
                self.move_to(end + self.delimiter.len());
            } else {
                let Some(form) = self.head()? else { return Ok(None) };
                match form {
                    Head::Field(name) => self.field = Some(name),
                    Head::File(file_name) => {
                        return Ok(Some(Form {
                            fields: std::mem::take(&mut self.fields),
                            file_name,
                            rest: self.held.split_off(self.at),
                            delimiter: self.delimiter.clone(),
                        }));
                    }
                }
            }
        }
    }

    /// Reads what stands between a delimiter and a value.
    fn head(&mut self) -> Result<Option<Head>, Spoilt> {
        if self.held[self.at..].starts_with(b"--") {
            return Err(Spoilt::NoFile);
        }
        let Some(end) = self.find(b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&self.held[self.at..end]).map_err(|_| Spoilt::Malformed)?;
        let mut lines = head.split("\r\n");
        // The rest of the delimiter's own line.
        if !lines.next().unwrap_or_default().trim().is_empty() {
            return Err(Spoilt::Malformed);
        }
        let mut found = None;
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Spoilt::Malformed)?;
            if name.eq_ignore_ascii_case("content-disposition") {
                found = Some(disposition(value).ok_or(Spoilt::Malformed)?);
            }
        }
        self.move_to(end + 4);
        found.map(Some).ok_or(Spoilt::Malformed)
    }

    fn find(&mut self, wanted: &[u8]) -> Option<usize> {
        let from = self.searched.max(self.at);
        let found = find(&self.held, wanted, from);
        self.searched = self.held.len().saturating_sub(wanted.len() - 1);
        found
    }

    fn move_to(&mut self, at: usize) {
        (self.at, self.searched) = (at, at);
    }
}

/// What a part of a form is.
enum Head {
    Field(String),
    File(String),
}

fn disposition(value: &str) -> Option<Head> {
    let (kind, parameters) = value.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return None;
    }
    let name = parameter(parameters, "name")?.to_ascii_lowercase();
    if name != "file" {
        return Some(Head::Field(name));
    }
    let file_name = parameter(parameters, "filename").unwrap_or_default();
    // Some browsers tell where the file lay.
    let file_name = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    Some(Head::File(file_name.to_owned()))
}

/// The value of `wanted` in `a=b; c="d"`.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once('=')?;
        let name = name.trim_matches([' ', '\t', ';']);
        let (value, next) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => {
                let (mut value, mut characters) = (String::new(), quoted.char_indices());
                let end = loop {
                    match characters.next()? {
                        (at, '"') => break at,
                        // Only a quote is escaped: browsers leave the backslashes of a path as they are.
                        (_, '\\') if characters.as_str().starts_with('"') => {
                            characters.next();
                            value.push('"');
                        }
                        (_, character) => value.push(character),
                    }
                };
                (value, &quoted[end + 1..])
            }
            None => {
                let (value, next) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), next)
            }
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = next;
    }
}

/// Where `wanted` stands first in `bytes`, at `from` or later.
pub fn find(bytes: &[u8], wanted: &[u8], mut from: usize) -> Option<usize> {
    let first = *wanted.first()?;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|byte| *byte == first)?;
        if bytes[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; charset=x; boundary=\"a b\"";

    fn read(text: &[u8], piece: usize) -> Result<Option<Form>, Spoilt> {
        let mut reader = FormReader::new(TYPE).expect("a form");
        for piece in text.chunks(piece) {
            if let Some(mut form) = reader.feed(piece)? {
                form.rest.clear();
                return Ok(Some(form));
            }
        }
        Ok(None)
    }

    #[test]
    fn fields_are_read_whatever_the_pieces_are() {
        let text = b"--a b\r\nContent-Disposition: form-data; name=\"Key\"\r\n\r\nuser/${filename}\r\n\
            --a b\r\ncontent-disposition: form-data; name=policy\r\nContent-Type: text/plain\r\n\r\n\r\n--a\r\n\
            \r\n--a b  \r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\dir\\a\\\"b.txt\"\r\n\r\ncontents";
        for piece in 1..text.len() {
            let form = read(text, piece).expect("sound").expect("it has a file");
            assert_eq!(form.fields["key"], "user/${filename}");
            assert_eq!(form.fields["policy"], "\r\n--a\r\n");
            assert_eq!(form.file_name, "a\"b.txt");
            assert_eq!(form.delimiter, b"\r\n--a b");
        }
        let mut reader = FormReader::new(TYPE).expect("a form");
        let form = reader.feed(text).expect("sound").expect("it has a file");
        assert_eq!(form.rest, b"contents");
    }

    #[test]
    fn what_is_no_form_is_refused() {
        for media_type in ["multipart/form-data", "multipart/form-data; boundary=", "x; bound=a"] {
            assert_eq!(FormReader::new(media_type).err(), Some(Spoilt::Malformed), "{media_type}");
        }
        let field = "--a b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n";
        for (text, expected) in [
            ("hello, this is no form".to_owned(), Spoilt::Malformed),
            ("--other\r\n".to_owned(), Spoilt::Malformed),
            (
                "--a b\r\nContent-Disposition: attachment; name=\"k\"\r\n\r\n".to_owned(),
                Spoilt::Malformed,
            ),
            ("--a b\r\nContent-Type: text/plain\r\n\r\n".to_owned(), Spoilt::Malformed),
            (
                "--a bc\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\n".to_owned(),
                Spoilt::Malformed,
            ),
            (format!("{field}{field}--a b"), Spoilt::Malformed),
            (format!("{field}--a b--\r\n"), Spoilt::NoFile),
            (format!("--a b\r\n{}", "x".repeat(BYTES_MAX)), Spoilt::TooLong),
        ] {
            assert_eq!(read(text.as_bytes(), 7), Err(expected), "{}", &text[..text.len().min(60)]);
        }
        let long = format!(
            "--a b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\n{}\r\n--a b",
            "v".repeat(VALUE_BYTES_MAX + 1)
        );
        assert_eq!(read(long.as_bytes(), 4_096), Err(Spoilt::TooLong));
        assert_eq!(read(field.as_bytes(), 3), Ok(None), "it goes on");
    }
}

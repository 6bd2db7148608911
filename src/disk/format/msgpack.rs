//! MessagePack, as far as the format uses it: a reader that cannot be made to panic, recurse or allocate
//! beyond its input, and writers of the smallest forms.

use super::FormatError;

/// The longest string or byte string that is believed.
const ELEMENT_BYTES_MAX: usize = 16 << 20;

/// Reads values from the front of a slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Fails unless everything was read.
    ///
    /// # Errors
    ///
    /// Bytes are left.
    pub fn finish(&self, what: &'static str) -> Result<(), FormatError> {
        if self.remaining() == 0 { Ok(()) } else { Err(self.malformed(what)) }
    }

    /// The next `count` bytes as they are.
    ///
    /// # Errors
    ///
    /// There are not so many.
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], FormatError> {
        let rest = &self.bytes[self.at..];
        let (taken, _) =
            rest.split_at_checked(count).ok_or(FormatError::Truncated { at: self.at, what })?;
        self.at += count;
        Ok(taken)
    }

    /// An integer in any form.
    ///
    /// # Errors
    ///
    /// It is none, or does not fit.
    pub fn int(&mut self, what: &'static str) -> Result<i64, FormatError> {
        let start = self.clone();
        let marker = self.marker(what)?;
        let value = match marker {
            0x00..=0x7f => Some(i64::from(marker)),
            0xe0..=0xff => Some(i64::from(marker as i8)),
            0xcc..=0xcf => i64::try_from(self.big_endian(1 << (marker - 0xcc), what)?).ok(),
            0xd0 => Some(i64::from(self.big_endian(1, what)? as u8 as i8)),
            0xd1 => Some(i64::from(self.big_endian(2, what)? as u16 as i16)),
            0xd2 => Some(i64::from(self.big_endian(4, what)? as u32 as i32)),
            0xd3 => Some(self.big_endian(8, what)? as i64),
            _ => None,
        };
        value.ok_or_else(|| start.malformed(what))
    }

    /// An integer that is not negative and at most `most`.
    ///
    /// # Errors
    ///
    /// It is none, or does not fit.
    pub fn uint(&mut self, most: u64, what: &'static str) -> Result<u64, FormatError> {
        let start = self.clone();
        let value = u64::try_from(self.int(what)?).ok().filter(|value| *value <= most);
        value.ok_or_else(|| start.malformed(what))
    }

    /// A truth value.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn boolean(&mut self, what: &'static str) -> Result<bool, FormatError> {
        let start = self.clone();
        match self.marker(what)? {
            0xc2 => Ok(false),
            0xc3 => Ok(true),
            _ => Err(start.malformed(what)),
        }
    }

    /// A string.
    ///
    /// # Errors
    ///
    /// It is none, or not UTF-8.
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, FormatError> {
        let start = self.clone();
        let marker = self.marker(what)?;
        let length = match marker {
            0xa0..=0xbf => usize::from(marker & 0x1f),
            0xd9..=0xdb => self.length(1 << (marker - 0xd9), what)?,
            _ => return Err(start.malformed(what)),
        };
        std::str::from_utf8(self.element(length, what)?).map_err(|_| start.malformed(what))
    }

    /// A byte string.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn binary(&mut self, what: &'static str) -> Result<&'a [u8], FormatError> {
        let start = self.clone();
        let marker = self.marker(what)?;
        let length = match marker {
            0xc4..=0xc6 => self.length(1 << (marker - 0xc4), what)?,
            _ => return Err(start.malformed(what)),
        };
        self.element(length, what)
    }

    /// A byte string of a known length.
    ///
    /// # Errors
    ///
    /// It is none, or of another length.
    pub fn fixed<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FormatError> {
        let start = self.clone();
        self.binary(what)?.try_into().map_err(|_| start.malformed(what))
    }

    /// An extension: its type and its bytes.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn extension(&mut self, what: &'static str) -> Result<(i8, &'a [u8]), FormatError> {
        let start = self.clone();
        let marker = self.marker(what)?;
        let length = match marker {
            0xd4..=0xd8 => 1 << (marker - 0xd4),
            0xc7..=0xc9 => self.length(1 << (marker - 0xc7), what)?,
            _ => return Err(start.malformed(what)),
        };
        let kind = self.marker(what)? as i8;
        Ok((kind, self.element(length, what)?))
    }

    /// Whether the next value is nil; it is read if so.
    pub fn nil(&mut self) -> bool {
        let is_nil = self.bytes.get(self.at) == Some(&0xc0);
        self.at += usize::from(is_nil);
        is_nil
    }

    /// The head of an array: its length, never more than bytes are left.
    ///
    /// # Errors
    ///
    /// It is none, or longer than can be.
    pub fn array(&mut self, what: &'static str) -> Result<usize, FormatError> {
        self.container(0x90, 0xdc, 1, what)
    }

    /// The head of a map: its number of pairs, never more than half the bytes that are left.
    ///
    /// # Errors
    ///
    /// It is none, or longer than can be.
    pub fn map(&mut self, what: &'static str) -> Result<usize, FormatError> {
        self.container(0x80, 0xde, 2, what)
    }

    /// Any value, with everything in it, as it is encoded.
    ///
    /// # Errors
    ///
    /// It is not whole.
    pub fn skip(&mut self, what: &'static str) -> Result<&'a [u8], FormatError> {
        let start = self.at;
        let mut open = 1_usize;
        while open > 0 {
            open -= 1;
            let before = self.clone();
            let marker = self.marker(what)?;
            self.at = before.at;
            match marker {
                0x80..=0x8f | 0xde | 0xdf => open += 2 * self.map(what)?,
                0x90..=0x9f | 0xdc | 0xdd => open += self.array(what)?,
                0xa0..=0xbf | 0xd9..=0xdb => {
                    // Text that we only carry need not be UTF-8.
                    self.at += 1;
                    let length = match marker {
                        0xa0..=0xbf => usize::from(marker & 0x1f),
                        _ => self.length(1 << (marker - 0xd9), what)?,
                    };
                    self.element(length, what)?;
                }
                0xc4..=0xc6 => drop(self.binary(what)?),
                0xc7..=0xc9 | 0xd4..=0xd8 => drop(self.extension(what)?),
                0xc0 | 0xc2 | 0xc3 => self.at += 1,
                0xca => drop(self.take(5, what)?),
                0xcb => drop(self.take(9, what)?),
                0xcf => drop(self.take(9, what)?),
                0xc1 => return Err(self.malformed(what)),
                _ => drop(self.int(what)?),
            }
        }
        Ok(&self.bytes[start..self.at])
    }

    fn container(
        &mut self,
        fix: u8,
        wide: u8,
        element_bytes_min: usize,
        what: &'static str,
    ) -> Result<usize, FormatError> {
        let start = self.clone();
        let marker = self.marker(what)?;
        let length = if marker & 0xf0 == fix {
            usize::from(marker & 0x0f)
        } else if marker == wide || marker == wide + 1 {
            self.length(2 << (marker - wide), what)?
        } else {
            return Err(start.malformed(what));
        };
        if length > self.remaining() / element_bytes_min {
            return Err(FormatError::Truncated { at: start.at, what });
        }
        Ok(length)
    }

    fn marker(&mut self, what: &'static str) -> Result<u8, FormatError> {
        Ok(self.take(1, what)?[0])
    }

    fn length(&mut self, width: usize, what: &'static str) -> Result<usize, FormatError> {
        Ok(self.big_endian(width, what)? as usize)
    }

    fn element(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], FormatError> {
        if length > ELEMENT_BYTES_MAX {
            return Err(self.malformed(what));
        }
        self.take(length, what)
    }

    fn big_endian(&mut self, width: usize, what: &'static str) -> Result<u64, FormatError> {
        let bytes = self.take(width, what)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn malformed(&self, what: &'static str) -> FormatError {
        FormatError::Malformed { at: self.at, what }
    }
}

/// Writing into memory does not fail.
const MEMORY: &str = "writing to memory does not fail";

/// Appends nil.
pub fn put_nil(out: &mut Vec<u8>) {
    rmp::encode::write_nil(out).expect(MEMORY);
}

/// Appends an integer in its smallest form.
pub fn put_int(out: &mut Vec<u8>, value: i64) {
    rmp::encode::write_sint(out, value).expect(MEMORY);
}

/// Appends an integer in its smallest form.
pub fn put_uint(out: &mut Vec<u8>, value: u64) {
    rmp::encode::write_uint(out, value).expect(MEMORY);
}

/// Appends an integer in its nine-byte form, whatever it is.
pub fn put_wide_int(out: &mut Vec<u8>, value: i64) {
    rmp::encode::write_i64(out, value).expect(MEMORY);
}

/// Appends a truth value.
pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { 0xc3 } else { 0xc2 });
}

/// Appends a string.
pub fn put_text(out: &mut Vec<u8>, value: &str) {
    rmp::encode::write_str(out, value).expect(MEMORY);
}

/// Appends a byte string.
pub fn put_binary(out: &mut Vec<u8>, value: &[u8]) {
    rmp::encode::write_bin(out, value).expect(MEMORY);
}

/// Appends the head of an array.
pub fn put_array(out: &mut Vec<u8>, length: usize) {
    rmp::encode::write_array_len(out, length as u32).expect(MEMORY);
}

/// Appends the head of a map.
pub fn put_map(out: &mut Vec<u8>, length: usize) {
    rmp::encode::write_map_len(out, length as u32).expect(MEMORY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_in_every_form() {
        let edges = [
            0,
            1,
            127,
            128,
            255,
            256,
            65_535,
            65_536,
            1 << 32,
            i64::MAX,
            -1,
            -32,
            -33,
            -128,
            -129,
            -32_768,
            -32_769,
            i64::MIN,
        ];
        for value in edges {
            let mut small = Vec::new();
            put_int(&mut small, value);
            let mut wide = Vec::new();
            put_wide_int(&mut wide, value);
            assert_eq!(wide.len(), 9);
            for bytes in [&small, &wide] {
                let mut reader = Reader::new(bytes);
                assert_eq!(reader.int("it"), Ok(value));
                assert_eq!(reader.finish("end"), Ok(()));
                assert_eq!(Reader::new(bytes).skip("it"), Ok(bytes.as_slice()));
            }
        }
        // An unsigned number above the signed range is no number of ours, but may be carried.
        let beyond = [0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0];
        assert!(Reader::new(&beyond).int("it").is_err());
        assert_eq!(Reader::new(&beyond).skip("it"), Ok(beyond.as_slice()));
    }

    #[test]
    fn heads_that_promise_more_than_there_is_are_refused() {
        for bytes in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
            &[0xdf, 0xff, 0xff, 0xff, 0xff],
            &[0xc6, 0xff, 0xff, 0xff, 0xff],
            &[0xdb, 0xff, 0xff, 0xff, 0xff],
            &[0x92, 0x01],
            &[0x81, 0x01],
            &[0xc1],
            &[],
        ] {
            assert!(Reader::new(bytes).skip("it").is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn nesting_without_end_does_not_exhaust_the_stack() {
        let deep = vec![0x91; 1 << 20];
        assert!(Reader::new(&deep).skip("it").is_err());
    }
}

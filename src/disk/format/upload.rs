//! `part.N.meta`: the record beside a part of an open upload.

use std::collections::BTreeMap;

use super::FormatError;
use super::msgpack::Reader;
use super::msgpack::put_array;
use super::msgpack::put_binary;
use super::msgpack::put_int;
use super::msgpack::put_map;
use super::msgpack::put_nil;
use super::msgpack::put_text;
use super::msgpack::put_uint;

/// Seconds of a day.
const DAY_S: i64 = 86_400;

/// One uploaded part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartMeta {
    /// MD5 in hexadecimal.
    pub etag: String,
    /// Its number, 1 to 10,000.
    pub number: usize,
    /// Stored bytes.
    pub size: u64,
    /// Bytes as the client sent them; negative when unknown.
    pub actual_size: i64,
    /// When it was uploaded, Unix nanoseconds.
    pub modtime_ns: Option<i64>,
    /// Index into a compressed part; empty without.
    pub index: Vec<u8>,
    /// Checksums by S3's names (`CRC32C`, …), base64.
    pub checksums: BTreeMap<String, String>,
}

impl PartMeta {
    /// Reads a record, in its positional or its named form.
    ///
    /// # Errors
    ///
    /// It does not decode, or records an error of its own.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        const NAMES: [&str; 8] =
            ["etag", "number", "size", "actual_size", "mod_time", "index", "checksums", "error"];
        let mut reader = Reader::new(bytes);
        let mut part = Self::default();
        if let Ok(fields) = reader.clone().array("a part") {
            reader.array("a part")?;
            if fields < 4 {
                return Err(FormatError::contradiction(format!("a part has {fields} fields")));
            }
            for field in 0..fields {
                part.field(NAMES.get(field).copied().unwrap_or_default(), &mut reader)?;
            }
        } else {
            for _ in 0..reader.map("a part")? {
                let name = reader.text("the name of a field of a part")?;
                part.field(name, &mut reader)?;
            }
        }
        reader.finish("the end of a part")?;
        if !(1..=10_000).contains(&part.number) {
            return Err(FormatError::contradiction(format!("a part has number {}", part.number)));
        }
        Ok(part)
    }

    /// The record in its positional form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        put_array(&mut out, 8);
        put_text(&mut out, &self.etag);
        put_uint(&mut out, self.number as u64);
        put_uint(&mut out, self.size);
        put_int(&mut out, self.actual_size);
        match self.modtime_ns {
            None => put_nil(&mut out),
            Some(modtime_ns) => put_time(&mut out, modtime_ns),
        }
        if self.index.is_empty() {
            put_nil(&mut out);
        } else {
            put_binary(&mut out, &self.index);
        }
        if self.checksums.is_empty() {
            put_nil(&mut out);
        } else {
            put_map(&mut out, self.checksums.len());
            for (name, value) in &self.checksums {
                put_text(&mut out, name);
                put_text(&mut out, value);
            }
        }
        put_nil(&mut out);
        out
    }

    fn field(&mut self, name: &str, reader: &mut Reader<'_>) -> Result<(), FormatError> {
        match name {
            "etag" => self.etag = reader.text("the ETag of a part")?.to_owned(),
            "number" => self.number = reader.uint(10_000, "the number of a part")? as usize,
            "size" => self.size = reader.uint(1 << 62, "the size of a part")?,
            "actual_size" => self.actual_size = reader.int("the actual size of a part")?,
            "mod_time" | "index" | "checksums" | "error" if reader.nil() => {}
            "mod_time" => self.modtime_ns = Some(time(reader)?),
            "index" => self.index = reader.binary("the index of a part")?.to_vec(),
            "checksums" => {
                for _ in 0..reader.map("the checksums of a part")? {
                    let name = reader.text("the name of a checksum")?.to_owned();
                    if reader.nil() {
                        continue;
                    }
                    let value = reader.text("a checksum")?.to_owned();
                    self.checksums.insert(name, value);
                }
            }
            "error" => {
                let error = reader.text("the error of a part")?;
                if !error.is_empty() {
                    return Err(FormatError::contradiction(format!("the part failed: {error}")));
                }
            }
            _ => drop(reader.skip("an unknown field of a part")?),
        }
        Ok(())
    }
}

/// A moment as year, day of the year, hour, minute, second, nanosecond and the offset from UTC.
fn put_time(out: &mut Vec<u8>, modtime_ns: i64) {
    let seconds = modtime_ns.div_euclid(1_000_000_000);
    let (days, second_of_day) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    // The estimate is never too late: years are taken for longer than they are after 1970, for shorter before.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_before(year + 1) <= days {
        year += 1;
    }
    put_array(out, 9);
    put_int(out, year);
    put_int(out, days - days_before(year) + 1);
    put_int(out, second_of_day / 3600);
    put_int(out, second_of_day / 60 % 60);
    put_int(out, second_of_day % 60);
    put_int(out, modtime_ns.rem_euclid(1_000_000_000));
    (0..3).for_each(|_| put_int(out, 0));
}

fn time(reader: &mut Reader<'_>) -> Result<i64, FormatError> {
    const WHAT: &str = "the time of a part";
    let fields = reader.array(WHAT)?;
    if fields != 9 {
        return Err(FormatError::contradiction("the time of a part has not 9 fields"));
    }
    let mut numbers = [0; 9];
    for number in &mut numbers {
        *number = reader.int(WHAT)?;
    }
    let [year, day, hour, minute, second, nanosecond, off_hour, off_minute, off_second] = numbers;
    let sane = (1678..=2261).contains(&year)
        && (1..=366).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (0..1_000_000_000).contains(&nanosecond)
        && [off_hour, off_minute, off_second].iter().all(|offset| (-59..60).contains(offset));
    if !sane {
        return Err(FormatError::contradiction("the time of a part is none"));
    }
    let days = days_before(year) + day - 1;
    let local = days * DAY_S + hour * 3600 + minute * 60 + second;
    let utc = local - off_hour * 3600 - off_minute * 60 - off_second;
    Ok(utc * 1_000_000_000 + nanosecond)
}

/// Days from 1970 to the first of January of `year`.
fn days_before(year: i64) -> i64 {
    let leaps = |year: i64| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * (year - 1970) + leaps(year - 1) - leaps(1969)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with a checksum, as a released server wrote it.
    const RECORD: &str = "98d920366438653835623966653032386362623461326337383438626565613265353001ce\
        00500000ce0050000099cd07eacd014d0e0531ce0c4895a9000000c081a6435243333243a8544147714741\
        3d3dc0";

    #[test]
    fn a_servers_record_decodes_and_comes_back_identical() {
        let bytes = hex::decode(RECORD).unwrap();
        let part = PartMeta::parse(&bytes).unwrap();
        assert_eq!(part.number, 1);
        assert_eq!((part.size, part.actual_size), (5_242_880, 5_242_880));
        assert_eq!(part.checksums["CRC32C"], "TAGqGA==");
        // 29 November 2026, 14:05:49.
        assert_eq!(part.modtime_ns, Some(1_795_961_149_206_083_497));
        assert_eq!(part.encode(), bytes);
    }

    #[test]
    fn the_named_form_means_the_same() {
        let positional = PartMeta::parse(&hex::decode(RECORD).unwrap()).unwrap();
        let mut bytes = Vec::new();
        put_map(&mut bytes, 6);
        put_text(&mut bytes, "number");
        put_uint(&mut bytes, 1);
        put_text(&mut bytes, "etag");
        put_text(&mut bytes, &positional.etag);
        put_text(&mut bytes, "integrity");
        put_nil(&mut bytes);
        put_text(&mut bytes, "size");
        put_uint(&mut bytes, positional.size);
        put_text(&mut bytes, "actual_size");
        put_int(&mut bytes, positional.actual_size);
        put_text(&mut bytes, "mod_time");
        put_time(&mut bytes, positional.modtime_ns.unwrap());
        let named = PartMeta::parse(&bytes).unwrap();
        assert_eq!(named, PartMeta { checksums: BTreeMap::new(), ..positional });
    }

    #[test]
    fn every_moment_comes_back() {
        for seconds in [
            0,
            1,
            -1,
            -86_400,
            -5_586_078_826,
            -9_000_000_000,
            951_782_400,
            951_868_799,
            1_709_164_800,
            4_102_444_800,
            1_735_689_599,
        ] {
            let modtime_ns = seconds * 1_000_000_000 + 7;
            let mut bytes = Vec::new();
            put_time(&mut bytes, modtime_ns);
            assert_eq!(time(&mut Reader::new(&bytes)), Ok(modtime_ns));
        }
    }

    #[test]
    fn damage_is_refused_and_never_panics() {
        let bytes = hex::decode(RECORD).unwrap();
        for length in 0..bytes.len() {
            assert!(PartMeta::parse(&bytes[..length]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Ok(part) = PartMeta::parse(&bad) {
                let _ = part.encode();
            }
        }
        let failed = PartMeta { number: 0, ..PartMeta::parse(&bytes).unwrap() };
        assert!(PartMeta::parse(&failed.encode()).is_err());
    }
}

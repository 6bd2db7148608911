//! Metadata files as they lie in a bucket.

use super::Trouble;
use super::avro::limited;
use super::limits::METADATA_BYTES_MAX;

/// The JSON of a metadata file: unpacked when its name ends in `.gz`.
///
/// # Errors
/// `Invalid` when it is larger than 50 MiB, packed or unpacked, or no gzip although its name says so.
pub fn plain_metadata(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Trouble> {
    plain_within(name, bytes, METADATA_BYTES_MAX)
}

fn plain_within(name: &str, bytes: Vec<u8>, bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    if bytes.len() > bytes_max {
        return Err(Trouble::invalid("the metadata file is too large"));
    }
    if !name.ends_with(".gz") {
        return Ok(bytes);
    }
    limited(flate2::read::MultiGzDecoder::new(bytes.as_slice()), bytes_max)
        .map_err(|trouble| Trouble::invalid(format!("the metadata file: {trouble}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("written");
        encoder.finish().expect("packed")
    }

    #[test]
    fn a_file_is_unpacked_when_its_name_says_so() {
        assert_eq!(plain_metadata("1.metadata.json", b"{}".to_vec()), Ok(b"{}".to_vec()));
        assert_eq!(plain_metadata("1.metadata.json.gz", packed(b"{}")), Ok(b"{}".to_vec()));
        assert!(plain_metadata("1.metadata.json.gz", b"{}".to_vec()).is_err());
        let mut torn = packed(&[7; 4_096]);
        torn.truncate(torn.len() - 9);
        assert!(plain_metadata("1.metadata.json.gz", torn).is_err());
    }

    #[test]
    fn what_unpacks_beyond_the_limit_is_refused_when_it_gets_there() {
        let at_the_limit = packed(&[b' '; 4_096]);
        let plain = plain_within("1.metadata.json.gz", at_the_limit, 4_096).expect("at the limit");
        assert_eq!(plain.len(), 4_096);
        let beyond = packed(&[b' '; 4_097]);
        assert!(plain_within("1.metadata.json.gz", beyond, 4_096).is_err());
        assert!(plain_within("1.metadata.json", vec![b' '; 4_097], 4_096).is_err());
        assert!(plain_metadata("1.metadata.json", vec![b' '; METADATA_BYTES_MAX + 1]).is_err());
    }
}

//! What contents hash to, and what the version says that they should.

use md5::Digest as _;
use md5::Md5;
use sha2::Sha256;

use super::AuditOptions;
use crate::disk::format::checksum::Hasher;
use crate::disk::format::checksum::Record;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::keys;
use crate::value::Digest;

/// Follows the contents of one object, part by part.
#[derive(Clone)]
pub(super) struct Contents {
    sha256: Option<Sha256>,
    checks: Option<Checks>,
}

#[derive(Clone)]
struct Checks {
    etag: String,
    part_md5: Md5,
    /// MD5 of each part that has ended.
    parts_md5: Vec<[u8; 16]>,
    records: Vec<(Record, Hasher, Vec<Vec<u8>>)>,
    mismatches: Vec<String>,
}

impl Contents {
    pub(super) fn new(object: &ObjectBody, options: &AuditOptions) -> Self {
        let is_plain = !object.is_encoded();
        let checks = (options.contents && is_plain).then(|| {
            let mut mismatches = Vec::new();
            let stored = object.system(keys::CHECKSUM).unwrap_or_default();
            let records = Record::parse_all(stored).unwrap_or_else(|error| {
                mismatches.push(format!("the checksum record does not decode: {error}"));
                Vec::new()
            });
            let records = records
                .into_iter()
                .map(|record| (record.clone(), Hasher::new(record.algorithm), Vec::new()))
                .collect();
            Checks {
                etag: object.etag().to_owned(),
                part_md5: Md5::new(),
                parts_md5: Vec::new(),
                records,
                mismatches,
            }
        });
        let sha256 = (options.digests && is_plain).then(Sha256::new);
        Self { sha256, checks }
    }

    /// MD5 of what the current part has had so far, if anybody wants to know.
    pub(super) fn part_md5(&self) -> Option<[u8; 16]> {
        self.checks.as_ref().map(|checks| checks.part_md5.clone().finalize().into())
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        if let Some(checks) = &mut self.checks {
            checks.part_md5.update(bytes);
            checks.records.iter_mut().for_each(|(_, hasher, _)| hasher.update(bytes));
        }
    }

    pub(super) fn end_part(&mut self, part: &Part) {
        let Some(checks) = &mut self.checks else { return };
        let md5: [u8; 16] = std::mem::replace(&mut checks.part_md5, Md5::new()).finalize().into();
        checks.parts_md5.push(md5);
        if is_md5(&part.etag) && !part.etag.eq_ignore_ascii_case(&hex::encode(md5)) {
            checks.mismatches.push(format!(
                "part {} has MD5 {}, its ETag is {}",
                part.number,
                hex::encode(md5),
                part.etag
            ));
        }
        for (record, hasher, parts) in &mut checks.records {
            if record.is_composite() {
                let hasher = std::mem::replace(hasher, Hasher::new(record.algorithm));
                parts.push(hasher.finish());
            }
        }
    }

    /// The digest, and what does not match.
    pub(super) fn finish(self) -> (Option<Digest>, Vec<String>) {
        let digest = self.sha256.map(|sha256| Digest(sha256.finalize().into()));
        (digest, self.checks.map(Checks::finish).unwrap_or_default())
    }
}

impl Checks {
    fn finish(mut self) -> Vec<String> {
        let etag = self.etag.to_ascii_lowercase();
        let multipart = etag.split_once('-').filter(|(md5, _)| is_md5(md5));
        let computed = match multipart {
            Some(_) => {
                let all = self.parts_md5.concat();
                format!("{}-{}", hex::encode(Md5::digest(all)), self.parts_md5.len())
            }
            None => self.parts_md5.first().map(hex::encode).unwrap_or_default(),
        };
        let comparable = multipart.is_some() || (is_md5(&etag) && self.parts_md5.len() == 1);
        if comparable && computed != etag {
            self.mismatches
                .push(format!("the contents make the ETag {computed}, stored is {etag}"));
        }
        for (record, hasher, parts) in self.records {
            let digest = if record.is_composite() {
                if !record.parts.is_empty() && record.parts != parts {
                    self.mismatches.push(format!(
                        "{} of a part differs from its record",
                        record.algorithm.name()
                    ));
                }
                let mut hasher = Hasher::new(record.algorithm);
                parts.iter().for_each(|part| hasher.update(part));
                hasher.finish()
            } else {
                hasher.finish()
            };
            if digest != record.digest {
                self.mismatches.push(format!(
                    "{} is {}, its record says {}",
                    record.algorithm.name(),
                    hex::encode(digest),
                    hex::encode(&record.digest)
                ));
            }
        }
        self.mismatches
    }
}

/// The MD5 that the contents of one part must have, when the version says.
pub(super) fn expected_md5(object: &ObjectBody, part: &Part) -> Option<[u8; 16]> {
    if object.is_encoded() {
        return None;
    }
    let whole = if object.parts.len() == 1 { object.etag() } else { "" };
    let text = [part.etag.as_str(), whole].into_iter().find(|text| is_md5(text))?;
    let mut md5 = [0; 16];
    hex::decode_to_slice(text, &mut md5).ok()?;
    Some(md5)
}

fn is_md5(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

//! Between what a client keeps with an object and what stands in a version.

use std::collections::BTreeMap;

use super::api::Amendment;
use super::api::Metadata;
use super::api::ObjectInfo;
use crate::disk::format::checksum::Record;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::keys;
use crate::protocol::object::effect::BucketState;
use crate::value::ObjectKey;

const REDUCED_REDUNDANCY: &str = "REDUCED_REDUNDANCY";

/// The metadata as a version stores it.
pub(super) fn user_map(metadata: &Metadata) -> BTreeMap<String, String> {
    let mut user = metadata.headers.clone();
    for (name, value) in &metadata.user {
        user.insert(keys::user_key(name), value.clone());
    }
    if let Some(tags) = metadata.tags.as_ref().filter(|tags| !tags.is_empty()) {
        user.insert(keys::TAGGING.to_owned(), tags.clone());
    }
    if metadata.reduced_redundancy {
        user.insert(keys::STORAGE_CLASS.to_owned(), REDUCED_REDUNDANCY.to_owned());
    }
    user
}

/// The metadata of a version.
pub(super) fn metadata(object: &ObjectBody) -> Metadata {
    let acl = object.system(keys::ACL).and_then(|acl| String::from_utf8(acl.to_vec()).ok());
    let mut metadata = Metadata { acl, ..Metadata::default() };
    for (key, value) in &object.user {
        if key == keys::ETAG {
            continue;
        }
        if key.eq_ignore_ascii_case(keys::TAGGING) {
            metadata.tags = Some(value.clone());
        } else if key.eq_ignore_ascii_case(keys::STORAGE_CLASS) {
            metadata.reduced_redundancy = value == REDUCED_REDUNDANCY;
        } else if let Some(name) = keys::user_name(key) {
            metadata.user.insert(name.to_lowercase(), value.clone());
        } else {
            metadata.headers.insert(key.to_lowercase(), value.clone());
        }
    }
    metadata
}

/// Says of an object what an amendment says.
pub(super) fn amend(object: &mut ObjectBody, amendment: Amendment) {
    match amendment {
        Amendment::Tags(tags) => {
            object.user.retain(|key, _| !key.eq_ignore_ascii_case(keys::TAGGING));
            if let Some(tags) = tags.filter(|tags| !tags.is_empty()) {
                object.user.insert(keys::TAGGING.to_owned(), tags);
            }
        }
        Amendment::Acl(None) => object.remove_system(keys::ACL),
        Amendment::Acl(Some(acl)) => object.set_system(keys::ACL, acl),
    }
}

/// The additional checksums of a version; none when their record cannot be read.
pub(super) fn checksums(object: &ObjectBody) -> Vec<Record> {
    let records = object.system(keys::CHECKSUM).map(Record::parse_all);
    records.and_then(Result::ok).unwrap_or_default()
}

/// What a client may know of a version.
pub(super) fn info(
    target: &ObjectKey,
    version: &Version,
    state: BucketState,
    is_latest: bool,
) -> ObjectInfo {
    let header = version.header();
    let mut info = ObjectInfo {
        target: target.clone(),
        version: header.version,
        names_version: !header.version.is_null() || state != BucketState::Unversioned,
        is_latest,
        delete_marker: true,
        size: 0,
        modtime_ns: header.modtime_ns,
        etag: String::new(),
        metadata: Metadata::default(),
        checksums: Vec::new(),
        parts: Vec::new(),
    };
    if let Some(object) = version.as_object() {
        info.delete_marker = false;
        info.size = object.size;
        object.etag().clone_into(&mut info.etag);
        info.metadata = metadata(object);
        info.checksums = checksums(object);
        info.parts = object.parts.iter().map(|part| (part.number as u32, part.size)).collect();
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_keeps_comes_back() {
        let mut kept = Metadata {
            tags: Some("a=1&b=%20".to_owned()),
            acl: Some("{}".to_owned()),
            reduced_redundancy: true,
            ..Metadata::default()
        };
        kept.headers.insert("content-type".to_owned(), "text/plain".to_owned());
        kept.headers.insert("cache-control".to_owned(), "no-store".to_owned());
        for name in ["colour", "etag", "content-type", "x-amz-tagging"] {
            kept.user.insert(name.to_owned(), format!("the user's {name}"));
        }
        let mut user = user_map(&kept);
        user.insert(keys::ETAG.to_owned(), "abc".to_owned());
        let object = super::super::stage::blank_object(2, 2, vec![1, 2, 3, 4]);
        let mut object = ObjectBody { user, ..object };
        amend(&mut object, Amendment::Acl(kept.acl.clone()));
        assert_eq!(metadata(&object), kept);
        amend(&mut object, Amendment::Acl(None));
        amend(&mut object, Amendment::Tags(None));
        assert_eq!(metadata(&object), Metadata { tags: None, acl: None, ..kept });
    }
}

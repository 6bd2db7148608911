//! One look at everything, from the snapshots down.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::StreamExt;
use futures::TryStreamExt;
use futures::stream;
use iceberg::spec::PartitionSpec;

use super::Budget;
use super::Examined;
use super::Place;
use super::Scope;
use crate::iceberg::Class;
use crate::iceberg::Metadata;
use crate::iceberg::ObjectReader;
use crate::iceberg::Trouble;
use crate::iceberg::Unread;
use crate::iceberg::avro::Bounds;
use crate::iceberg::avro::Content;
use crate::iceberg::avro::Listed;
use crate::iceberg::avro::LiveFile;
use crate::iceberg::avro::Manifest;
use crate::iceberg::avro::ManifestList;

/// Looks at everything that `scope` of `metadata` refers to.
///
/// # Errors
/// `Invalid` for what is missing, elsewhere, too much or not as it is referred to; `Forbidden` for what the caller may
/// not read; `Unavailable` when the store did not answer.
pub async fn graph(
    reader: &dyn ObjectReader,
    metadata: &Metadata,
    scope: &Scope,
    place: &Place<'_>,
    budget: &Budget,
) -> Result<Examined, Trouble> {
    let mut examination = Examination {
        reader,
        metadata,
        place,
        budget,
        manifests: BTreeMap::new(),
        traversals: 0,
        avro_bytes: 0,
        file_references: 0,
        files: BTreeMap::new(),
    };
    if scope.statistics.len() > budget.statistics {
        return Err(too_much("statistics files"));
    }
    for (path, length) in &scope.statistics {
        let key = examination.key("the statistics file", path, Kind::Metadata)?;
        examination.is_as_long("the statistics file", &key, *length).await?;
    }
    for id in &scope.snapshots {
        examination.snapshot(*id).await?;
    }
    Ok(Examined {
        snapshots: scope.snapshots.len(),
        manifests: examination.manifests.len(),
        files: examination.files.len(),
        statistics: scope.statistics.len(),
    })
}

/// What an object is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Metadata,
    Data,
}

/// How many objects are asked for at a time.
const AT_ONCE: usize = 16;

struct Examination<'a> {
    reader: &'a dyn ObjectReader,
    metadata: &'a Metadata,
    place: &'a Place<'a>,
    budget: &'a Budget,
    /// The manifests that were read, with how they were listed.
    manifests: BTreeMap<String, Listed>,
    traversals: usize,
    avro_bytes: u64,
    file_references: usize,
    /// The files that were looked at, with their lengths.
    files: BTreeMap<String, u64>,
}

impl Examination<'_> {
    async fn snapshot(&mut self, id: i64) -> Result<(), Trouble> {
        let snapshot = self.metadata.seen().snapshot_by_id(id);
        let snapshot = snapshot.ok_or_else(|| Trouble::invalid(format!("no snapshot {id}")))?;
        let key = self.key("the manifest list", snapshot.manifest_list(), Kind::Metadata)?;
        let bytes = self.avro("the manifest list", &key).await?;
        let mut list = ManifestList::open(&bytes, Bounds::SERVED)?;
        while let Some(listed) = list.next()? {
            self.traversals += listed.len();
            if self.traversals > self.budget.traversals {
                return Err(too_much("manifests"));
            }
            for listed in listed {
                // In a table that was upgraded, snapshots of version 1 have number 0 and so have their manifests.
                if listed.sequence_number > snapshot.sequence_number() {
                    return Err(Trouble::invalid("a manifest is younger than its snapshot"));
                }
                self.manifest(listed).await?;
            }
        }
        Ok(())
    }

    async fn manifest(&mut self, listed: Listed) -> Result<(), Trouble> {
        if let Some(known) = self.manifests.get(&listed.path) {
            if *known == listed {
                return Ok(());
            }
            return Err(Trouble::invalid("two snapshots describe one manifest differently"));
        }
        if self.manifests.len() == self.budget.manifests {
            return Err(too_much("manifests"));
        }
        let key = self.key("the manifest", &listed.path, Kind::Metadata)?;
        let bytes = self.avro("the manifest", &key).await?;
        if bytes.len() as u64 != listed.length {
            return Err(another_length("the manifest", &key, bytes.len() as u64, listed.length));
        }
        let mut manifest = Manifest::open(&bytes, Bounds::SERVED)?;
        let known = self.metadata.seen().partition_spec_by_id(listed.spec_id);
        let is_as_listed = manifest.spec().spec_id() == listed.spec_id
            && known.is_some_and(|known| are_alike(known, manifest.spec()));
        if !is_as_listed {
            let text = format!("the manifest {key} is not of partition spec {}", listed.spec_id);
            return Err(Trouble::invalid(text));
        }
        if manifest.content() != listed.content {
            return Err(Trouble::invalid(format!(
                "the manifest {key} has other files than listed"
            )));
        }
        while let Some(files) = manifest.next()? {
            self.live(files, listed.content).await?;
        }
        self.manifests.insert(listed.path.clone(), listed);
        Ok(())
    }

    async fn live(&mut self, files: Vec<LiveFile>, content: Content) -> Result<(), Trouble> {
        self.file_references += files.len();
        if self.file_references > self.budget.file_references {
            return Err(too_much("files"));
        }
        let mut unseen = Vec::new();
        for file in files {
            let key = self.key("the file", &file.path, Kind::Data)?;
            if file.content != content {
                return Err(Trouble::invalid(format!("the file {key} is in the wrong manifest")));
            }
            match self.files.insert(key.clone(), file.length) {
                None => unseen.push((key, file.length)),
                Some(length) if length == file.length => {}
                Some(length) => return Err(another_length("the file", &key, length, file.length)),
            }
        }
        let this = &*self;
        stream::iter(unseen)
            .map(|(key, length)| async move {
                this.is_as_long("the file", &key, Some(length)).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn avro(&mut self, what: &str, key: &str) -> Result<Bytes, Trouble> {
        let left = self.budget.avro_bytes - self.avro_bytes;
        let max = left.min(Bounds::SERVED.encoded_bytes as u64);
        let bytes = self.reader.read(key, max).await.map_err(|why| unread(what, key, &why))?;
        if bytes.len() as u64 > max {
            return Err(unread(what, key, &Unread::TooLarge));
        }
        self.avro_bytes += bytes.len() as u64;
        Ok(bytes)
    }

    async fn is_as_long(&self, what: &str, key: &str, length: Option<u64>) -> Result<(), Trouble> {
        let found = self.reader.length(key).await.map_err(|why| unread(what, key, &why))?;
        match length {
            Some(length) if length != found => Err(another_length(what, key, found, length)),
            _ => Ok(()),
        }
    }

    /// The key of a location, when such an object may lie there.
    fn key(&self, what: &str, location: &str, kind: Kind) -> Result<String, Trouble> {
        let rest =
            ["s3://", "s3a://", "s3n://"].iter().find_map(|from| location.strip_prefix(from));
        let key = rest.and_then(|rest| rest.strip_prefix(self.place.bucket)?.strip_prefix('/'));
        let key = key.filter(|key| {
            let is_plain = key.split('/').all(|name| !matches!(name, "" | "." | ".."));
            let is_metadata = key.starts_with(self.place.metadata_prefix);
            let is_inside = match kind {
                Kind::Metadata => is_metadata || key.starts_with(self.place.warehouse_prefix),
                Kind::Data => !is_metadata && key.starts_with(self.place.warehouse_prefix),
            };
            is_plain && is_inside
        });
        let elsewhere = || Trouble::invalid(format!("{what} {location} is not inside the table"));
        Ok(key.ok_or_else(elsewhere)?.to_owned())
    }
}

/// Whether files that were written with the one can be read with the other.
fn are_alike(one: &PartitionSpec, other: &PartitionSpec) -> bool {
    one.fields().len() == other.fields().len()
        && one.fields().iter().zip(other.fields()).all(|(one, other)| {
            one.source_id == other.source_id
                && one.field_id == other.field_id
                && one.transform == other.transform
        })
}

fn unread(what: &str, key: &str, why: &Unread) -> Trouble {
    match why {
        Unread::NotFound => Trouble::invalid(format!("{what} {key} is not there")),
        Unread::Forbidden => {
            Trouble::new(Class::Forbidden, format!("{what} {key} may not be read"))
        }
        Unread::TooLarge => Trouble::invalid(format!("{what} {key} is too large")),
        Unread::Failed(why) => {
            Trouble::new(Class::Unavailable, format!("{what} {key} was not read: {why}"))
        }
    }
}

fn another_length(what: &str, key: &str, found: u64, expected: u64) -> Trouble {
    Trouble::invalid(format!("{what} {key} has {found} bytes and not {expected}"))
}

fn too_much(what: &str) -> Trouble {
    Trouble::invalid(format!("a commit refers to too many {what}"))
}

//! Manifest lists and manifests.

use std::collections::HashMap;

use iceberg::spec::DataContentType;
use iceberg::spec::FormatVersion;
use iceberg::spec::ManifestContentType;
use iceberg::spec::ManifestMetadata;
use serde_json::Value;
use serde_json::json;

use super::container::Bounds;
use super::container::Container;
use crate::iceberg::Trouble;
use crate::iceberg::limits;
use crate::iceberg::trouble::guarded;

/// What the files of a manifest are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Data,
    Deletes,
}

/// One manifest, as its list describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) length: u64,
    pub(crate) spec_id: i32,
    pub(crate) content: Content,
    pub(crate) sequence_number: i64,
}

/// A manifest list that is being read.
pub(crate) struct ManifestList<'a> {
    container: Container<'a>,
    version: FormatVersion,
}

impl<'a> ManifestList<'a> {
    /// Reads the header.
    pub(crate) fn open(bytes: &'a [u8], bounds: Bounds) -> Result<Self, Trouble> {
        let container = Container::open(bytes, bounds)?;
        // The crate goes by the table's version. But one that was upgraded keeps the lists of its first days.
        let is_of_two = container.has_field("content") && container.has_field("sequence_number");
        let version = if is_of_two { FormatVersion::V2 } else { FormatVersion::V1 };
        Ok(Self { container, version })
    }

    /// Some more manifests, none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Listed>>, Trouble> {
        let Some(piece) = self.container.next_piece()? else { return Ok(None) };
        let version = self.version;
        let list = guarded("a manifest list", || {
            iceberg::spec::ManifestList::parse_with_version(&piece, version)
        })?;
        let listed = list.consume_entries().into_iter().map(|entry| {
            let length = u64::try_from(entry.manifest_length);
            let length =
                length.map_err(|_| Trouble::invalid("a manifest has a negative length"))?;
            Ok(Listed {
                path: entry.manifest_path,
                length,
                spec_id: entry.partition_spec_id,
                content: content(entry.content),
                sequence_number: entry.sequence_number,
            })
        });
        listed.collect::<Result<_, _>>().map(Some)
    }
}

/// A file that belongs to the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveFile {
    pub(crate) path: String,
    pub(crate) length: u64,
    pub(crate) content: Content,
}

/// A manifest that is being read.
pub(crate) struct Manifest<'a> {
    container: Container<'a>,
    metadata: ManifestMetadata,
}

impl<'a> Manifest<'a> {
    /// Reads the header.
    pub(crate) fn open(bytes: &'a [u8], bounds: Bounds) -> Result<Self, Trouble> {
        let mut container = Container::open(bytes, bounds)?;
        let header = container.header_mut();
        for (key, amend) in
            [("schema", uuids_are_bytes as fn(&mut Value)), ("partition-spec", fields_are_numbered)]
        {
            let value = header.get(key).and_then(|value| serde_json::from_slice(value).ok());
            let Some(mut value) = value else {
                return Err(Trouble::invalid(format!("a manifest has no {key}")));
            };
            limits::ids_have_room(&value)?;
            amend(&mut value);
            header.insert(key.to_owned(), value.to_string().into_bytes());
        }
        let said: HashMap<String, Vec<u8>> = header.clone().into_iter().collect();
        let metadata = guarded("a manifest", || ManifestMetadata::parse(&said))?;
        Ok(Self { container, metadata })
    }

    /// The partition spec that it was written with.
    pub(crate) fn spec(&self) -> &iceberg::spec::PartitionSpec {
        self.metadata.partition_spec()
    }

    /// What its files are.
    pub(crate) fn content(&self) -> Content {
        content(*self.metadata.content())
    }

    /// Some more files, of those that belong to the table; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<LiveFile>>, Trouble> {
        let Some(piece) = self.container.next_piece()? else { return Ok(None) };
        let manifest = guarded("a manifest", || iceberg::spec::Manifest::parse_avro(&piece))?;
        let live =
            manifest.entries().iter().filter(|entry| entry.is_alive()).map(|entry| LiveFile {
                path: entry.file_path().to_owned(),
                length: entry.file_size_in_bytes(),
                content: match entry.content_type() {
                    DataContentType::Data => Content::Data,
                    DataContentType::PositionDeletes | DataContentType::EqualityDeletes => {
                        Content::Deletes
                    }
                },
            });
        Ok(Some(live.collect()))
    }
}

fn content(content: ManifestContentType) -> Content {
    match content {
        ManifestContentType::Data => Content::Data,
        ManifestContentType::Deletes => Content::Deletes,
    }
}

/// The crate cannot resolve the sixteen fixed bytes that Iceberg writes for a UUID: it reads them as what they are.
fn uuids_are_bytes(schema: &mut Value) {
    match schema {
        Value::Array(parts) => parts.iter_mut().for_each(uuids_are_bytes),
        Value::Object(parts) => {
            for (key, part) in parts {
                let is_a_type = matches!(key.as_str(), "type" | "element" | "key" | "value");
                if is_a_type && part == "uuid" {
                    *part = json!("fixed[16]");
                } else {
                    uuids_are_bytes(part);
                }
            }
        }
        _ => {}
    }
}

/// Writers of version 1 left out what is 1000 and so on; the crate insists on it.
fn fields_are_numbered(spec: &mut Value) {
    for (index, field) in spec.as_array_mut().into_iter().flatten().enumerate() {
        if let Some(field) = field.as_object_mut() {
            field.entry("field-id").or_insert_with(|| json!(1_000 + index));
        }
    }
}

//! Iceberg: what a catalog reads of its bucket and of its clients.
//!
//! The metadata in the corpora is that of a recorded server and some made by hand, with what it has not; the Avro files
//! were written by PyIceberg 0.12.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;

use crate::fuzz::Target;
use crate::fuzz::target::Envelope;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::iceberg::CreateTable;
use crate::iceberg::CreateView;
use crate::iceberg::Fresh;
use crate::iceberg::Metadata;
use crate::iceberg::Moment;
use crate::iceberg::View;
use crate::iceberg::apply;
use crate::iceberg::apply_view;
use crate::iceberg::avro::Bounds;
use crate::iceberg::avro::Manifest;
use crate::iceberg::avro::ManifestList;
use crate::iceberg::avro::put_together;
use crate::iceberg::avro::taken_apart;
use crate::iceberg::check;
use crate::iceberg::check_view;
use crate::iceberg::create_table;
use crate::iceberg::create_view;
use crate::iceberg::forward_safe;
use crate::iceberg::plain_metadata;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "table-metadata", about: "the metadata of an Iceberg table",
        shape: Shape::Json, envelope: None, examine: table_metadata,
    },
    Target {
        name: "view-metadata", about: "the metadata of an Iceberg view",
        shape: Shape::Json, envelope: None, examine: view_metadata,
    },
    Target {
        name: "table-commit", about: "creations of tables and views, requirements and updates",
        shape: Shape::Json, envelope: None, examine: table_commit,
    },
    Target {
        name: "manifest-list", about: "the Avro file of a snapshot: its manifests",
        shape: Shape::Binary, envelope: Some(AVRO), examine: manifest_list,
    },
    Target {
        name: "manifest", about: "the Avro file of a manifest: its data files",
        shape: Shape::Binary, envelope: Some(AVRO), examine: manifest,
    },
    Target {
        name: "metadata-gzip", about: "a metadata file that is packed",
        shape: Shape::Binary, envelope: Some(GZIP), examine: metadata_gzip,
    },
];

/// So little that a file of the most values fits into the memory of a target.
const BOUNDS: Bounds = Bounds {
    encoded_bytes: 1 << 20,
    decoded_bytes: 1 << 20,
    records: 10_000,
    record_values: 10_000,
    piece_bytes: 64 << 10,
    piece_values: 10_000,
};

const AVRO: Envelope = Envelope {
    open: |file| taken_apart(file, BOUNDS).map(Vec::from),
    close: |pieces| match pieces {
        [head, records] => put_together(head, records),
        _ => Vec::new(),
    },
    pieces: Shape::Binary,
};

const GZIP: Envelope = Envelope {
    open: |file| Some(vec![plain_metadata("1.metadata.json.gz", file.to_vec()).ok()?]),
    close: |pieces| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Into memory nothing fails.
        let _ = encoder.write_all(&pieces.concat());
        encoder.finish().unwrap_or_default()
    },
    pieces: Shape::Json,
};

const MOMENT: Moment<'static> = Moment { now_ms: 1_800_000_000_000, previous_location: "s3://b/m" };

fn table_metadata(bytes: &[u8]) -> Examined {
    let Ok(metadata) = Metadata::parse(bytes) else { return Ok(Found::Refused) };
    let again = Metadata::parse(&metadata.to_bytes());
    must(again.as_ref() == Ok(&metadata), "it is not read again")?;
    must(forward_safe(&metadata, &metadata).is_ok(), "it may not stay as it is")?;
    // What a client may have put where the crate counts on is found at the next commit, and refused there.
    let Ok(next) = apply(&metadata, &[], &MOMENT) else { return Ok(Found::Decoded) };
    must(next.uuid() == metadata.uuid(), "a commit of nothing makes another table")?;
    must(forward_safe(&metadata, &next).is_ok(), "a commit of nothing changes something")?;
    let once_more = apply(&metadata, &[], &MOMENT).map(|next| next.to_bytes());
    must(once_more == Ok(next.to_bytes()), "the same commit is other bytes")?;
    Ok(Found::Decoded)
}

fn view_metadata(bytes: &[u8]) -> Examined {
    let Ok(view) = View::parse(bytes) else { return Ok(Found::Refused) };
    must(View::parse(&view.to_bytes()).as_ref() == Ok(&view), "it is not read again")?;
    let Ok(next) = apply_view(&view, &[], MOMENT.now_ms) else { return Ok(Found::Decoded) };
    must(next.uuid() == view.uuid(), "a replacement by nothing makes another view")?;
    let once_more = apply_view(&view, &[], MOMENT.now_ms).map(|next| next.to_bytes());
    must(once_more == Ok(next.to_bytes()), "the same replacement is other bytes")?;
    Ok(Found::Decoded)
}

/// A case is a creation, or a commit on what a creation in it makes.
fn table_commit(bytes: &[u8]) -> Examined {
    let Ok(case) = serde_json::from_slice::<Value>(bytes) else { return Ok(Found::Refused) };
    let fresh = Fresh { uuid: Uuid::nil(), now_ms: 5, location: "s3://lake/tables/t" };
    let body = case["create"].to_string();
    let list = |key: &str| case[key].as_array().cloned().unwrap_or_default();
    let (requirements, updates) = (list("requirements"), list("updates"));
    if case["create"].get("view-version").is_some() {
        let created =
            CreateView::parse(body.as_bytes()).and_then(|body| create_view(&body, &fresh));
        let Ok(view) = created else { return Ok(Found::Refused) };
        if check_view(&requirements, &view).is_err() {
            return Ok(Found::Refused);
        }
        let Ok(next) = apply_view(&view, &updates, 7) else { return Ok(Found::Refused) };
        must(View::parse(&next.to_bytes()).as_ref() == Ok(&next), "the view is not read again")?;
        let once_more = apply_view(&view, &updates, 7).map(|next| next.to_bytes());
        must(once_more == Ok(next.to_bytes()), "the same replacement is other bytes")?;
        return Ok(Found::Decoded);
    }
    let created = CreateTable::parse(body.as_bytes()).and_then(|body| create_table(&body, &fresh));
    let Ok(table) = created else { return Ok(Found::Refused) };
    must(table.document()["table-uuid"] == json!(Uuid::nil()), "the table has another uuid")?;
    if check(&requirements, &table).is_err() {
        return Ok(Found::Refused);
    }
    let Ok(next) = apply(&table, &updates, &MOMENT) else { return Ok(Found::Refused) };
    must(Metadata::parse(&next.to_bytes()).as_ref() == Ok(&next), "the table is not read again")?;
    must(next.metadata_log().len() == 1, "the commit is not in the log")?;
    must(next.last_updated_ms() >= MOMENT.now_ms, "time went back")?;
    must(next.last_column_id() >= table.last_column_id(), "columns were given back")?;
    let once_more = apply(&table, &updates, &MOMENT).map(|next| next.to_bytes());
    must(once_more == Ok(next.to_bytes()), "the same commit is other bytes")?;
    Ok(Found::Decoded)
}

fn manifest_list(bytes: &[u8]) -> Examined {
    let Ok(mut list) = ManifestList::open(bytes, BOUNDS) else { return Ok(Found::Refused) };
    let mut count = 0;
    loop {
        match list.next() {
            Ok(Some(listed)) => count += listed.len(),
            Ok(None) => break,
            Err(_) => return Ok(Found::Refused),
        }
    }
    must(count <= BOUNDS.records, "more manifests than records")?;
    Ok(Found::Decoded)
}

fn manifest(bytes: &[u8]) -> Examined {
    let Ok(mut manifest) = Manifest::open(bytes, BOUNDS) else { return Ok(Found::Refused) };
    let mut count = 0;
    loop {
        match manifest.next() {
            Ok(Some(files)) => count += files.len(),
            Ok(None) => break,
            Err(_) => return Ok(Found::Refused),
        }
    }
    must(count <= BOUNDS.records, "more files than records")?;
    Ok(Found::Decoded)
}

fn metadata_gzip(bytes: &[u8]) -> Examined {
    let Ok(plain) = plain_metadata("1.metadata.json.gz", bytes.to_vec()) else {
        return Ok(Found::Refused);
    };
    Ok(if Metadata::parse(&plain).is_ok() { Found::Decoded } else { Found::Refused })
}

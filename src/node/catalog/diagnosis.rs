//! What an operator is told of one table. In durable-strong backing, too, where nothing is left to be repaired (M23).
//!
//! # Sources
//!
//! Specification of the catalog §2.5 (export, diagnostics).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::Catalog;
use super::depot::Depot;
use super::documents;
use super::object;
use super::reply::Reply;
use super::state::State;
use crate::node::store::api::ListRequest;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::recovery::Records;
use crate::protocol::catalog::recovery::Report;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::report::Diagnostics;
use crate::protocol::catalog::report::Export;
use crate::protocol::catalog::report::Manifest;
use crate::protocol::catalog::report::MetadataStatus;

/// Metadata files of a folder that are listed at once.
const PAGE: usize = 1_000;

/// A table with its commit records.
struct Seen {
    export: Export,
    report: Report,
    /// How many of its commits recovery can put aside.
    abandonable: usize,
    commits: Vec<CommitRecord>,
}

impl Catalog {
    /// `GET …/catalog/export`.
    pub(super) async fn export(&self, bucket: &str, name: &Identifier) -> Result<Reply, Refusal> {
        let state = self.state(bucket).await?;
        Ok(Reply::json(&self.seen(&state, bucket, name).await?.export))
    }

    /// `GET …/catalog/diagnostics`.
    pub(super) async fn diagnose(&self, bucket: &str, name: &Identifier) -> Result<Reply, Refusal> {
        let state = self.state(bucket).await?;
        let Seen { export, report, abandonable, commits } = self.seen(&state, bucket, name).await?;
        let (status, logged) = self.metadata_status(&export.table).await?;
        let known: BTreeSet<&str> = commits
            .iter()
            .flat_map(|it| [&*it.new_metadata_location, &*it.previous_metadata_location])
            .chain([&*export.table.metadata_location])
            .chain(logged.iter().map(String::as_str))
            .collect();
        let folder = keys::folder(&export.table.metadata_location);
        let mut orphans = files(&self.depot, bucket, folder).await?;
        orphans.retain(|key| !known.contains(&**key));
        let abandonable = if self.settings.config.reference_wire { 0 } else { abandonable };
        let told = Diagnostics::new(export, status, report, abandonable, orphans);
        Ok(Reply::json(&told))
    }

    async fn seen(&self, state: &State, bucket: &str, name: &Identifier) -> Result<Seen, Refusal> {
        let table = state.table(bucket, name).await?;
        let no_bucket = || Class::NotFound.because(format!("{bucket} has no table-bucket entry"));
        let table_bucket = state.bucket(bucket).await?.ok_or_else(no_bucket)?;
        let namespace = explicit(state, bucket, name).await?;
        let (commits, keyed) = match state {
            State::Object(depot) => object::records_of(depot, bucket, &table.table_id).await?,
            State::Strong(loaded) => {
                let commits = loaded.snapshot.contents.commits_of(bucket, &table.table_id);
                let all = |records: Option<&BTreeMap<String, std::sync::Arc<CommitRecord>>>| {
                    let records = records.into_iter().flat_map(BTreeMap::values);
                    records.map(|it| (**it).clone()).collect()
                };
                (all(commits.map(|it| &it.commits)), all(commits.map(|it| &it.idempotency)))
            }
        };
        let records = Records::new(&table, &commits, &keyed);
        let (report, abandonable) = (records.report(0), records.abandonable().len());
        let backing_manifest = Manifest::of(&table, &report, state.backing());
        let export = Export { table_bucket, namespace, table, backing_manifest };
        Ok(Seen { export, report, abandonable, commits })
    }

    /// What there is of the current metadata file, and the keys of the files that it says were current before.
    async fn metadata_status(
        &self,
        table: &TableEntry,
    ) -> Result<(MetadataStatus, Vec<String>), Refusal> {
        let (bucket, at) = (&*table.table_bucket, &*table.metadata_location);
        if !keys::is_table_metadata(at) {
            return Ok((MetadataStatus::InvalidLocation, Vec::new()));
        }
        match documents::table_at(&self.depot, bucket, at).await {
            Err(Refusal { class: Class::NotFound, .. }) => {
                Ok((MetadataStatus::MissingObject, Vec::new()))
            }
            Err(error) if error.class == Class::Unavailable => Err(error),
            Err(_) => Ok((MetadataStatus::InvalidJson, Vec::new())),
            Ok(metadata) => {
                let is_its = metadata.uuid().to_string() == table.table_uuid;
                let log = metadata.metadata_log().into_iter();
                let keys = log.filter_map(|it| {
                    keys::key_of_location(bucket, &it.metadata_file).map(str::to_owned)
                });
                let status =
                    if is_its { MetadataStatus::Valid } else { MetadataStatus::InvalidJson };
                Ok((status, keys.collect()))
            }
        }
    }
}

/// The entry of a table's namespace; an implicit one cannot be exported.
async fn explicit(
    state: &State,
    bucket: &str,
    name: &Identifier,
) -> Result<NamespaceEntry, Refusal> {
    let found = match state {
        State::Object(depot) => {
            let key = keys::namespace_entry(bucket, &name.namespace);
            depot.record::<NamespaceEntry>(bucket, &key).await?.map(|it| it.value)
        }
        State::Strong(loaded) => {
            let contents = &loaded.snapshot.contents;
            contents.namespace(bucket, &name.namespace).map(|it| (**it).clone())
        }
    };
    let missing = || {
        let namespace = &name.namespace;
        Class::NoSuchNamespace.because(format!("namespace {bucket}/{namespace} has no entry"))
    };
    found.filter(NamespaceEntry::is_active).ok_or_else(missing)
}

/// The keys of a folder of a table bucket.
async fn files(depot: &Depot, bucket: &str, folder: &str) -> Result<Vec<String>, Refusal> {
    let mut keys = Vec::new();
    let mut request = ListRequest {
        bucket: bucket.to_owned(),
        prefix: folder.to_owned(),
        limit: PAGE,
        ..ListRequest::default()
    };
    loop {
        let page = depot.store().list(request.clone()).await;
        let page = page.map_err(|error| super::depot::unreadable(&error))?;
        keys.extend(page.entries.into_iter().map(|it| it.target.key));
        match page.next {
            Some((after, _)) => request.after = after,
            None => return Ok(keys),
        }
    }
}

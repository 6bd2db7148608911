//! Commits: what moves a table's pointer, and what asks for it again.
//!
//! # Sources
//!
//! Specification of the catalog §2.8, §2.5 (pointer, rollback); M24 (publishing what is current is no change).

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;

use super::Catalog;
use super::caller::Caller;
use super::documents;
use super::reply;
use super::reply::Reply;
use super::state::State;
use super::tables::Name;
use super::tables::pointer_body;
use crate::iceberg;
use crate::iceberg::Metadata;
use crate::iceberg::Moment;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::ENTRY_VERSION;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::json::Json;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::keys::CommitNames;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::commit::Committed;
use crate::protocol::catalog::object::commit::Request as Publish;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// The most requirements, and the most updates, of one commit.
const PARTS_MAX: usize = 1_024;
/// The longest id, key, operation or writer of a commit, in bytes.
const WORD_BYTES_MAX: usize = 1_024;

/// A commit as a client sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Commit {
    #[serde(default)]
    identifier: Option<Name>,
    #[serde(default)]
    requirements: Option<Vec<Json>>,
    #[serde(default)]
    updates: Option<Vec<Value>>,
    #[serde(default)]
    commit_id: Option<String>,
    #[serde(default)]
    idempotency_key: Option<String>,
    #[serde(default)]
    operation: Option<String>,
    #[serde(default)]
    writer: Option<String>,
    #[serde(default)]
    expected_version_token: Option<String>,
    #[serde(default)]
    expected_metadata_location: Option<String>,
    #[serde(default)]
    new_metadata_location: Option<String>,
}

/// A request to move the pointer to a file that is there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Move {
    #[serde(alias = "metadataLocation")]
    metadata_location: String,
    #[serde(alias = "versionToken")]
    version_token: String,
    #[serde(default, alias = "commitId")]
    commit_id: Option<String>,
    #[serde(default, alias = "idempotencyKey")]
    idempotency_key: Option<String>,
}

/// Who a commit is, and what it says of itself.
struct Said<'a> {
    names: CommitNames,
    idempotency_key: Option<String>,
    operation: String,
    writer: Option<String>,
    requirements: Vec<Json>,
    has_fresh_name: bool,
    base: &'a TableEntry,
}

impl Said<'_> {
    fn record(&self, new_metadata_location: String) -> CommitRecord {
        CommitRecord {
            version: ENTRY_VERSION,
            commit_id: self.names.commit_id.clone(),
            idempotency_key: self.idempotency_key.clone(),
            table_id: self.base.table_id.clone(),
            operation: self.operation.clone(),
            expected_version_token: self.base.version_token.clone(),
            new_version_token: keys::version_token(Uuid::new_v4()),
            previous_metadata_location: self.base.metadata_location.clone(),
            new_metadata_location,
            requirements: self.requirements.clone(),
            status: Status::Staged,
            writer: self.writer.clone(),
            created_at: None,
            updated_at: None,
        }
    }
}

impl Catalog {
    /// `POST …/tables/{table}`.
    pub(super) async fn commit_table(
        &self,
        caller: &Caller,
        bucket: &str,
        name: &Identifier,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let body: Commit = reply::body(body)?;
        if let Some(said) = &body.identifier
            && said.identifier()? != *name
        {
            return Err(Class::Invalid.because("the body names another table than the path"));
        }
        if body.new_metadata_location.is_some() {
            return self.commit_pointer(caller, bucket, name, body).await;
        }
        let (Some(requirements), Some(updates)) = (body.requirements, body.updates) else {
            return Err(Class::Invalid.because("a commit has `requirements` and `updates`"));
        };
        if requirements.len() > PARTS_MAX || updates.len() > PARTS_MAX {
            let text = format!("a commit has at most {PARTS_MAX} requirements and updates");
            return Err(Class::Invalid.because(text));
        }
        check_words([&body.commit_id, &body.idempotency_key, &body.operation, &body.writer])?;
        let state = self.state(bucket).await?;
        let entry = state.table(bucket, name).await?;
        let ids = (body.commit_id.as_deref(), body.idempotency_key.as_deref());
        let names = CommitNames::of(ids.0, ids.1, Uuid::new_v4());
        let has_fresh_name = ids == (None, None);
        let checked: Vec<Value> = requirements.iter().map(Json::to_value).collect();
        let again = Again {
            writer: body.writer.as_deref(),
            idempotency_key: ids.1,
            requirements: &requirements,
            checked: &checked,
            updates: &updates,
        };
        if !has_fresh_name && let Some(known) = known_commit(&state, &entry, &names, ids).await? {
            return self.commit_again(bucket, name, &entry, known, &again).await;
        }
        let metadata = documents::table(&self.depot, &entry).await?;
        iceberg::check(&checked, &metadata).map_err(documents::refused)?;
        let previous = keys::location(bucket, &entry.metadata_location);
        let moment = Moment { now_ms: super::now_ms(), previous_location: &previous };
        let next = iceberg::apply(&metadata, &updates, &moment).map_err(documents::refused)?;
        iceberg::transition(&metadata, &next).map_err(documents::refused)?;
        if next.location() != metadata.location() {
            prefix::of_new_table(bucket, next.location())?;
        }
        Box::pin(self.check_graph(caller, bucket, &entry, Some(&metadata), &next)).await?;

        let (key, next) = self
            .file_of(bucket, &entry, &names, next, |now_ms| {
                let moment = Moment { now_ms, previous_location: &previous };
                iceberg::apply(&metadata, &updates, &moment).map_err(documents::refused)
            })
            .await?;
        let operation = body
            .operation
            .clone()
            .or_else(|| added_operation(&metadata, &next))
            .unwrap_or_else(|| "commit".to_owned());
        let said = Said {
            names,
            idempotency_key: body.idempotency_key.clone(),
            operation,
            writer: body.writer.clone(),
            requirements: requirements.clone(),
            has_fresh_name,
            base: &entry,
        };
        let committed = self.publish(bucket, name, &said, key, &next, true).await?;
        if committed.is_replay && !has_fresh_name {
            // Somebody was faster under the same name: it was this commit only if it said the same.
            let state = self.state(bucket).await?;
            let entry = state.table(bucket, name).await?;
            if let Some(known) = known_commit(&state, &entry, &said.names, ids).await? {
                return self.commit_again(bucket, name, &entry, known, &again).await;
            }
        }
        self.committed_body(committed, Some(next)).await
    }

    /// The pointer form of a commit: the client has put the metadata file there itself.
    async fn commit_pointer(
        &self,
        caller: &Caller,
        bucket: &str,
        name: &Identifier,
        body: Commit,
    ) -> Result<Reply, Refusal> {
        let is_empty = |parts: Option<usize>| parts.unwrap_or_default() == 0;
        if !is_empty(body.requirements.as_ref().map(Vec::len))
            || !is_empty(body.updates.as_ref().map(Vec::len))
        {
            let text = "a commit to a metadata file that is there has no requirements and updates";
            return Err(Class::Invalid.because(text));
        }
        let (Some(token), Some(base), Some(target)) = (
            body.expected_version_token,
            body.expected_metadata_location,
            body.new_metadata_location,
        ) else {
            let text = "a commit to a metadata file that is there needs `expected-version-token` and `expected-metadata-location`";
            return Err(Class::Invalid.because(text));
        };
        let wanted = Wanted {
            target,
            token,
            base: Some(base),
            commit_id: body.commit_id,
            idempotency_key: body.idempotency_key,
            operation: body.operation.unwrap_or_else(|| "commit".to_owned()),
            writer: body.writer,
        };
        let (committed, metadata) = self.move_pointer(caller, bucket, name, wanted, false).await?;
        self.committed_body(committed, metadata).await
    }

    /// `PUT …/metadata-location`.
    pub(super) async fn set_pointer(
        &self,
        caller: &Caller,
        bucket: &str,
        name: &Identifier,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let wanted = Wanted::of(reply::body(body)?, "update-metadata-location");
        let (committed, _) = self.move_pointer(caller, bucket, name, wanted, false).await?;
        Ok(pointer_body(&committed.table))
    }

    /// `POST …/catalog/rollback`.
    pub(super) async fn roll_back(
        &self,
        caller: &Caller,
        bucket: &str,
        name: &Identifier,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let wanted = Wanted::of(reply::body(body)?, "rollback");
        let (committed, metadata) = self.move_pointer(caller, bucket, name, wanted, true).await?;
        self.committed_body(committed, metadata).await
    }

    async fn move_pointer(
        &self,
        caller: &Caller,
        bucket: &str,
        name: &Identifier,
        wanted: Wanted,
        rolls_back: bool,
    ) -> Result<(Committed, Option<Metadata>), Refusal> {
        let state = self.state(bucket).await?;
        let entry = state.table(bucket, name).await?;
        check_words([&wanted.commit_id, &wanted.idempotency_key, &wanted.writer, &None])?;
        let ids = (wanted.commit_id.as_deref(), wanted.idempotency_key.as_deref());
        let names = CommitNames::of(ids.0, ids.1, Uuid::new_v4());
        let folder = keys::folder(&entry.metadata_location);
        let target = keys::key_of_location(bucket, &wanted.target)
            .filter(|key| keys::is_metadata_in(key, folder));
        let Some(target) = target else {
            let at = &wanted.target;
            return Err(Class::Invalid
                .because(format!("{at:?} is not in the metadata folder of {bucket}/{name}")));
        };
        let known = known_commit(&state, &entry, &names, ids).await?;
        let is_repeated = known.as_ref().is_some_and(|it| {
            it.expected_version_token == wanted.token && it.new_metadata_location == target
        });
        if known.is_some() && !is_repeated {
            let text = format!("commit {} was another one", names.commit_id);
            return Err(Class::Conflict.because(text));
        }
        let is_based = entry.version_token == wanted.token
            && wanted.base.as_ref().is_none_or(|base| {
                keys::key_of_location(bucket, base) == Some(&*entry.metadata_location)
            });
        if !is_repeated && !is_based {
            let text = format!("{bucket}/{name} does not stand where the request expects it");
            return Err(Class::Conflict.because(text));
        }
        let found = documents::table_at(&self.depot, bucket, target).await;
        let next = found.map_err(|error| match error.class {
            Class::NotFound => error.as_class(Class::Invalid),
            _ => error,
        })?;
        let current = documents::table(&self.depot, &entry).await?;
        if !is_repeated && target == entry.metadata_location {
            let commit_id = names.commit_id;
            return Ok((Committed { table: entry, commit_id, is_replay: true }, Some(current)));
        }
        if !is_repeated {
            iceberg::transition(&current, &next).map_err(documents::refused)?;
            if rolls_back {
                iceberg::forward_safe(&current, &next).map_err(documents::refused)?;
            }
            if next.location() != current.location() {
                prefix::of_new_table(bucket, next.location())?;
            }
            // What is gone back to has to be whole, however long ago it was current.
            let before = Some(&current).filter(|_| !rolls_back);
            Box::pin(self.check_graph(caller, bucket, &entry, before, &next)).await?;
        }
        let said = Said {
            names,
            idempotency_key: wanted.idempotency_key,
            operation: wanted.operation,
            writer: wanted.writer,
            requirements: Vec::new(),
            has_fresh_name: false,
            base: &entry,
        };
        let mut record = said.record(target.to_owned());
        if let Some(known) = known {
            record = CommitRecord {
                status: Status::Staged,
                new_version_token: record.new_version_token,
                ..known
            };
        }
        let committed = self.publish_record(bucket, name, &entry, record, &next, None).await?;
        Ok((committed, Some(next)))
    }

    /// Publishes what another request may have published already.
    async fn commit_again(
        &self,
        bucket: &str,
        name: &Identifier,
        entry: &TableEntry,
        known: CommitRecord,
        again: &Again<'_>,
    ) -> Result<Reply, Refusal> {
        let id = known.commit_id.clone();
        let conflict =
            |what: &str| Class::Conflict.because(format!("commit {id} is known, and {what}"));
        if known.writer.as_deref() != again.writer
            || known.idempotency_key.as_deref() != again.idempotency_key
            || known.requirements != again.requirements
        {
            return Err(conflict("this request says something else of itself"));
        }
        let gone = |refusal: Refusal| match refusal.class {
            Class::Unavailable => refusal,
            _ => conflict("its metadata files are not what they were"),
        };
        let previous = documents::table_at(&self.depot, bucket, &known.previous_metadata_location)
            .await
            .map_err(gone)?;
        let recorded = documents::table_at(&self.depot, bucket, &known.new_metadata_location)
            .await
            .map_err(gone)?;
        iceberg::check(again.checked, &previous)
            .map_err(|_| conflict("its requirements were others"))?;
        let location = keys::location(bucket, &known.previous_metadata_location);
        let moment = Moment { now_ms: recorded.last_updated_ms(), previous_location: &location };
        let next = iceberg::apply(&previous, again.updates, &moment)
            .map_err(|_| conflict("its updates were others"))?;
        if next != recorded {
            return Err(conflict("its updates were others"));
        }
        let record = CommitRecord {
            status: Status::Staged,
            new_version_token: keys::version_token(Uuid::new_v4()),
            ..known
        };
        let committed = self.publish_record(bucket, name, entry, record, &recorded, None).await?;
        self.committed_body(committed, None).await
    }

    /// The metadata file of a commit: a new one, or the one that an earlier try of the same commit left.
    async fn file_of(
        &self,
        bucket: &str,
        entry: &TableEntry,
        names: &CommitNames,
        next: Metadata,
        at: impl Fn(i64) -> Result<Metadata, Refusal>,
    ) -> Result<(String, Metadata), Refusal> {
        let folder = keys::folder(&entry.metadata_location);
        let generation = entry.generation.saturating_add(1);
        let plain = format!("{folder}{}", keys::metadata_file(generation, &names.token));
        let scoped = keys::scoped_metadata_file(generation, &entry.table_id, &names.token);
        for key in [plain, format!("{folder}{scoped}")] {
            let found = match documents::table_at(&self.depot, bucket, &key).await {
                Err(Refusal { class: Class::NotFound, .. }) => return Ok((key, next)),
                Err(Refusal { class: Class::Unavailable, text }) => {
                    return Err(Class::Unavailable.because(text));
                }
                Err(error) => return Err(error.as_class(Class::Damaged)),
                Ok(found) => found,
            };
            if found.uuid() == next.uuid() {
                if at(found.last_updated_ms())? == found {
                    return Ok((key, found));
                }
                let text = format!("{key} is there already and holds another commit");
                return Err(Class::Conflict.because(text));
            }
            // Another table of this folder has taken the name.
        }
        Err(Class::Conflict.because("both names of the commit's metadata file are taken"))
    }

    async fn publish(
        &self,
        bucket: &str,
        name: &Identifier,
        said: &Said<'_>,
        key: String,
        next: &Metadata,
        writes_file: bool,
    ) -> Result<Committed, Refusal> {
        let record = said.record(key);
        let metadata = writes_file.then(|| (next.to_bytes(), said.has_fresh_name));
        self.publish_record(bucket, name, said.base, record, next, metadata).await
    }

    async fn publish_record(
        &self,
        bucket: &str,
        name: &Identifier,
        base: &TableEntry,
        record: CommitRecord,
        next: &Metadata,
        file: Option<(Vec<u8>, bool)>,
    ) -> Result<Committed, Refusal> {
        let (metadata, has_fresh_name) = match file {
            Some((bytes, has_fresh_name)) => (Some(bytes), has_fresh_name),
            None => (None, false),
        };
        self.change_commit(Publish {
            bucket: bucket.to_owned(),
            table: name.clone(),
            record,
            metadata,
            warehouse_location: next.location().to_owned(),
            format_version: u32::from(next.format_version()),
            from_prefix: prefix::of_table(bucket, &base.warehouse_location)?,
            has_fresh_name,
            leaves_unfinished: false,
        })
        .await
    }

    /// What a client is told of a commit: where the table stands now.
    async fn committed_body(
        &self,
        committed: Committed,
        metadata: Option<Metadata>,
    ) -> Result<Reply, Refusal> {
        let entry = &committed.table;
        // A commit that others have built on by now is answered with what is current.
        let metadata = match metadata.filter(|_| !committed.is_replay) {
            Some(metadata) => metadata,
            // It is published: that it cannot be shown is no refusal.
            None => documents::table(&self.depot, entry)
                .await
                .map_err(|refusal| refusal.as_class(Class::Unknown))?,
        };
        Ok(Reply::json(&json!({
            "metadata-location": keys::location(&entry.table_bucket, &entry.metadata_location),
            "metadata": metadata.document(),
            "version-token": entry.version_token,
            "generation": entry.generation,
            "commit-id": committed.commit_id,
        })))
    }
}

/// A request that is sent again.
struct Again<'a> {
    writer: Option<&'a str>,
    idempotency_key: Option<&'a str>,
    requirements: &'a [Json],
    checked: &'a [Value],
    updates: &'a [Value],
}

/// A move of the pointer.
struct Wanted {
    target: String,
    token: String,
    base: Option<String>,
    commit_id: Option<String>,
    idempotency_key: Option<String>,
    operation: String,
    writer: Option<String>,
}

impl Wanted {
    fn of(body: Move, operation: &str) -> Self {
        Self {
            target: body.metadata_location,
            token: body.version_token,
            base: None,
            commit_id: body.commit_id,
            idempotency_key: body.idempotency_key,
            operation: operation.to_owned(),
            writer: None,
        }
    }
}

/// The commit that a request's id and key name, if it is known. A key alone names the commit that was made with it.
async fn known_commit(
    state: &State,
    entry: &TableEntry,
    names: &CommitNames,
    (commit_id, key): (Option<&str>, Option<&str>),
) -> Result<Option<CommitRecord>, Refusal> {
    let (by_id, by_key) = state.commit_of(entry, &names.commit_id, key).await?;
    let Some(by_key) = by_key else { return Ok(by_id) };
    if by_key.commit_id != names.commit_id && commit_id.is_some() {
        let text = "the commit id and the idempotency key name different commits";
        return Err(Class::Conflict.because(text));
    }
    let by_id = match by_id {
        Some(record) if record.commit_id == by_key.commit_id => Some(record),
        _ => state.commit_of(entry, &by_key.commit_id, None).await?.0,
    };
    let missing = || {
        let id = &by_key.commit_id;
        let text = format!("commit {id} has an idempotency record and no log record");
        Class::Conflict.because(text)
    };
    by_id.map(Some).ok_or_else(missing)
}

/// Refuses words of a client's that are too long to be kept with every commit.
fn check_words(words: [&Option<String>; 4]) -> Result<(), Refusal> {
    let is_long =
        |word: &&Option<String>| word.as_ref().is_some_and(|it| it.len() > WORD_BYTES_MAX);
    match words.iter().copied().find(is_long) {
        None => Ok(()),
        Some(_) => Err(Class::Invalid.because(format!(
            "ids, keys, operations and writers of commits have at most {WORD_BYTES_MAX} bytes"
        ))),
    }
}

/// The operation of a snapshot that a commit has added.
fn added_operation(before: &Metadata, after: &Metadata) -> Option<String> {
    (before.current_snapshot_id() != after.current_snapshot_id())
        .then(|| after.current_operation().map(str::to_owned))
        .flatten()
}

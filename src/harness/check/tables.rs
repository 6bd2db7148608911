//! What the drives hold of the table catalog, decoded for the invariants: tables, commits, fences. Pure.
//!
//! Which state counts is told by the cut-over record: with it the snapshot, without it the objects.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Witnesses;
use super::consent;
use super::findings::Examination;
use super::findings::Found;
use crate::harness::audit::census::CatalogCensus;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::catalog::Commit;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;

/// The strong snapshot.
pub(super) const SNAPSHOT: &str = "s3tables/catalog/strong-backing/snapshot.json";
/// Says that the snapshot counts.
const CUT_OVER: &str = "s3tables/catalog/backing-migration/firedrill-cut-over.json";

/// A table, as its entry has it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Table {
    pub(super) table_bucket: String,
    pub(super) namespace: String,
    pub(super) table: String,
    pub(super) table_id: String,
    pub(super) metadata_location: String,
    pub(super) version_token: String,
    pub(super) generation: u64,
    state: String,
}

impl Table {
    /// Its name for people, and for what the history calls it.
    pub(super) fn name(&self) -> String {
        format!("{}.{}.{}", self.table_bucket, self.namespace, self.table)
    }
}

/// What of the catalog has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Bucket,
    Namespace,
    Table,
    View,
}

impl Kind {
    /// Its word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Bucket => "table bucket",
            Self::Namespace => "namespace",
            Self::Table => "table",
            Self::View => "view",
        }
    }
}

/// An entry of whatever kind, as far as its name goes.
#[derive(Debug, Deserialize)]
struct Entry {
    table_bucket: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    view: Option<String>,
    state: String,
}

impl Entry {
    /// What it is and what it is called; `None` when it is not in use.
    fn name(&self) -> Option<(Kind, String)> {
        let bucket = &self.table_bucket;
        let named = match (&self.namespace, &self.view) {
            (None, _) => (Kind::Bucket, bucket.clone()),
            (Some(namespace), None) => (Kind::Namespace, format!("{bucket}.{namespace}")),
            (Some(namespace), Some(view)) => (Kind::View, format!("{bucket}.{namespace}.{view}")),
        };
        (self.state == ACTIVE).then_some(named)
    }
}

/// The state of what is in use.
const ACTIVE: &str = "ACTIVE";

/// A commit, as its record has it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Logged {
    pub(super) commit_id: String,
    pub(super) table_id: String,
    pub(super) previous_metadata_location: String,
    pub(super) new_metadata_location: String,
    pub(super) status: String,
}

/// A row of a snapshot.
#[derive(Debug, Deserialize)]
struct Row {
    commit: Logged,
}

/// A snapshot, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Snapshot {
    table_buckets: Vec<Entry>,
    namespaces: Vec<Entry>,
    tables: Vec<Table>,
    views: Vec<Entry>,
    commits: Vec<Row>,
}

/// What was decoded of a state.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    tables: Vec<Table>,
    commits: Vec<Logged>,
    others: Vec<Entry>,
}

impl Decoded {
    /// Its tables and commits.
    pub(super) fn state(self) -> State {
        (self.tables, self.commits)
    }
}

/// A metadata file, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) properties: BTreeMap<String, String>,
    #[serde(default, rename = "metadata-log")]
    pub(super) log: Vec<Earlier>,
}

/// An earlier metadata file.
#[derive(Debug, Deserialize)]
pub(super) struct Earlier {
    #[serde(rename = "metadata-file")]
    pub(super) file: String,
}

/// The state that counts.
#[derive(Debug)]
pub(super) struct Catalog<'a> {
    census: &'a CatalogCensus,
    /// Everything that is in use, by kind and name.
    pub(super) names: BTreeSet<(Kind, String)>,
    /// Tables by their names.
    pub(super) tables: BTreeMap<String, Table>,
    /// Commits by their tables' ids.
    pub(super) commits: BTreeMap<String, Vec<Logged>>,
}

/// What drives hold of the catalog; without it, and for what of it cannot be read, it is told that nobody can tell.
pub(super) fn census<'a>(
    examination: &mut Examination,
    witnesses: &Witnesses<'a>,
) -> Option<&'a CatalogCensus> {
    let census = examination.census(witnesses)?;
    let Some(catalog) = &census.catalog else {
        let message = "the drives hold no catalog".to_owned();
        examination.found(Found::undecided("no_catalog", message));
        return None;
    };
    for words in &catalog.unreadable {
        examination.found(Found::undecided("unreadable_record", words.clone()));
    }
    Some(catalog)
}

/// Whether a durable-strong process has taken over.
pub(super) fn is_cut_over(census: &CatalogCensus) -> bool {
    census.objects.contains_key(CUT_OVER)
}

impl<'a> Catalog<'a> {
    /// Decodes it; `None`, which is told, when there is none or something of it does not decode.
    pub(super) fn of(examination: &mut Examination, witnesses: &Witnesses<'a>) -> Option<Self> {
        let census = census(examination, witnesses)?;
        let decoded = match is_cut_over(census) {
            true => strong(census),
            false => objects(census),
        };
        match decoded {
            Ok(decoded) => {
                let mut commits = BTreeMap::<String, Vec<Logged>>::new();
                for commit in decoded.commits {
                    commits.entry(commit.table_id.clone()).or_default().push(commit);
                }
                let active = decoded.tables.iter().filter(|table| table.state == ACTIVE);
                let mut names: BTreeSet<(Kind, String)> =
                    active.map(|table| (Kind::Table, table.name())).collect();
                names.extend(decoded.others.iter().filter_map(Entry::name));
                let tables = decoded.tables.into_iter().map(|table| (table.name(), table));
                Some(Self { census, names, tables: tables.collect(), commits })
            }
            Err(message) => {
                let found = Found::fail("catalog_does_not_decode", message);
                examination.found(found.shown_in("census.json"));
                None
            }
        }
    }

    /// The commits of a table.
    pub(super) fn commits_of(&self, table: &Table) -> &[Logged] {
        self.commits.get(&table.table_id).map_or(&[], Vec::as_slice)
    }

    /// The generations of the commits of a table that are on the way to what is current, by their ids.
    pub(super) fn generations(&self, table: &Table) -> BTreeMap<&str, u64> {
        let commits = self.commits_of(table);
        let made: BTreeMap<&str, &Logged> =
            commits.iter().map(|commit| (&*commit.new_metadata_location, commit)).collect();
        let mut generations = BTreeMap::new();
        let (mut file, mut generation) = (&*table.metadata_location, table.generation);
        while let Some(commit) = made.get(file) {
            if generations.insert(&*commit.commit_id, generation).is_some() {
                break;
            }
            file = &commit.previous_metadata_location;
            generation = generation.saturating_sub(1);
        }
        generations
    }

    /// The metadata that a table has now.
    pub(super) fn metadata(&self, table: &Table) -> Option<Metadata> {
        let place = format!("{}/{}", table.table_bucket, table.metadata_location);
        serde_json::from_str(self.census.metadata.get(&place)?).ok()
    }
}

/// Tables and commits of one backing.
pub(super) type State = (Vec<Table>, Vec<Logged>);

fn parse<T: DeserializeOwned>(key: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{key}: {error}"))
}

pub(super) fn strong(census: &CatalogCensus) -> Result<Decoded, String> {
    let text = census.objects.get(SNAPSHOT).ok_or("the snapshot is gone after the cutover")?;
    let snapshot: Snapshot = parse(SNAPSHOT, text)?;
    let mut others = snapshot.table_buckets;
    others.extend(snapshot.namespaces);
    others.extend(snapshot.views);
    let commits = snapshot.commits.into_iter().map(|row| row.commit).collect();
    Ok(Decoded { tables: snapshot.tables, commits, others })
}

pub(super) fn objects(census: &CatalogCensus) -> Result<Decoded, String> {
    let mut decoded = Decoded::default();
    for (key, text) in &census.objects {
        let is_named = ["/table-bucket.json", "/namespace-entry.json", "/view-entry.json"]
            .iter()
            .any(|end| key.ends_with(end));
        if key.ends_with("/table-entry.json") {
            decoded.tables.push(parse(key, text)?);
        } else if is_named {
            decoded.others.push(parse(key, text)?);
        } else if key.contains("/commits/") && !key.contains("/firedrill/") {
            decoded.commits.push(parse(key, text)?);
        }
    }
    Ok(decoded)
}

/// One commit with every attempt at it.
#[derive(Debug)]
pub(super) struct Attempts<'a> {
    pub(super) commit: &'a Commit,
    pub(super) table: String,
    pub(super) ops: Vec<&'a CatalogOp>,
    /// Looks that saw it.
    pub(super) looks: Vec<&'a CatalogOp>,
    /// Whether an older snapshot was put back with an operator's consent since.
    is_given_up: bool,
}

impl Attempts<'_> {
    /// What its client may conclude from all attempts, and from having seen it.
    pub(super) fn outcome(&self) -> Outcome {
        if self.is_given_up {
            return Outcome::Ambiguous;
        }
        let outcomes: BTreeSet<Outcome> = self.ops.iter().map(|op| op.outcome()).collect();
        if outcomes.contains(&Outcome::Acknowledged) || !self.looks.is_empty() {
            Outcome::Acknowledged
        } else if outcomes.contains(&Outcome::Ambiguous) {
            Outcome::Ambiguous
        } else {
            Outcome::Refused
        }
    }

    /// Its attempts in the record.
    pub(super) fn show(&self, mut found: Found) -> Found {
        for op in self.ops.iter().chain(&self.looks) {
            found = found.shown_in(op.line());
        }
        found.explained_by(self.ops.iter().chain(&self.looks).map(|op| op.asked.ask))
    }
}

/// Every commit that was tried, by its id.
pub(super) fn attempts(history: &History) -> BTreeMap<&str, Attempts<'_>> {
    let mut all = BTreeMap::<&str, Attempts<'_>>::new();
    let consents = consent::all(history);
    for op in &history.catalog {
        let (Some(commit), Some(table)) = (op.commit(), &op.asked.table) else { continue };
        let table = format!("{}.{table}", op.asked.warehouse);
        let known = all.entry(commit.commit_id.as_str());
        let known = known.or_insert_with(|| Attempts {
            commit,
            table,
            ops: Vec::new(),
            looks: Vec::new(),
            is_given_up: false,
        });
        known.ops.push(op);
        known.is_given_up |= consent::gives_up(&consents, op);
    }
    for op in &history.catalog {
        let seen = op.saw().and_then(|commit| all.get_mut(commit.commit_id.as_str()));
        if let Some(attempts) = seen {
            attempts.looks.push(op);
        }
    }
    all
}

/// Whether the table of a commit may have been dropped after the commit was first tried.
pub(super) fn was_dropped_since(history: &History, tried: &Attempts<'_>) -> bool {
    let begun = tried.ops.iter().map(|op| op.invoked).min().unwrap_or_default();
    drops(history, &tried.table).any(|op| op.ended.is_none_or(|ended| ended > begun))
}

/// Requests that may have dropped a table, `warehouse.namespace.name`.
pub(super) fn drops<'a>(history: &'a History, table: &str) -> impl Iterator<Item = &'a CatalogOp> {
    let is_of_it = |op: &&CatalogOp| {
        let named = op.asked.table.as_ref().map(|name| format!("{}.{name}", op.asked.warehouse));
        op.asked.action == CatalogAction::DropTable
            && op.outcome() != Outcome::Refused
            && named.as_deref() == Some(table)
    };
    history.catalog.iter().filter(is_of_it)
}

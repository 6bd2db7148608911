//! A store over real local drives in temporary directories, with faults at their seam.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use tempfile::TempDir;
use uuid::Uuid;

pub use super::seams::*;
use crate::disk::drive::Drive as _;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::LocalDrive;
use crate::disk::drive::LocalOptions;
use crate::disk::drive::LocalSeams;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::xl_meta::XlMeta;
use crate::node::seams::DriveClient;
use crate::node::store::Store;
use crate::node::store::api::*;
use crate::protocol::config::Durability;
use crate::protocol::config::Limits;
use crate::protocol::crash_point::Unarmed;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;
use crate::protocol::rules::SharedRules;
use crate::protocol::rules::Sound;
use crate::value::ObjectKey;
use crate::value::VersionId;

pub struct Bench {
    pub folder: TempDir,
    pub clients: Vec<Arc<Client>>,
    pub table: Arc<Table>,
    pub store: Arc<Store>,
    format: FormatJson,
}

/// A store over all drives, as another process would open it.
fn over(
    clients: &[Arc<Client>],
    format: &FormatJson,
    n: usize,
    table: &Arc<Table>,
    rules: SharedRules,
) -> Arc<Store> {
    let drives: Vec<Arc<dyn DriveClient>> =
        clients.iter().map(|it| Arc::<Client>::clone(it) as Arc<dyn DriveClient>).collect();
    let sets = clients.len() / n;
    Store::new(StoreParts {
        sets: drives.chunks(n).map(<[_]>::to_vec).collect(),
        local: (0..sets).flat_map(|set| (0..n).map(move |slot| (set, slot))).collect(),
        format: format.clone(),
        parity: quorum::default_parity(n),
        locks: Arc::new(TableLocks(Arc::clone(table))),
        rules,
        passing: Arc::new(Unarmed),
        limits: Limits {
            lock_wait_ms: 5_000,
            heal_period_ms: 20,
            heal_grace_s: 0,
            ..Limits::default()
        },
    })
}

pub fn key(bucket: &str, key: &str) -> ObjectKey {
    ObjectKey { bucket: bucket.to_owned(), key: key.to_owned() }
}

/// Bytes that differ everywhere.
pub fn contents(length: usize, salt: u64) -> Vec<u8> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub fn body(bytes: &[u8]) -> BodyStream {
    let chunks: Vec<_> =
        bytes.chunks(100_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks).boxed()
}

pub fn put_request(target: ObjectKey, size: usize) -> PutRequest {
    PutRequest {
        target,
        size: Some(size as u64),
        metadata: Metadata::default(),
        content_md5: None,
        checksums: Vec::new(),
        conditions: Conditions::default(),
    }
}

pub fn read_request(target: ObjectKey) -> ReadRequest {
    ReadRequest {
        target,
        version: None,
        range: None,
        part: None,
        conditions: Conditions::default(),
    }
}

impl Bench {
    /// Sets of `n` drives each.
    pub fn with(sets: usize, n: usize, rules: SharedRules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ids: Vec<Vec<Uuid>> =
            (0..sets).map(|_| (0..n).map(|_| Uuid::new_v4()).collect()).collect();
        let format = FormatJson::new(Uuid::new_v4(), ids[0][0], ids.clone());
        let table = Arc::new(Table::default());
        let mut clients = Vec::new();
        for (index, id) in ids.concat().into_iter().enumerate() {
            let root = folder.path().join(format!("d{:02}", index + 1));
            std::fs::create_dir(&root).unwrap();
            let options = LocalOptions {
                name: format!("0/{index}"),
                root,
                allow_unmounted: true,
                durability: Durability::Relaxed,
            };
            let seams = LocalSeams {
                fences: Arc::<Table>::clone(&table),
                passing: Arc::new(Unarmed),
                rules: Arc::clone(&rules),
            };
            let drive = LocalDrive::open(options, seams).unwrap();
            let mut format = format.clone();
            format.xl.this = id;
            let bytes = format.encode();
            drive.perform(DriveRequest::WriteFormat { bytes, rebuilding: false }).unwrap();
            let mood = Mutex::new(Mood::Good);
            clients.push(Arc::new(Client { drive: Arc::new(drive), mood }));
        }
        let store = over(&clients, &format, n, &table, rules);
        Self { folder, clients, table, store, format }
    }

    /// One set of `n` drives, with the bucket `bkt` in this state.
    pub async fn new(n: usize, state: BucketState) -> Self {
        let bench = Self::with(1, n, Arc::new(Sound));
        bench.store.create_bucket("bkt").await.unwrap();
        if state != BucketState::Unversioned {
            bench.store.set_versioning("bkt", state).await.unwrap();
        }
        bench.quiet().await;
        bench
    }

    /// Another process takes over: nothing is known of what this one had under way.
    pub fn take_over(&mut self) {
        let n = self.format.xl.sets[0].len();
        self.table.lapse();
        self.store = over(&self.clients, &self.format, n, &self.table, Arc::new(Sound));
    }

    pub fn root(&self, drive: usize) -> PathBuf {
        self.folder.path().join(format!("d{:02}", drive + 1))
    }

    pub fn set_mood(&self, drives: impl IntoIterator<Item = usize>, mood: Mood) {
        for drive in drives {
            *self.clients[drive].mood.lock().unwrap() = mood;
        }
    }

    pub fn all_good(&self) {
        self.set_mood(0..self.clients.len(), Mood::Good);
    }

    /// Waits until nothing is cleared up in the background any more.
    pub async fn quiet(&self) {
        for _ in 0..1_000 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            if self.table.held.lock().unwrap().is_empty() {
                return;
            }
        }
        panic!("locks stay held");
    }

    pub async fn put(&self, name: &str, bytes: &[u8]) -> Result<PutOutcome, StoreError> {
        self.store.put(put_request(key("bkt", name), bytes.len()), body(bytes)).await
    }

    pub async fn get(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        self.read(read_request(key("bkt", name))).await
    }

    pub async fn read(&self, request: ReadRequest) -> Result<Vec<u8>, StoreError> {
        let outcome = self.store.get(request).await?;
        let mut content = outcome.content;
        let mut bytes = Vec::new();
        while let Some(chunk) = content.next().await {
            bytes.extend_from_slice(&chunk?);
        }
        assert_eq!(bytes.len() as u64, outcome.span.1, "a success is never short");
        Ok(bytes)
    }

    pub async fn delete(
        &self,
        name: &str,
        version: Option<VersionId>,
    ) -> Result<DeleteOutcome, StoreError> {
        let conditions = Conditions::default();
        self.store.delete(DeleteRequest { target: key("bkt", name), version, conditions }).await
    }

    /// The versions that one drive holds of a key, newest first: moment, and whether it is an object.
    pub fn held(&self, drive: usize, name: &str) -> Vec<(i64, bool)> {
        let path = self.root(drive).join("bkt").join(name).join("xl.meta");
        let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
        let meta = XlMeta::parse(&bytes).unwrap();
        let held = meta.versions().iter();
        held.map(|it| (it.header().modtime_ns, it.as_object().is_some())).collect()
    }

    /// Names of everything below a key's directory, on one drive.
    pub fn below(&self, drive: usize, name: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.root(drive).join("bkt").join(name)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                names.push(entry.file_name().into_string().unwrap());
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        names.sort();
        names
    }

    /// Works off what is unfinished, and heals everything.
    pub async fn heal(&self) {
        self.all_good();
        let healer = tokio::spawn(Arc::clone(&self.store).run());
        for _ in 0..500 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let status = self.store.status();
            if status.queued == 0 && status.last_cycle_ended_ns > 0 {
                break;
            }
        }
        let id = self.store.heal(HealRequest { deep: true, ..HealRequest::default() });
        for _ in 0..500 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.store.heal_progress(id).is_some_and(|progress| !progress.running) {
                break;
            }
        }
        healer.abort();
        self.quiet().await;
        let progress = self.store.heal_progress(id).unwrap();
        assert!(!progress.running && progress.unhealed == 0, "{progress:?}");
    }

    /// Ends the drives' use: nothing is left behind in staging areas, and the independent auditor finds nothing
    /// wrong.
    pub async fn audit(&self) {
        self.quiet().await;
        for drive in 0..self.clients.len() {
            let tmp = self.root(drive).join(".rustfs.sys/tmp");
            let left: Vec<_> = std::fs::read_dir(tmp)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .filter(|name| name != ".trash")
                .collect();
            assert!(left.is_empty(), "drive {drive} still stages {left:?}");
        }
        let Some(golden) = std::env::var_os("FIREDRILL_GOLDEN") else {
            eprintln!("skipped: the independent auditor (FIREDRILL_GOLDEN is not set)");
            return;
        };
        for client in &self.clients {
            client.drive.close(1).unwrap();
        }
        let check = PathBuf::from(golden).join("objects/check.py");
        let output = std::process::Command::new("python3")
            .arg(check)
            .arg("--tree")
            .arg(self.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(!said.contains("PROBLEM"), "{said}");
    }
}

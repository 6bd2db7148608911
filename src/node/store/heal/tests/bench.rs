//! Drives, locks and a store in one process; drives can be taken away, made to fail and to hang.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use futures::stream::StreamExt as _;
use tempfile::TempDir;
use uuid::Uuid;

use crate::disk::drive::Drive as _;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Fences;
use crate::disk::drive::LocalDrive;
use crate::disk::drive::LocalOptions;
use crate::disk::drive::LocalSeams;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::node::seams::BoxFuture;
use crate::node::seams::DriveClient;
use crate::node::seams::LockError;
use crate::node::seams::LockGuard;
use crate::node::seams::LockMode;
use crate::node::seams::Locks;
use crate::node::store::Store;
use crate::node::store::api::*;
use crate::protocol::config::Durability;
use crate::protocol::config::Limits;
use crate::protocol::crash_point::Unarmed;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;
use crate::protocol::rules::Sound;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// What is wrong with a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    #[default]
    None,
    /// It is not there.
    Away,
    /// Every answer is an error of the device.
    Failing,
    /// Reads work, writes say that it is full.
    Full,
    /// Nothing is answered before the deadline.
    Hung,
    /// It does what it is asked, and every answer to a write is lost.
    Mute,
    /// It takes no commit: the lock is not granted any more.
    Fenced,
}

pub struct Client {
    name: String,
    drive: Mutex<Option<Arc<LocalDrive>>>,
    fault: Mutex<Fault>,
}

impl Client {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }
}

fn writes(request: &DriveRequest) -> bool {
    !matches!(
        request,
        DriveRequest::Facts
            | DriveRequest::ReadFormat
            | DriveRequest::ListBuckets
            | DriveRequest::ReadKey { .. }
            | DriveRequest::ReadShard { .. }
            | DriveRequest::StatParts { .. }
            | DriveRequest::Walk { .. }
            | DriveRequest::ReadParts { .. }
            | DriveRequest::QueueRead { .. }
            | DriveRequest::RecordRead { .. }
    )
}

fn commits(request: &DriveRequest) -> bool {
    matches!(request, DriveRequest::Commit(_) | DriveRequest::Remove(_) | DriveRequest::Undo(_))
}

impl DriveClient for Client {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_online(&self) -> bool {
        self.fault() != Fault::Away
    }

    fn call(&self, request: DriveRequest) -> BoxFuture<'_, Result<DriveReply, DriveError>> {
        Box::pin(async move {
            let fault = self.fault();
            let error = |errno| DriveError::from_errno(DriveStep::Read, "x", errno);
            match fault {
                Fault::Away => {
                    return Err(DriveError::NotAsked { why: "away".to_owned() });
                }
                Fault::Failing => return Err(error(nix::libc::EIO)),
                Fault::Full if writes(&request) => {
                    let errno = nix::libc::ENOSPC;
                    return Err(DriveError::from_errno(DriveStep::Write, "x", errno));
                }
                Fault::Hung => {
                    tokio::time::sleep(Duration::from_millis(1_500)).await;
                    return Err(DriveError::Deadline { waited_ms: 1_500 });
                }
                Fault::Fenced => {
                    if let DriveRequest::Commit(commit) = &request {
                        let grant = commit.grant.clone();
                        return Err(DriveError::Fenced {
                            resource: grant.resource,
                            lock: grant.lock,
                        });
                    }
                }
                Fault::None | Fault::Full | Fault::Mute => {}
            }
            let is_lost = fault == Fault::Mute && commits(&request);
            let drive = self.drive.lock().unwrap().clone().ok_or(DriveError::NotOwned)?;
            let answer = tokio::task::spawn_blocking(move || drive.perform(request)).await.unwrap();
            if is_lost {
                return Err(DriveError::Unreachable { why: "the answer was lost".to_owned() });
            }
            answer
        })
    }
}

struct Granted;

impl Fences for Granted {
    fn pin(&self, _resource: &ObjectKey, _lock: Uuid) -> Option<Box<dyn Send>> {
        Some(Box::new(()))
    }
}

#[derive(Default)]
struct OneProcess {
    locks: Mutex<BTreeMap<ObjectKey, Arc<tokio::sync::RwLock<()>>>>,
}

enum Guarded {
    Shared { _guard: tokio::sync::OwnedRwLockReadGuard<()> },
    Exclusive { _guard: tokio::sync::OwnedRwLockWriteGuard<()> },
}

struct Guard {
    id: Uuid,
    _guarded: Guarded,
}

impl LockGuard for Guard {
    fn id(&self) -> Uuid {
        self.id
    }

    fn is_held(&self) -> bool {
        true
    }
}

impl Locks for OneProcess {
    fn acquire<'a>(
        &'a self,
        resource: &'a ObjectKey,
        mode: LockMode,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(async move {
            let lock = Arc::clone(self.locks.lock().unwrap().entry(resource.clone()).or_default());
            let guarded = async {
                match mode {
                    LockMode::Shared => Guarded::Shared { _guard: lock.read_owned().await },
                    LockMode::Exclusive => Guarded::Exclusive { _guard: lock.write_owned().await },
                }
            };
            let guarded = tokio::time::timeout(wait, guarded).await.map_err(|_| {
                LockError::Busy { resource: resource.clone(), waited_ms: wait.as_millis() as u64 }
            })?;
            Ok(Box::new(Guard { id: Uuid::new_v4(), _guarded: guarded }) as Box<dyn LockGuard>)
        })
    }
}

pub struct Bench {
    pub folder: TempDir,
    pub store: Arc<Store>,
    pub clients: Vec<Arc<Client>>,
    pub format: FormatJson,
    n: usize,
}

impl Bench {
    /// One set of `n` drives, with the bucket `bkt`.
    pub async fn new(n: usize) -> Self {
        Self::with_sets(1, n).await
    }

    pub async fn with_sets(sets: usize, n: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ids = (0..sets)
            .map(|_| (0..n).map(|_| Uuid::new_v4()).collect::<Vec<_>>())
            .collect::<Vec<_>>();
        let format = FormatJson::new(Uuid::new_v4(), ids[0][0], ids);
        let mut clients = Vec::new();
        for index in 0..sets * n {
            let root = folder.path().join(format!("d{:02}", index + 1));
            std::fs::create_dir(&root).unwrap();
            let own = format.for_place(index / n, index % n).unwrap();
            let drive = open(root, index);
            let request = DriveRequest::WriteFormat { bytes: own.encode(), rebuilding: false };
            drive.perform(request).unwrap();
            clients.push(Arc::new(Client {
                name: format!("0/{index}"),
                drive: Mutex::new(Some(Arc::new(drive))),
                fault: Mutex::default(),
            }));
        }
        let store = store_over(&clients, &format, n, 0);
        let bench = Self { folder, store, clients, format, n };
        bench.store.create_bucket("bkt").await.unwrap();
        bench
    }

    pub fn set(&self, slots: impl IntoIterator<Item = usize>, fault: Fault) {
        for slot in slots {
            *self.clients[slot].fault.lock().unwrap() = fault;
        }
    }

    pub fn heal_faults(&self) {
        self.set(0..self.clients.len(), Fault::None);
    }

    pub fn root(&self, slot: usize) -> PathBuf {
        self.folder.path().join(format!("d{:02}", slot + 1))
    }

    /// The node dies and starts again; drives that are away stay so.
    pub fn restart(&mut self) {
        for (index, client) in self.clients.iter().enumerate() {
            *client.drive.lock().unwrap() = None;
            let drive = open(self.root(index), index);
            drive.own(crate::node::store::calls::now_ns()).unwrap();
            *client.drive.lock().unwrap() = Some(Arc::new(drive));
        }
        self.store = store_over(&self.clients, &self.format, self.n, 0);
    }

    /// A drive is exchanged for a blank one.
    pub fn replace(&self, slot: usize) {
        *self.clients[slot].drive.lock().unwrap() = None;
        std::fs::remove_dir_all(self.root(slot)).unwrap();
        std::fs::create_dir(self.root(slot)).unwrap();
        let drive = open(self.root(slot), slot);
        *self.clients[slot].drive.lock().unwrap() = Some(Arc::new(drive));
    }

    /// Gives a blank drive its format and begins to rebuild it by healing alone; answers the sequence's id.
    pub async fn adopt_blank(&self, set: usize, slot: usize) -> Uuid {
        self.format_blank(set, slot).await;
        self.store.heal(HealRequest::default())
    }

    /// Gives a blank drive its format, so that it is one that is being rebuilt.
    pub async fn format_blank(&self, set: usize, slot: usize) {
        let format = self.store.format_of(set, slot);
        let request = DriveRequest::WriteFormat { bytes: format.encode(), rebuilding: true };
        // A blank drive takes no other work, so that it is asked past the question whether it is online.
        self.store.drives(set)[slot].call(request).await.unwrap();
    }

    pub async fn versioning(&self, state: BucketState) {
        self.store.set_versioning("bkt", state).await.unwrap();
    }

    pub async fn put(&self, key: &str, contents: &[u8]) -> Result<PutOutcome, StoreError> {
        self.put_if(key, contents, Conditions::default()).await
    }

    async fn put_if(
        &self,
        key: &str,
        contents: &[u8],
        conditions: Conditions,
    ) -> Result<PutOutcome, StoreError> {
        let request = PutRequest {
            target: at(key),
            size: Some(contents.len() as u64),
            metadata: Metadata::default(),
            content_md5: None,
            checksums: Vec::new(),
            conditions,
        };
        self.store.put(request, body(contents)).await
    }

    pub async fn get(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        self.read(read(key)).await
    }

    pub async fn get_version(&self, key: &str, id: VersionId) -> Result<Vec<u8>, StoreError> {
        self.read(ReadRequest { version: Some(id), ..read(key) }).await
    }

    pub async fn read(&self, request: ReadRequest) -> Result<Vec<u8>, StoreError> {
        let mut outcome = self.store.get(request).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = outcome.content.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }

    pub async fn delete(
        &self,
        key: &str,
        version: Option<VersionId>,
    ) -> Result<DeleteOutcome, StoreError> {
        let conditions = Conditions::default();
        self.store.delete(DeleteRequest { target: at(key), version, conditions }).await
    }

    /// Ids and kinds of all versions of all keys, as a listing shows them.
    pub async fn versions(&self) -> Vec<(String, String, bool)> {
        let request =
            ListRequest { bucket: "bkt".to_owned(), limit: 1000, ..ListRequest::default() };
        let listing = self.store.list_versions(request).await.unwrap();
        let row = |it: ObjectInfo| (it.target.key, it.version.to_string(), it.delete_marker);
        listing.entries.into_iter().map(row).collect()
    }

    pub async fn keys(&self) -> Vec<String> {
        let request =
            ListRequest { bucket: "bkt".to_owned(), limit: 1000, ..ListRequest::default() };
        let listing = self.store.list(request).await.unwrap();
        listing.entries.into_iter().map(|it| it.target.key).collect()
    }

    /// Heals and waits for the end.
    pub async fn heal(&self, request: HealRequest) -> HealProgress {
        let id = self.store.heal(request);
        self.healed(id).await
    }

    pub async fn heal_all(&self, deep: bool) -> HealProgress {
        self.heal(HealRequest { deep, ..HealRequest::default() }).await
    }

    pub async fn healed(&self, id: Uuid) -> HealProgress {
        loop {
            let progress = self.store.heal_progress(id).unwrap();
            if !progress.running {
                return progress;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until what was acknowledged a moment ago has been cleared up behind.
    pub async fn quiet(&self) {
        tokio::time::sleep(Duration::from_millis(150)).await;
    }

    /// Lets the background work until its queue is empty.
    pub async fn work_off(&self) {
        let running = tokio::spawn(Arc::clone(&self.store).run());
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let status = self.store.status();
            if status.last_cycle_ended_ns > 0 && status.queued == 0 && !status.healing {
                break;
            }
        }
        running.abort();
        assert_eq!(self.store.status().queued, 0, "the queue is worked off");
    }

    /// Empties trash and quarantine.
    pub async fn sweep(&self) {
        self.quiet().await;
        for client in &self.clients {
            let now_ns = crate::node::store::calls::now_ns();
            client.call(DriveRequest::Sweep { now_ns, grace_s: 0 }).await.unwrap();
        }
    }

    /// Entries of a drive's durable queue.
    pub fn queued(&self, slot: usize) -> usize {
        let drive = self.clients[slot].drive.lock().unwrap().clone().unwrap();
        match drive.perform(DriveRequest::QueueRead { limit: 1000 }).unwrap() {
            DriveReply::Queue(entries) => entries.len(),
            other => panic!("{other:?}"),
        }
    }

    /// A copy of a drive's bucket as it is now.
    pub fn snapshot(&self, slot: usize) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(&self.root(slot).join("bkt"), &copy.path().join("bkt"));
        copy
    }

    /// Puts a drive's bucket back to what it was.
    pub fn restore(&self, slot: usize, copy: &TempDir) {
        std::fs::remove_dir_all(self.root(slot).join("bkt")).unwrap();
        copy_tree(&copy.path().join("bkt"), &self.root(slot).join("bkt"));
    }

    /// The same drives under a store with this grace.
    pub fn grace(&mut self, grace_s: u64) {
        self.store = store_over(&self.clients, &self.format, self.n, grace_s);
    }

    pub fn restart_with_grace(&mut self, grace_s: u64) {
        self.restart();
        self.grace(grace_s);
    }

    pub fn meta(&self, slot: usize, key: &str) -> Option<XlMeta> {
        let path = self.root(slot).join(layout::meta_path("bkt", key));
        std::fs::read(path).ok().map(|bytes| XlMeta::parse(&bytes).unwrap())
    }

    /// The part file of the latest version on a drive.
    pub fn part(&self, slot: usize, key: &str) -> PathBuf {
        let object = self.meta(slot, key).unwrap();
        let data_dir = object.latest().unwrap().as_object().unwrap().data_dir;
        self.root(slot).join(layout::part_path("bkt", key, data_dir, 1))
    }

    /// Closes every drive in order and has the golden data's own checker look at the tree, where it is.
    pub fn audit(self) {
        for client in &self.clients {
            let drive = client.drive.lock().unwrap().take().unwrap();
            drive.close(crate::node::store::calls::now_ns()).unwrap();
        }
        let left = garbage(self.folder.path());
        assert!(left.is_empty(), "nothing is left behind: {left:?}");
        let Some(golden) = std::env::var_os("FIREDRILL_GOLDEN") else {
            eprintln!("skipped the golden checker: FIREDRILL_GOLDEN is not set");
            return;
        };
        let checker = PathBuf::from(golden).join("objects/check.py");
        let output = std::process::Command::new("python3")
            .arg(checker)
            .arg("--tree")
            .arg(self.folder.path())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Files that no healthy drive has once it is quiet.
fn garbage(root: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let is_left = text.ends_with(layout::META_BACKUP)
                || text.contains("/tmp/")
                || text.contains("/quarantine/")
                || text.contains("/multipart/")
                || (text.contains("/part.") && text.ends_with(".meta"));
            if is_left {
                found.push(text);
            }
        }
    }
    found
}

fn open(root: PathBuf, index: usize) -> LocalDrive {
    let options = LocalOptions {
        name: format!("0/{index}"),
        root,
        allow_unmounted: true,
        durability: Durability::Strict,
    };
    let seams = LocalSeams {
        fences: Arc::new(Granted),
        passing: Arc::new(Unarmed),
        rules: Arc::new(Sound),
    };
    LocalDrive::open(options, seams).unwrap()
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn store_over(clients: &[Arc<Client>], format: &FormatJson, n: usize, grace_s: u64) -> Arc<Store> {
    let all = (0..clients.len()).map(|index| (index / n, index % n)).collect();
    store_of(clients, format, n, all, Limits { heal_grace_s: grace_s, ..quick() })
}

/// Periods for tests; nothing is scanned.
pub fn quick() -> Limits {
    Limits { heal_period_ms: 10, lock_wait_ms: 5_000, scan_cycle_ms: 0, ..Limits::default() }
}

/// The store of a node that owns the drives `local` (set and slot).
pub fn store_of(
    clients: &[Arc<Client>],
    format: &FormatJson,
    n: usize,
    local: Vec<(usize, usize)>,
    limits: Limits,
) -> Arc<Store> {
    let sets = clients.chunks(n).map(|set| {
        set.iter().map(|client| Arc::clone(client) as Arc<dyn DriveClient>).collect::<Vec<_>>()
    });
    let sets = sets.collect::<Vec<_>>();
    Store::new(StoreParts {
        sets,
        local,
        format: format.clone(),
        parity: quorum::default_parity(n),
        locks: Arc::new(OneProcess::default()),
        rules: Arc::new(Sound),
        passing: Arc::new(Unarmed),
        limits,
    })
}

pub fn at(key: &str) -> ObjectKey {
    ObjectKey { bucket: "bkt".to_owned(), key: key.to_owned() }
}

pub fn read(key: &str) -> ReadRequest {
    ReadRequest {
        target: at(key),
        version: None,
        range: None,
        part: None,
        conditions: Conditions::default(),
    }
}

pub fn body(contents: &[u8]) -> BodyStream {
    let chunks = contents.chunks(70_001).map(Bytes::copy_from_slice).map(Ok).collect::<Vec<_>>();
    stream::iter(chunks).boxed()
}

/// Contents that repeat nowhere.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

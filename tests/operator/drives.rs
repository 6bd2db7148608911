//! Made-up drives, the tool, and what lies on drives before and after it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

/// The endpoint of the one target.
pub const ENDPOINT: &str = "http://node-b.example:9000/srv/drive3";
/// The set.
pub const SET: &str = "pool_0_set_2";
/// The orphans of the specification's example.
pub const ORPHANS: [&str; 2] =
    ["11aa22bb-33cc-44dd-95ee-66ff77008801", "11aa22bb-33cc-44dd-95ee-66ff77008802"];
/// The successor of the specification's example.
pub const SUCCESSOR: &str = "d0d0c0c0-b0b0-4a0a-9090-808070706099";
/// The folder of the records.
pub const FOLDER: &str = ".rustfs.sys/buckets/ahm-replacement";
/// The first orphan of the specification's example, byte for byte.
pub const ORPHAN: &str = r#"{"schema_version":5,"resume_cursor":null,"task_id":"11aa22bb-33cc-44dd-95ee-66ff77008801","task_type":"erasure_set","set_disk_id":"pool_0_set_2","replacement_targets":["http://node-b.example:9000/srv/drive3"],"replacement_target_identities":[{"endpoint":"http://node-b.example:9000/srv/drive3","canonical_path":"/srv/drive3","physical_device_ids":["sdq"],"filesystem_identity":"301:2097:128"}],"replacement_buckets":["invoices"],"replacement_generation":"11aa22bb-33cc-44dd-95ee-66ff77008801","replacement_phase":"abandoned","start_time":1790000000,"last_update":1790000000,"completed":false,"total_objects":0,"processed_objects":0,"successful_objects":0,"failed_objects":0,"skipped_objects":0,"skipped_new_versions":0,"skipped_ilm_expired":0,"current_bucket":null,"current_object":null,"completed_buckets":[],"pending_buckets":["invoices"],"error_message":null,"retry_count":0,"max_retries":3,"processed_bytes":0,"total_bytes":0,"baseline_generation":null,"baseline_known":false,"counter_unknown":false}"#;

/// An anchor and a target, which the example's two orphans are on.
pub struct Drives {
    folder: TempDir,
}

impl Drives {
    /// The drives of the specification's example.
    pub fn orphaned() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let drives = Self { folder };
        let second = ORPHAN
            .replace(ORPHANS[0], ORPHANS[1])
            .replace("\"schema_version\":5", "\"schema_version\":6")
            .replace("301:2097:128", "355:2097:128")
            .replace("invoices", "photos")
            .replace("abandoned", "rebuilding");
        drives.write(&format!("anchor/{}", intent(ORPHANS[0])), ORPHAN);
        drives.write(&format!("anchor/{}", intent(ORPHANS[1])), &second);
        for (slot, name) in ["anchor", "target"].into_iter().enumerate() {
            drives.write(&format!("{name}/.rustfs.sys/format.json"), &format_of(slot));
            drives.write(&format!("{name}/plain/object/xl.meta"), "not a record");
        }
        drives.write("target/.rustfs.sys/healing.bin", &format!("{SET}:{}", ORPHANS[0]));
        drives
    }

    /// Where the drives, and whatever else, are.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The path of something below [`Drives::root`].
    pub fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file, and the folders that it lies in.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Replaces `from` in a file by `to`.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.at(path)).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        fs::write(self.at(path), text.replace(from, to)).unwrap();
    }

    /// Everything below [`Drives::root`].
    pub fn tree(&self) -> Tree {
        tree(self.root())
    }

    /// The tool on these drives, from their folder.
    pub fn tool(&self, arguments: &[&str]) -> Answer {
        tool(self.root(), arguments)
    }
}

/// Where an intent lies.
pub fn intent(id: &str) -> String {
    format!("{FOLDER}/{id}_ahm_replacement_intent.json")
}

/// The format of a slot of the third of three sets of four.
fn format_of(slot: usize) -> String {
    let id = |set: usize, slot: usize| format!("00000000-0000-4000-8000-0000000000{set}{slot}");
    let sets: Vec<Vec<String>> =
        (0..3).map(|set| (0..4).map(|slot| id(set, slot)).collect()).collect();
    serde_json::json!({
        "version": "1", "format": "xl", "id": id(9, 9),
        "xl": { "version": "3", "this": id(2, slot), "sets": sets, "distributionAlgo": "SIPMOD+PARITY" },
    })
    .to_string()
}

/// How the tool ended.
pub struct Answer {
    /// The exit code.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it complained of.
    pub err: String,
}

impl Answer {
    /// What it printed, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

/// `firedrill replacement` with `arguments`, run in `folder`.
pub fn tool(folder: &Path, arguments: &[&str]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firedrill"));
    command.arg("replacement").args(arguments).current_dir(folder).env("NO_COLOR", "1");
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Answer { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
}

/// Every path: what it is, its permissions and owner, when it was changed, and what it holds or points to.
pub type Tree = BTreeMap<PathBuf, (u32, u32, i64, i64, Vec<u8>)>;

/// Everything below `root`.
pub fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let facts = path.symlink_metadata().unwrap();
            let bytes = if facts.is_dir() {
                open.push(path.clone());
                Vec::new()
            } else if facts.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            let (mode, owner) = (facts.permissions().mode(), facts.uid());
            tree.insert(path, (mode, owner, facts.mtime(), facts.mtime_nsec(), bytes));
        }
    }
    tree
}

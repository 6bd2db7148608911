//! The census of a few hundred MiB of large objects, beside its parts. `cargo bench --bench census`.

#![expect(clippy::unwrap_used, reason = "a bench may stop at the first surprise")]

use std::collections::BTreeMap;
use std::fs;

use firedrill::disk::format::erasure::Erasure;
use firedrill::disk::format::format_json::FormatJson;
use firedrill::disk::format::frame;
use firedrill::disk::format::xl_meta::ObjectBody;
use firedrill::disk::format::xl_meta::Part;
use firedrill::disk::format::xl_meta::Version;
use firedrill::disk::format::xl_meta::XlMeta;
use firedrill::disk::layout;
use firedrill::harness::audit::DriveSource;
use firedrill::harness::audit::figures;
use firedrill::value::VersionId;
use uuid::Uuid;

const OBJECTS: u64 = 8;
const OBJECT_BYTES: u64 = 16 << 20;

fn main() {
    for (data, parity) in [(2, 2), (3, 3), (8, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let total = data + parity;
        let root = |slot: usize| folder.path().join(format!("d{slot}"));
        let ids = (1..=total as u128).map(Uuid::from_u128).collect::<Vec<_>>();
        let erasure = Erasure::new(data, parity).unwrap();
        for slot in 0..total {
            let format = FormatJson::new(Uuid::from_u128(99), ids[slot], vec![ids.clone()]);
            fs::create_dir_all(root(slot).join(layout::SYSTEM)).unwrap();
            fs::write(root(slot).join(layout::FORMAT), format.encode()).unwrap();
        }
        for number in 0..OBJECTS {
            let key = format!("object-{number}");
            let mut files = vec![Vec::new(); total];
            for block in 0..OBJECT_BYTES / frame::BLOCK_BYTES {
                let seed = number * 1000 + block;
                let words = (0..frame::BLOCK_BYTES / 8).flat_map(|word| {
                    (word ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
                });
                let shards = erasure.encode_block(&words.collect::<Vec<_>>());
                for (file, shard) in files.iter_mut().zip(shards) {
                    frame::encode(&shard, file);
                }
            }
            let distribution = layout::distribution("bench", &key, total);
            for (slot, shard) in distribution.iter().map(|shard| usize::from(*shard)).enumerate() {
                let body = object(number, data, parity, shard, distribution.clone());
                let path = root(slot).join(layout::part_path("bench", &key, body.data_dir, 1));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, &files[shard - 1]).unwrap();
                let mut meta = XlMeta::default();
                meta.insert(Version::object(body), None);
                fs::write(root(slot).join(layout::meta_path("bench", &key)), meta.encode())
                    .unwrap();
            }
        }
        let drives = (0..total)
            .map(|slot| DriveSource { name: format!("d{slot}"), root: root(slot) })
            .collect::<Vec<_>>();
        let figures = figures::measure(&drives).unwrap();
        let speed = |time: std::time::Duration| figures.bytes as f64 / time.as_secs_f64() / 1e6;
        println!(
            "census {data}+{parity}: {:.0} MB/s a core; read {:.0}, hash {:.0}, encode {:.0}; ratio {:.2}",
            speed(figures.census),
            speed(figures.read),
            speed(figures.hash),
            speed(figures.encode),
            figures.ratio()
        );
    }
}

fn object(
    number: u64,
    data: usize,
    parity: usize,
    shard: usize,
    distribution: Vec<u8>,
) -> ObjectBody {
    ObjectBody {
        version: VersionId::NULL,
        data_dir: Uuid::from_u128(0x1_0000 + u128::from(number)),
        erasure_algorithm: 1,
        data,
        parity,
        block_bytes: frame::BLOCK_BYTES,
        shard,
        distribution,
        checksum_algorithm: 1,
        parts: vec![Part {
            number: 1,
            size: OBJECT_BYTES,
            actual_size: OBJECT_BYTES as i64,
            etag: String::new(),
            index: Vec::new(),
        }],
        size: OBJECT_BYTES,
        modtime_ns: 1,
        system: BTreeMap::new(),
        user: BTreeMap::new(),
        unknown: Vec::new(),
    }
}

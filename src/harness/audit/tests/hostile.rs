//! Whatever bytes lie on a drive: the census tells, it never fails.

use super::*;

#[test]
fn no_bytes_on_a_drive_make_the_census_fail() {
    let mut random = StdRng::seed_from_u64(11);
    let drives = Drives::new(1, 4);
    let (large, small) = (contents(3000), contents(50));
    drives.put_on(&ALL, &put(&large));
    drives.put_on(&ALL, &Put { key: "small", ..put(&small) });
    drives.mark_on(&ALL, VersionId([3; 16]), 5_000);
    let whole = drives.census();
    for _ in 0..300 {
        let drive = random.random_range(0..4);
        let path = match random.random_range(0..4) {
            0 => drives.path(drive, layout::FORMAT),
            1 => drives.path(drive, &layout::meta_path("bucket", "small")),
            2 => drives.path(drive, &layout::meta_path("bucket", KEY)),
            _ => drives.part(drive),
        };
        let bytes = fs::read(&path).unwrap();
        let mut bad = bytes.clone();
        match random.random_range(0..3) {
            0 => bad.truncate(random.random_range(0..bytes.len())),
            1 => bad.extend((0..random.random_range(1..40)).map(|_| random.random::<u8>())),
            _ => {
                let at = random.random_range(0..bad.len());
                bad[at] ^= 1 << random.random_range(0..8);
            }
        }
        fs::write(&path, &bad).unwrap();
        let census = take(&drives.sources(), &AuditOptions::default()).unwrap();
        let is_format = path.ends_with("format.json");
        if !is_format {
            assert_ne!(census, whole, "{}: {} bytes", path.display(), bad.len());
        }
        // Three of four drives are whole: nothing is lost, whatever the fourth says.
        for version in census.keys.iter().flat_map(|key| &key.versions) {
            assert!(version.good_shards >= 3, "{version:#?}");
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(drives.census(), whole);
}

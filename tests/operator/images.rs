//! Drives as image files.

use std::process::Command;

use super::drives::Drives;
use super::drives::ORPHANS;
use super::drives::tree;

/// Goal: `orphans` and `status` look into images as into mounted drives, and leave them byte for byte.
#[test]
fn images_are_looked_into_like_drives() {
    let made = |drives: &Drives, name: &str| {
        let image = drives.at(&format!("{name}.img"));
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-F", "-d"]).arg(drives.at(name)).arg(image);
        mkfs.output().is_ok_and(|output| output.status.success())
    };
    let drives = Drives::orphaned();
    if !nix::unistd::geteuid().is_root() || !made(&drives, "anchor") || !made(&drives, "target") {
        println!("skipped: needs root and mkfs.ext4");
        return;
    }
    let before = tree(drives.root());
    for tool in ["orphans", "status"] {
        let mounted = drives.tool(&[tool, "--json", "anchor", "target"]);
        let images = drives.tool(&[tool, "--json", "anchor.img", "target.img"]);
        if images.code == 5 {
            println!("skipped: {}", images.err);
            return;
        }
        assert_eq!((images.code, &*images.err), (mounted.code, ""));
        let named = mounted.out.replace("\"anchor\"", "\"anchor.img\"");
        assert_eq!(images.out, named.replace("\"target\"", "\"target.img\""));
        assert!(images.out.contains(ORPHANS[0]), "{}", images.out);
    }
    assert_eq!(tree(drives.root()), before, "an image was written to");
}

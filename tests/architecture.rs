//! The rules of the house that the compiler cannot see.
//!
//! One package is one build, so nothing but these tests stops one box from reaching into another.
//! They read the sources and hold them to the tables below: a change of architecture is a change of a
//! table, and shows in review.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// What the code of each folder may not mention. Only tests are exempt, and a row whose folder holds
/// no source is a mistake in this table.
#[rustfmt::skip]
const HOUSE: &[(&str, &[&str])] = &[
    ("src/protocol",         &["crate::disk", "crate::iceberg", "crate::node", "crate::harness", "crate::cli", "crate::fuzz",
                               "std::fs", "std::net", "std::time", "std::thread", "std::env",
                               "tokio::", "nix::", "rand::"]),
    ("src/disk",             &["crate::iceberg", "crate::node", "crate::harness", "crate::cli", "crate::fuzz", "tokio::", "rand::"]),
    ("src/disk/format",      &["std::fs", "std::net", "std::time", "std::thread", "nix::"]),
    ("src/node",             &["crate::harness", "crate::cli", "crate::fuzz"]),
    ("src/harness",          &["crate::node", "crate::cli", "crate::fuzz", "disk::drive", " println!(", " print!("]),
    ("src/harness/scenario", &["std::fs", "std::net", "std::time", "std::thread", "tokio::", "nix::", "rand::"]),
    ("src/harness/check",    &["crate::protocol", "crate::disk", "std::fs", "std::net", "std::time",
                               "std::thread", "tokio::", "nix::", "rand::"]),
    ("src/harness/audit",    &["crate::protocol", "File::create", "fs::write", "fs::rename",
                               "fs::remove", "fs::create_dir"]),
    ("src/iceberg",          &["crate::protocol", "crate::disk", "crate::node", "crate::harness", "crate::cli",
                               "crate::fuzz", "std::fs", "std::net", "std::time", "std::thread", "std::env",
                               "tokio::", "nix::", "rand::"]),
    ("src/fuzz",             &["crate::cli", "std::net", "tokio::", "rand::"]),
    ("src/cli",              &["crate::protocol", "crate::disk", "crate::node", " println!(", " print!("]),
];

/// The exceptions: one file or folder, and the one name that it may use although its row forbids it.
#[rustfmt::skip]
const DOORS: &[(&str, &str)] = &[
    ("src/cli/node.rs",      "crate::node"),
];

/// Names that only one file or folder in the whole of `src` may mention.
#[rustfmt::skip]
const ONE_PLACE: &[(&str, &str)] = &[
    ("serde_yaml::",         "src/yaml.rs"),
    ("use iceberg::",        "src/iceberg"),
    ("unsafe {",             "src/sys.rs"),
    ("unsafe fn",            "src/sys.rs"),
    ("unsafe impl",          "src/sys.rs"),
];

/// Past this a file is split.
const FILE_LINES_MAX: usize = 600;

#[test]
fn every_box_keeps_to_its_neighbours() {
    let mut trespasses = Vec::new();
    for (folder, forbidden) in HOUSE {
        for (path, text) in sources(Path::new(folder)) {
            for (number, line) in code(&path, &text) {
                let named = forbidden.iter().filter(|name| line.contains(**name));
                for name in named.filter(|name| !is_a_door(&path, name)) {
                    trespasses.push(format!("{}:{number}: {name}", path.display()));
                }
            }
        }
    }
    assert!(trespasses.is_empty(), "not allowed here:\n{}", trespasses.join("\n"));
}

#[test]
fn every_row_of_the_tables_is_about_something() {
    for (folder, _) in HOUSE {
        assert!(!sources(Path::new(folder)).is_empty(), "{folder} holds no source");
    }
    for (place, name) in DOORS {
        let uses = |(path, text): &(PathBuf, String)| {
            code(path, text).iter().any(|(_, line)| line.contains(name))
        };
        assert!(sources(Path::new(place)).iter().any(uses), "{place} does not use {name}");
    }
}

#[test]
fn some_names_have_one_place() {
    let mut strays = Vec::new();
    for (name, place) in ONE_PLACE {
        for (path, text) in sources(Path::new("src")) {
            if path.starts_with(place) {
                continue;
            }
            let lines = code(&path, &text).into_iter().filter(|(_, line)| line.contains(name));
            strays.extend(lines.map(|(number, _)| format!("{}:{number}: {name}", path.display())));
        }
    }
    assert!(strays.is_empty(), "these belong elsewhere:\n{}", strays.join("\n"));
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    let mut silenced = Vec::new();
    for folder in ["src", "tests", "benches"] {
        for (path, text) in sources(Path::new(folder)) {
            for (index, line) in text.lines().enumerate() {
                let line = line.trim_start();
                if line.starts_with("#[allow(") || line.starts_with("#![allow(") {
                    silenced.push(format!("{}:{}: {line}", path.display(), index + 1));
                }
            }
        }
    }
    assert!(silenced.is_empty(), "say what is expected and why:\n{}", silenced.join("\n"));
}

#[test]
fn no_file_outgrows_its_reader() {
    let mut long = Vec::new();
    for folder in ["src", "tests"] {
        for (path, text) in sources(Path::new(folder)) {
            let count = text.lines().count();
            if count > FILE_LINES_MAX {
                long.push(format!("{} has {count} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "over {FILE_LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn every_module_says_what_it_is() {
    let silent: Vec<_> = sources(Path::new("src"))
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "no header: {silent:?}");
}

/// Whether `path` is the one place that may use `name`.
fn is_a_door(path: &Path, name: &str) -> bool {
    DOORS.iter().any(|(place, door)| path.starts_with(place) && name == *door)
}

/// The lines of a source that are compiled outside tests, numbered from 1, without their comments.
fn code<'a>(path: &Path, text: &'a str) -> Vec<(usize, &'a str)> {
    let is_test = path.file_name().is_some_and(|name| name == "tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests");
    if is_test {
        return Vec::new();
    }
    let compiled = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = compiled.lines().enumerate();
    lines.map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default())).collect()
}

/// Every Rust source at or below `place`.
fn sources(place: &Path) -> Vec<(PathBuf, String)> {
    if place.extension().is_some_and(|extension| extension == "rs") {
        return vec![(place.to_owned(), fs::read_to_string(place).unwrap())];
    }
    let Ok(entries) = fs::read_dir(place) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            let is_source = path.is_dir() || path.extension().is_some_and(|end| end == "rs");
            if is_source { sources(&path) } else { Vec::new() }
        })
        .collect();
    found.sort();
    found
}

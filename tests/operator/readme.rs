//! The operator's page.

use std::fs;

use firedrill::protocol::replacement::refusal::Refusal;

/// Goal: the page has a row for each refusal that there is, with the words and the remedy that the tools print.
#[test]
fn the_operators_page_is_the_table_of_refusals() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let (_, page) =
        readme.split_once("| error | it says | what you may do |\n|---|---|---|\n").unwrap();
    let rows: Vec<_> = page.lines().take_while(|line| line.starts_with('|')).collect();
    let expected: Vec<_> = Refusal::TABLE
        .iter()
        .map(|(_, number, words, remedy)| format!("| {number} | {words} | {remedy} |"))
        .collect();
    assert_eq!(rows, expected, "the rows should be:\n{}", expected.join("\n"));
}

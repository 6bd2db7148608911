//! Tests of the form.

use super::*;

fn testbed(text: &str) -> TestbedForm {
    crate::yaml::parse("t.yaml", text).unwrap()
}

#[test]
fn possible_topologies_are_read() {
    for (text, set, quorum) in [
        ("{ nodes: 1, drives: 1, parity: 0 }", 1, 1),
        ("{ nodes: 1, drives: 4, parity: 2 }", 4, 3),
        ("{ nodes: 1, drives: 6, parity: 2 }", 6, 4),
        ("{ nodes: 3, drives: 4, parity: 4 }", 12, 8),
        ("{ nodes: 4, drives: 8, parity: 4, set_drives: 16 }", 16, 12),
    ] {
        let read = testbed(text);
        assert_eq!(read.topology(), Ok(()), "{text}");
        assert_eq!((read.set_drives(), read.write_quorum()), (set, quorum), "{text}");
    }
}

#[test]
fn impossible_topologies_are_refused() {
    for text in [
        "{ nodes: 0, drives: 4, parity: 2 }",
        "{ nodes: 1, drives: 4, parity: 3 }",
        "{ nodes: 1, drives: 6, parity: 1, set_drives: 4 }",
        "{ nodes: 4, drives: 8, parity: 4 }",
        "{ nodes: 1, drives: 4, parity: 2, drive_mib: 2 }",
    ] {
        assert!(testbed(text).topology().is_err(), "{text}");
    }
}

#[test]
fn cover_is_read() {
    assert_eq!(Cover::try_from("rotate 2".to_owned()), Ok(Cover::Rotate(2)));
    assert_eq!(Cover::try_from("all".to_owned()), Ok(Cover::All));
    assert!(Cover::try_from("rotate 0".to_owned()).is_err());
    assert!(Cover::try_from("some".to_owned()).is_err());
}

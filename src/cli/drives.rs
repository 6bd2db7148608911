//! Drives that are named on the command line: roots, or image files that are mounted for as long as they are looked
//! at; and how their names are shown.

use std::path::PathBuf;

use super::Exit;
use crate::harness::audit::DriveSource;
use crate::harness::report::Chain;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::still::StillImages;

/// Calls `look` with where each of `drives` is. Image files are mounted read-only meanwhile, for which the
/// process has to be in namespaces of its own; `command` is who speaks when that fails.
pub fn with_mounted(
    command: &str,
    drives: &[PathBuf],
    look: impl FnOnce(&[DriveSource]) -> Exit,
) -> Exit {
    let images = drives.iter().filter(|drive| drive.is_file()).cloned();
    let still = match StillImages::mount_if_any(&images.collect::<Vec<_>>()) {
        Ok(still) => still,
        Err(error) => return refuse(command, &error),
    };
    let mut roots = still.as_ref().map(StillImages::roots).unwrap_or_default().into_iter();
    let source = |drive: &PathBuf| DriveSource {
        name: drive.to_string_lossy().into_owned(),
        root: if drive.is_file() { roots.next().unwrap_or_default() } else { drive.clone() },
    };
    let exit = look(&drives.iter().map(source).collect::<Vec<_>>());
    match still.map_or(Ok(()), StillImages::dismount) {
        Ok(()) => exit,
        Err(error) => {
            eprintln!("firedrill {command}: {}", Chain(&error));
            exit.worst(Exit::Uncleaned)
        }
    }
}

fn refuse(command: &str, error: &TestbedError) -> Exit {
    eprintln!("firedrill {command}: {}", Chain(error));
    match error {
        TestbedError::Lacking { .. } => Exit::Lacking,
        TestbedError::Taken { .. } => Exit::Usage,
        TestbedError::Io { .. } => Exit::Undecided,
        _ => Exit::Internal,
    }
}

/// A name as it is shown on a terminal: keys are hostile text.
pub fn shown(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, letter| {
        if letter.is_control()
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_cannot_speak_to_the_terminal() {
        assert_eq!(shown("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(shown("ümlaut 🔥"), "ümlaut 🔥");
        assert_eq!(shown("x\u{202e}y"), "x\\u{202e}y");
    }
}

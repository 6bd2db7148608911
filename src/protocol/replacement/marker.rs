//! The ownership marker of a target: `<set>:<generation>`, and nothing else.

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::names;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;

/// A marker is no longer than this.
pub const BYTES_MAX: usize = 256;

/// What the marker of a target that `generation` owns holds: no newline, no version.
pub fn owner(set: &str, generation: GenerationId) -> String {
    format!("{set}:{generation}")
}

/// The generation that an owner's text names, if it names one of `set`.
pub fn generation(set: &str, owner: &str) -> Option<GenerationId> {
    owner.strip_prefix(set)?.strip_prefix(':')?.parse().ok()
}

/// What the marker of `endpoint` says; `None` when there is none.
///
/// # Errors
///
/// [`Refusal::MarkerUnreadable`] when it is too long or is no text: it names nobody, and nobody may touch it.
pub fn read<'a>(endpoint: &str, bytes: Option<&'a [u8]>) -> Result<Option<&'a str>, Refusal> {
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let refuse = |seen: String| {
        let evidence = format!("{endpoint}/{}", names::MARKER);
        Refusal::MarkerUnreadable(about(seen, "an owner in at most 256 bytes of UTF-8", evidence))
    };
    if bytes.len() > BYTES_MAX {
        return Err(refuse(format!("{} bytes", bytes.len())));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| refuse(error.to_string()))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_the_owner_and_nothing_else() {
        let id = "8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002".parse().unwrap();
        let text = owner("pool_0_set_2", id);
        assert_eq!(text, "pool_0_set_2:8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002");
        assert_eq!(generation("pool_0_set_2", &text), Some(id));
        assert_eq!(generation("pool_0_set_2", &format!("{text}\n")), None);
        assert_eq!(generation("pool_0_set_1", &text), None);
    }

    #[test]
    fn a_marker_that_is_too_long_or_no_text_is_refused() {
        assert_eq!(read("/d", None), Ok(None));
        assert_eq!(read("/d", Some(&[b'a'; BYTES_MAX])).unwrap().unwrap().len(), BYTES_MAX);
        assert!(read("/d", Some(&[b'a'; BYTES_MAX + 1])).is_err());
        assert!(read("/d", Some(&[0xff])).is_err());
    }
}

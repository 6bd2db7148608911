//! What a target is.

/// One decoder, and what must hold of what it decodes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// What it reads, in a few words.
    pub about: &'static str,
    /// How its bytes are built: mutations keep to it more often than not.
    pub shape: Shape,
    /// What guards the bytes, when something does.
    pub envelope: Option<Envelope>,
    /// Decodes, and looks whether what must hold does.
    pub examine: fn(&[u8]) -> Examined,
}

/// What a decoder made of a case; an error says what did not hold.
pub type Examined = Result<Found, String>;

/// What a decoder made of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It was decoded, and all that must hold held.
    Decoded,
    /// It was refused.
    Refused,
}

/// How bytes are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// In no way that we know.
    Binary,
    /// MessagePack, perhaps behind other bytes.
    MessagePack,
    /// One JSON value.
    Json,
    /// One JSON value a line.
    JsonLines,
    /// Lines of text.
    Text,
}

/// Lengths and checksums around the bytes that matter: without them every mutation would be refused at the
/// door. Most cases mutate a piece and are closed again; some are mutated as they lie.
#[derive(Clone, Copy)]
pub struct Envelope {
    /// Takes a file apart; `None` when it is none.
    pub open: fn(&[u8]) -> Option<Vec<Vec<u8>>>,
    /// Puts pieces together again, with lengths and checksums that are right.
    pub close: fn(&[Vec<u8>]) -> Vec<u8>,
    /// How the pieces are built.
    pub pieces: Shape,
}

/// Fails with `what` unless `holds`.
pub(super) fn must(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// Whether `path`, below a drive's root, stays there.
pub(super) fn stays_below(path: &str) -> bool {
    !path.starts_with('/')
        && !path.contains('\0')
        && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

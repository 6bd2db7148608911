//! What nodes say to each other.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::format::xl_meta::Version;
use crate::fuzz::Target;
use crate::fuzz::target::Envelope;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::node::locks::quorum::LockAnswer;
use crate::node::locks::quorum::LockCall;
use crate::node::peer::auth;
use crate::node::peer::auth::ClusterKey;
use crate::node::peer::words;
use crate::node::peer::words::PeerState;
use crate::protocol::replacement::status::Snapshot;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "peer-request", about: "what a node asks another's drive",
        shape: Shape::MessagePack, envelope: None, examine: request,
    },
    Target {
        name: "peer-answer", about: "what a drive answers another node",
        shape: Shape::MessagePack, envelope: None, examine: answer,
    },
    Target {
        name: "peer-words", about: "how peers stand, and their locks and replacements",
        shape: Shape::MessagePack, envelope: None, examine: any_word,
    },
    Target {
        name: "peer-proof", about: "the header that proves a peer's request",
        shape: Shape::Text, envelope: Some(PROOF), examine: proof,
    },
];

/// Whether `bytes` are a word, which is then written and read again as the same.
fn is_word<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<Option<T>, String> {
    let Ok(word) = words::decode::<T>(bytes) else { return Ok(None) };
    let written = words::encode(&word);
    let again: T = words::decode(&written).map_err(|error| format!("not read again: {error}"))?;
    must(words::encode(&again) == written, "what is written again is something else")?;
    Ok(Some(word))
}

fn request(bytes: &[u8]) -> Examined {
    let Some(request) = is_word::<DriveRequest>(bytes)? else { return Ok(Found::Refused) };
    if let DriveRequest::Commit(commit) = &request {
        let _ = Version::parse(&commit.header, &commit.body).map(|version| version.check());
    }
    Ok(Found::Decoded)
}

fn answer(bytes: &[u8]) -> Examined {
    let answer = is_word::<Result<DriveReply, DriveError>>(bytes)?;
    let Some(answer) = answer else { return Ok(Found::Refused) };
    if let Err(error) = &answer {
        let _ = (error.to_string(), error.effect());
    }
    Ok(Found::Decoded)
}

fn any_word(bytes: &[u8]) -> Examined {
    let any = [
        is_word::<PeerState>(bytes)?.is_some(),
        is_word::<LockCall>(bytes)?.is_some(),
        is_word::<LockAnswer>(bytes)?.is_some(),
        is_word::<Snapshot>(bytes)?.is_some(),
    ];
    Ok(if any.contains(&true) { Found::Decoded } else { Found::Refused })
}

const METHOD: &str = "POST";
const PATH: &str = "/firedrill/v1/peer/lock";
const WINDOW: Duration = Duration::from_secs(12);
/// The moment at which the corpus was proved, Unix milliseconds.
pub(crate) const PROVED_MS: u64 = 1_760_000_000_000;
/// The node that is asked.
pub(crate) const ASKED: usize = 2;

pub(crate) fn key() -> ClusterKey {
    ClusterKey::new(b"secret", "3 nodes of 4 drives, sets of 12")
}

/// One piece: the words of the header, which get the proof that belongs to them when they can have one.
const PROOF: Envelope = Envelope {
    open: |file| {
        let (words, _) = std::str::from_utf8(file).ok()?.rsplit_once(' ')?;
        Some(vec![words.as_bytes().to_vec()])
    },
    close: |pieces| {
        let words = pieces.concat();
        match std::str::from_utf8(&words).ok().and_then(envelope) {
            Some(envelope) => key().prove(METHOD, PATH, &envelope).into_bytes(),
            None => [&words, b" ".as_slice(), &[b'0'; 64]].concat(),
        }
    },
    pieces: Shape::Text,
};

fn envelope(words: &str) -> Option<auth::Envelope> {
    let mut words = words.split(' ').skip(1);
    let (from, to) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let at_ms = words.next()?.parse().ok()?;
    let (mut nonce, mut body) = ([0; 16], [0; 32]);
    hex::decode_to_slice(words.next()?, &mut nonce).ok()?;
    hex::decode_to_slice(words.next()?, &mut body).ok()?;
    Some(auth::Envelope { from, to, at_ms, nonce, body })
}

/// Whoever is let in has the key, the right addressee and the right time; another key lets nobody in.
fn proof(bytes: &[u8]) -> Examined {
    let Ok(header) = std::str::from_utf8(bytes) else { return Ok(Found::Refused) };
    let check = |key: ClusterKey, path| key.check(header, METHOD, path, ASKED, PROVED_MS, WINDOW);
    let other = ClusterKey::new(b"other", "3 nodes of 4 drives, sets of 12");
    must(check(other, PATH).is_err(), "another cluster's key lets somebody in")?;
    must(check(key(), "/firedrill/v1/peer/state").is_err(), "it counts for another path")?;
    let _ = key().check_answer(header, &[0; 16], 200, b"");
    let Ok(envelope) = check(key(), PATH) else { return Ok(Found::Refused) };
    must(envelope.to == ASKED, "it is meant for another node")?;
    let away_ms = u128::from(envelope.at_ms.abs_diff(PROVED_MS));
    must(away_ms <= WINDOW.as_millis(), "it was made at another time")?;
    let again = key().prove(METHOD, PATH, &envelope);
    must(check_again(&again).as_ref() == Some(&envelope), "it is not proved again")?;
    Ok(Found::Decoded)
}

fn check_again(header: &str) -> Option<auth::Envelope> {
    key().check(header, METHOD, PATH, ASKED, PROVED_MS, WINDOW).ok()
}

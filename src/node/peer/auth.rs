//! Proof that a peer's request or answer is one: an HMAC under the cluster's secret. Pure.
//!
//! A request's proof covers who asks whom, when, a nonce, the cluster (its layout, so that a node
//! configured otherwise is no peer), method, path and the body's digest; it counts for a short while
//! and once. An answer's proof covers the request's nonce, the status and the body's digest. The head is
//! checked before a body is read.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::time::Duration;

use hmac::Hmac;
use hmac::KeyInit as _;
use hmac::Mac as _;
use sha2::Digest as _;
use sha2::Sha256;

/// Header with the proof of a request.
pub const REQUEST_HEADER: &str = "x-firedrill-peer";
/// Header with the proof of an answer.
pub const ANSWER_HEADER: &str = "x-firedrill-answer";

/// The cluster's secret, bound to its layout.
#[derive(Clone)]
pub struct ClusterKey([u8; 32]);

/// What a request says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Who asks.
    pub from: usize,
    /// Who is asked.
    pub to: usize,
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// Used once.
    pub nonce: [u8; 16],
    /// SHA-256 of the body.
    pub body: [u8; 32],
}

/// Why a request or an answer is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// There is no proof, or it cannot be read.
    #[error("it carries no proof")]
    Missing,
    /// It was made with another secret, by a node of another layout, or for something else.
    #[error("its proof does not match")]
    Mismatch,
    /// It is meant for another node.
    #[error("it is meant for another node")]
    NotForUs,
    /// It is too old, or from the future.
    #[error("it was made at another time")]
    Stale,
    /// It was used already.
    #[error("it was used already")]
    Replayed,
    /// The body is another one.
    #[error("its body is another one")]
    Body,
}

impl ClusterKey {
    /// The key of the cluster with this `secret` and `layout` (whatever all nodes must agree on).
    pub fn new(secret: &[u8], layout: &str) -> Self {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
        mac.update(b"firedrill cluster 1\n");
        mac.update(layout.as_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    /// The header that proves a request.
    pub fn prove(&self, method: &str, path: &str, envelope: &Envelope) -> String {
        let words = envelope.words();
        let mac = self.over(&["request", method, path, &words]).finalize().into_bytes();
        format!("{words} {}", hex::encode(mac))
    }

    /// Checks a request's header, before its body is read.
    ///
    /// # Errors
    /// [`Unproven`]; who cannot prove it learns nothing about time or addressee.
    pub fn check(
        &self,
        header: &str,
        method: &str,
        path: &str,
        me: usize,
        now_ms: u64,
        window: Duration,
    ) -> Result<Envelope, Unproven> {
        let (words, proof) = header.rsplit_once(' ').ok_or(Unproven::Missing)?;
        let envelope = Envelope::parse(words).ok_or(Unproven::Missing)?;
        let proof = hex::decode(proof).map_err(|_| Unproven::Missing)?;
        let mac = self.over(&["request", method, path, words]);
        mac.verify_slice(&proof).map_err(|_| Unproven::Mismatch)?;
        if envelope.to != me {
            return Err(Unproven::NotForUs);
        }
        if u128::from(envelope.at_ms.abs_diff(now_ms)) > window.as_millis() {
            return Err(Unproven::Stale);
        }
        Ok(envelope)
    }

    /// The header that proves an answer.
    pub fn prove_answer(&self, nonce: &[u8; 16], status: u16, body: &[u8]) -> String {
        hex::encode(self.answer(nonce, status, body).finalize().into_bytes())
    }

    /// Checks an answer.
    ///
    /// # Errors
    /// [`Unproven`]: whoever answered is no peer, or it is not the answer to this request.
    pub fn check_answer(
        &self,
        header: &str,
        nonce: &[u8; 16],
        status: u16,
        body: &[u8],
    ) -> Result<(), Unproven> {
        let proof = hex::decode(header).map_err(|_| Unproven::Missing)?;
        self.answer(nonce, status, body).verify_slice(&proof).map_err(|_| Unproven::Mismatch)
    }

    fn answer(&self, nonce: &[u8; 16], status: u16, body: &[u8]) -> Hmac<Sha256> {
        let body = hex::encode(Sha256::digest(body));
        self.over(&["answer", &hex::encode(nonce), &status.to_string(), &body])
    }

    fn over(&self, fields: &[&str]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for field in fields {
            // Lengths keep one field from running into the next.
            mac.update(&(field.len() as u64).to_be_bytes());
            mac.update(field.as_bytes());
        }
        mac
    }
}

impl Envelope {
    /// Whether `body` is what the proof covers.
    ///
    /// # Errors
    /// [`Unproven::Body`].
    pub fn covers(&self, body: &[u8]) -> Result<(), Unproven> {
        let digest: [u8; 32] = Sha256::digest(body).into();
        if digest == self.body { Ok(()) } else { Err(Unproven::Body) }
    }

    fn words(&self) -> String {
        let Self { from, to, at_ms, nonce, body } = self;
        format!("1 {from} {to} {at_ms} {} {}", hex::encode(nonce), hex::encode(body))
    }

    fn parse(words: &str) -> Option<Self> {
        let mut words = words.split(' ');
        let version = words.next()?;
        let (from, to) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let at_ms = words.next()?.parse().ok()?;
        let (mut nonce, mut body) = ([0; 16], [0; 32]);
        hex::decode_to_slice(words.next()?, &mut nonce).ok()?;
        hex::decode_to_slice(words.next()?, &mut body).ok()?;
        let whole = version == "1" && words.next().is_none();
        whole.then_some(Self { from, to, at_ms, nonce, body })
    }
}

/// The nonces that were used and could still count.
#[derive(Debug)]
pub struct Nonces {
    window: Duration,
    used: HashSet<[u8; 16]>,
    /// In the order of their use: when, and which.
    order: VecDeque<(u64, [u8; 16])>,
}

impl Nonces {
    /// Remembers each nonce for as long as its request can be within `window` of our time.
    pub fn new(window: Duration) -> Self {
        Self { window, used: HashSet::new(), order: VecDeque::new() }
    }

    /// Uses a nonce.
    ///
    /// # Errors
    /// [`Unproven::Replayed`].
    pub fn admit(&mut self, nonce: [u8; 16], now_ms: u64) -> Result<(), Unproven> {
        // A request from the future counts for up to two windows.
        let kept_ms = 2 * u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX / 2);
        while let Some((at_ms, old)) = self.order.front().copied()
            && at_ms.saturating_add(kept_ms) < now_ms
        {
            self.order.pop_front();
            self.used.remove(&old);
        }
        if !self.used.insert(nonce) {
            return Err(Unproven::Replayed);
        }
        self.order.push_back((now_ms, nonce));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);
    const NOW_MS: u64 = 1_000_000;

    fn key() -> ClusterKey {
        ClusterKey::new(b"secret", "3 nodes of 4 drives, sets of 12")
    }

    fn envelope(body: &[u8]) -> Envelope {
        let body = Sha256::digest(body).into();
        Envelope { from: 1, to: 2, at_ms: NOW_MS, nonce: [7; 16], body }
    }

    #[test]
    fn a_proven_request_is_accepted_and_no_other() {
        let header = key().prove("POST", "/p", &envelope(b"body"));
        let check = |key: ClusterKey, header: &str, method, path, me, now_ms| {
            key.check(header, method, path, me, now_ms, WINDOW)
        };
        let accepted = check(key(), &header, "POST", "/p", 2, NOW_MS + 10_000).expect("proven");
        assert_eq!(accepted, envelope(b"body"));
        assert_eq!(accepted.covers(b"body"), Ok(()));
        assert_eq!(accepted.covers(b"bodY"), Err(Unproven::Body));

        let other = ClusterKey::new(b"other", "3 nodes of 4 drives, sets of 12");
        assert_eq!(check(other, &header, "POST", "/p", 2, NOW_MS), Err(Unproven::Mismatch));
        let other = ClusterKey::new(b"secret", "4 nodes of 4 drives, sets of 16");
        assert_eq!(check(other, &header, "POST", "/p", 2, NOW_MS), Err(Unproven::Mismatch));
        assert_eq!(check(key(), &header, "GET", "/p", 2, NOW_MS), Err(Unproven::Mismatch));
        assert_eq!(check(key(), &header, "POST", "/q", 2, NOW_MS), Err(Unproven::Mismatch));
        let forged = header.replacen("1 1 2", "1 0 2", 1);
        assert_eq!(check(key(), &forged, "POST", "/p", 2, NOW_MS), Err(Unproven::Mismatch));
        assert_eq!(check(key(), &header, "POST", "/p", 1, NOW_MS), Err(Unproven::NotForUs));
        for now_ms in [NOW_MS - 10_001, NOW_MS + 10_001] {
            assert_eq!(check(key(), &header, "POST", "/p", 2, now_ms), Err(Unproven::Stale));
        }
        for nonsense in ["", " ", "1 1 2 3 4", "zz zz", &header[..header.len() - 1]] {
            assert_eq!(check(key(), nonsense, "POST", "/p", 2, NOW_MS), Err(Unproven::Missing));
        }
    }

    #[test]
    fn an_answer_belongs_to_its_request() {
        let proof = key().prove_answer(&[7; 16], 200, b"body");
        assert_eq!(key().check_answer(&proof, &[7; 16], 200, b"body"), Ok(()));
        let mismatch = Err(Unproven::Mismatch);
        assert_eq!(key().check_answer(&proof, &[8; 16], 200, b"body"), mismatch);
        assert_eq!(key().check_answer(&proof, &[7; 16], 500, b"body"), mismatch);
        assert_eq!(key().check_answer(&proof, &[7; 16], 200, b"other"), mismatch);
        assert_eq!(key().check_answer("", &[7; 16], 200, b"body"), mismatch);
        assert_eq!(key().check_answer("zz", &[7; 16], 200, b"body"), Err(Unproven::Missing));
    }

    #[test]
    fn a_nonce_is_used_once_for_as_long_as_it_could_count() {
        let mut nonces = Nonces::new(WINDOW);
        assert_eq!(nonces.admit([1; 16], 0), Ok(()));
        assert_eq!(nonces.admit([2; 16], 0), Ok(()));
        assert_eq!(nonces.admit([1; 16], 20_000), Err(Unproven::Replayed));
        assert_eq!(nonces.admit([1; 16], 20_001), Ok(()), "its request is stale by now");
        assert_eq!(nonces.order.len(), 1, "what is forgotten takes no memory");
    }
}

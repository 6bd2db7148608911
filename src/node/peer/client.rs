//! A peer as this node reaches it.
//!
//! A poll, about once a second, says whether it answers, which life it is in and how its drives stand.
//! Between polls a request that was not answered makes it *unreachable*: until a poll succeeds nothing
//! is sent to it, so that a frozen peer costs one deadline and not one for every request.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http::Method;
use http::Request;
use http::StatusCode;
use http_body_util::Full;
use rand::Rng as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Digest as _;
use sha2::Sha256;
use uuid::Uuid;

use crate::node::drives::Seen;
use crate::node::locks::quorum::LockAnswer;
use crate::node::locks::quorum::LockCall;
use crate::node::locks::quorum::LockPeer;
use crate::node::peer::auth::ANSWER_HEADER;
use crate::node::peer::auth::ClusterKey;
use crate::node::peer::auth::Envelope;
use crate::node::peer::auth::REQUEST_HEADER;
use crate::node::peer::pool::Pool;
use crate::node::peer::pool::SendError;
use crate::node::peer::words;
use crate::node::peer::words::PeerDriveState;
use crate::node::peer::words::PeerState;
use crate::node::seams::BoxFuture;
use crate::protocol::admin::DriveCondition;

/// How often a peer is polled at a start.
const HURRIED_PERIOD: Duration = Duration::from_millis(50);

/// How a peer is reached.
pub struct PeerParts {
    /// This node.
    pub me: usize,
    /// The peer.
    pub node: usize,
    /// Its address, `host:port`.
    pub address: String,
    /// How many drives it owns.
    pub drives: usize,
    /// Proves requests and answers.
    pub key: ClusterKey,
    /// How long an answer is waited for.
    pub deadline: Duration,
    /// How often it is polled.
    pub poll_period: Duration,
}

/// A peer.
pub struct Peer {
    parts: PeerParts,
    pool: Pool,
    view: Mutex<View>,
    hurries: AtomicBool,
}

/// What was last learnt of it.
struct View {
    /// Why it is not reached; `None` while it is.
    unreachable: Option<String>,
    life: Option<Uuid>,
    drives: Vec<PeerDriveState>,
}

impl Peer {
    /// A peer that was not reached yet.
    pub fn new(parts: PeerParts) -> Self {
        let pool = Pool::new(parts.address.clone());
        let unknown = PeerDriveState {
            condition: DriveCondition::Unreachable,
            reason: "its node was not reached yet".to_owned(),
            seen: Seen::Unknown,
        };
        let view = View {
            unreachable: Some("it was not reached yet".to_owned()),
            life: None,
            drives: vec![unknown; parts.drives],
        };
        Self { parts, pool, view: Mutex::new(view), hurries: AtomicBool::new(true) }
    }

    /// Which node it is.
    pub fn node(&self) -> usize {
        self.parts.node
    }

    /// Why it is not reached; `None` while it is.
    pub fn unreachable(&self) -> Option<String> {
        self.view().unreachable.clone()
    }

    /// How its drive in `slot` (of the node) stands, as far as this node knows.
    pub fn drive(&self, slot: usize) -> PeerDriveState {
        let view = self.view();
        match &view.unreachable {
            None => view.drives[slot].clone(),
            Some(reason) => PeerDriveState {
                condition: DriveCondition::Unreachable,
                reason: format!("node {}: {reason}", self.parts.node),
                seen: Seen::Unknown,
            },
        }
    }

    /// Whether it is polled in quick succession, as at a start, when much changes.
    pub fn hurry(&self, hurries: bool) {
        self.hurries.store(hurries, Ordering::SeqCst);
    }

    /// Polls the peer for as long as the future is polled.
    pub async fn watch(self: Arc<Self>) {
        loop {
            self.poll().await;
            let hurries = self.hurries.load(Ordering::SeqCst);
            let period = self.parts.poll_period;
            tokio::time::sleep(if hurries { period.min(HURRIED_PERIOD) } else { period }).await;
        }
    }

    /// Asks how it stands.
    pub async fn poll(&self) {
        let deadline = self.parts.deadline.min(2 * self.parts.poll_period);
        let answer = self.exchange::<_, PeerState>("state", &(), deadline).await;
        let mut view = self.view();
        match answer {
            Ok(state) if state.drives.len() == view.drives.len() => {
                if view.unreachable.take().is_some() {
                    tracing::info!(node = self.parts.node, "peer is reached");
                }
                if view.life != Some(state.life) {
                    // Its connections ended with its last life, known to us or not.
                    self.pool.forget();
                }
                view.life = Some(state.life);
                view.drives = state.drives;
            }
            Ok(state) => {
                let why = format!("it owns {} drives", state.drives.len());
                self.lose(&mut view, why);
            }
            Err(error) => self.lose(&mut view, error.to_string()),
        }
    }

    /// Asks a peer that is reached, and takes a missing answer as a sign that it is not.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn ask<T: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        word: &T,
    ) -> Result<A, SendError> {
        if let Some(reason) = self.unreachable() {
            return Err(SendError::NotSent(reason));
        }
        let answer = self.exchange(path, word, self.parts.deadline).await;
        if let Err(error) = &answer {
            self.lose(&mut self.view(), error.to_string());
        }
        answer
    }

    async fn exchange<T: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        word: &T,
        deadline: Duration,
    ) -> Result<A, SendError> {
        let path = format!("{}{path}", words::PREFIX);
        let body = words::encode(word);
        let mut nonce = [0; 16];
        rand::rng().fill_bytes(&mut nonce);
        let envelope = Envelope {
            from: self.parts.me,
            to: self.parts.node,
            at_ms: now_ms(),
            nonce,
            body: Sha256::digest(&body).into(),
        };
        let proof = self.parts.key.prove("POST", &path, &envelope);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&path)
            .header(http::header::HOST, &self.parts.address)
            .header(REQUEST_HEADER, proof)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| SendError::NotSent(error.to_string()))?;
        let response = self.pool.send(request, deadline).await?;
        let no_answer = |why: String| SendError::NoAnswer(why);
        let proof = response.headers().get(ANSWER_HEADER).and_then(|proof| proof.to_str().ok());
        let (status, body) = (response.status(), response.body());
        let checked = match proof {
            Some(proof) => self.parts.key.check_answer(proof, &nonce, status.as_u16(), body),
            None => {
                return Err(no_answer(format!("it answered {status} without proof")));
            }
        };
        checked.map_err(|error| no_answer(format!("its answer is not believed: {error}")))?;
        if status == StatusCode::OK {
            return words::decode(body).map_err(no_answer);
        }
        // A proven refusal comes before anything was done.
        Err(SendError::NotSent(format!("it answered {status}: {}", String::from_utf8_lossy(body))))
    }

    fn lose(&self, view: &mut View, reason: String) {
        if view.unreachable.is_none() {
            tracing::warn!(node = self.parts.node, reason, "peer is not reached");
        }
        view.unreachable = Some(reason);
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().expect("nothing panics while it holds this")
    }
}

impl LockPeer for Peer {
    fn ask(&self, call: LockCall) -> BoxFuture<'_, Option<LockAnswer>> {
        Box::pin(async move {
            let answer = Peer::ask::<_, LockAnswer>(self, "lock", &call).await;
            answer.ok()
        })
    }
}

/// Unix milliseconds now.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

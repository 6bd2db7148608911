//! The other end: answers peers that prove themselves, and nobody else.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::Response;
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use http_body_util::Limited;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::locks::quorum::LockAnswer;
use crate::node::locks::quorum::LockCall;
use crate::node::peer::auth::ANSWER_HEADER;
use crate::node::peer::auth::ClusterKey;
use crate::node::peer::auth::Nonces;
use crate::node::peer::auth::REQUEST_HEADER;
use crate::node::peer::auth::Unproven;
use crate::node::peer::client::now_ms;
use crate::node::peer::words;
use crate::node::peer::words::PeerState;
use crate::protocol::replacement::status::Snapshot;

/// What a node answers its peers.
pub trait PeerService: Send + Sync + 'static {
    /// How it stands.
    fn state(&self) -> PeerState;

    /// A call on its locks.
    fn lock(&self, from: usize, call: LockCall) -> LockAnswer;

    /// What it tells of the replacements on its own drives.
    fn replacement(&self) -> impl Future<Output = Snapshot> + Send;

    /// A request to its drive in `slot`; `None` when it has no such drive.
    fn drive(
        &self,
        slot: usize,
        request: DriveRequest,
    ) -> impl Future<Output = Option<Result<DriveReply, DriveError>>> + Send;
}

/// The server of a node's peers.
pub struct PeerServer<S> {
    me: usize,
    nodes: usize,
    key: ClusterKey,
    window: Duration,
    nonces: Mutex<Nonces>,
    service: Arc<S>,
}

/// Why a request is not answered; nothing was done.
struct Refusal {
    status: StatusCode,
    why: String,
}

impl From<Unproven> for Refusal {
    fn from(unproven: Unproven) -> Self {
        Self { status: StatusCode::FORBIDDEN, why: unproven.to_string() }
    }
}

impl<S: PeerService> PeerServer<S> {
    /// Serves node `me` of `nodes`. A request counts for `deadline`, twice over: a peer whose clock is
    /// further away is refused.
    pub fn new(
        me: usize,
        nodes: usize,
        key: ClusterKey,
        deadline: Duration,
        service: Arc<S>,
    ) -> Self {
        let window = 2 * deadline;
        Self { me, nodes, key, window, nonces: Mutex::new(Nonces::new(window)), service }
    }

    /// Answers one request below [`words::PREFIX`].
    ///
    /// # Errors
    /// Never; the type is what hyper wants.
    pub async fn serve<B>(&self, request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut nonce = None;
        let answered = self.answer(request, &mut nonce).await;
        let (status, body) = match answered {
            Ok(body) => (StatusCode::OK, body),
            Err(refusal) => {
                tracing::warn!(status = refusal.status.as_u16(), why = refusal.why, "peer refused");
                (refusal.status, refusal.why.into_bytes())
            }
        };
        let mut response = Response::builder().status(status);
        if let Some(nonce) = nonce {
            let proof = self.key.prove_answer(&nonce, status.as_u16(), &body);
            response = response.header(ANSWER_HEADER, proof);
        }
        let body = Full::new(Bytes::from(body));
        Ok(response.body(body).expect("the proof is hexadecimal"))
    }

    /// The answer to a proven request. `nonce` is set as soon as the request is proven.
    async fn answer<B>(
        &self,
        request: Request<B>,
        nonce: &mut Option<[u8; 16]>,
    ) -> Result<Vec<u8>, Refusal>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let header = head.headers.get(REQUEST_HEADER).and_then(|header| header.to_str().ok());
        let header = header.ok_or(Unproven::Missing)?;
        let (method, path) = (head.method.as_str(), head.uri.path());
        let now_ms = now_ms();
        let envelope = self.key.check(header, method, path, self.me, now_ms, self.window)?;
        *nonce = Some(envelope.nonce);
        {
            let mut nonces = self.nonces.lock().expect("nothing panics while it holds this");
            nonces.admit(envelope.nonce, now_ms)?;
        }
        let refusal = |status, why: String| Refusal { status, why };
        if envelope.from >= self.nodes || envelope.from == self.me {
            return Err(refusal(StatusCode::FORBIDDEN, "there is no such peer".to_owned()));
        }
        let body = Limited::new(body, words::BODY_BYTES_MAX).collect();
        let body = tokio::time::timeout(self.window, body).await;
        let body = body
            .map_err(|_| refusal(StatusCode::REQUEST_TIMEOUT, "the body is late".to_owned()))?
            .map_err(|error| refusal(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?
            .to_bytes();
        envelope.covers(&body)?;

        let nonsense = |why| refusal(StatusCode::BAD_REQUEST, why);
        match path.strip_prefix(words::PREFIX) {
            Some("state") => Ok(words::encode(&self.service.state())),
            Some("lock") => {
                let call = words::decode(&body).map_err(nonsense)?;
                Ok(words::encode(&self.service.lock(envelope.from, call)))
            }
            Some("replacement") => Ok(words::encode(&self.service.replacement().await)),
            Some(path) if path.starts_with("drive/") => {
                let nothing =
                    || refusal(StatusCode::NOT_FOUND, "there is no such drive".to_owned());
                let slot = path["drive/".len()..].parse().map_err(|_| nothing())?;
                let request = words::decode(&body).map_err(nonsense)?;
                let answer = self.service.drive(slot, request).await.ok_or_else(nothing)?;
                let encoded = words::encode(&answer);
                if encoded.len() <= words::ANSWER_BYTES_MAX {
                    return Ok(encoded);
                }
                // Only what was read is so large. The peer takes it for lost with its sender, and shuns the node.
                let why = format!("an answer of {} bytes is too large to be sent", encoded.len());
                Ok(words::encode(&Err::<DriveReply, _>(DriveError::Illegal { why })))
            }
            _ => Err(refusal(StatusCode::NOT_FOUND, "peers are not asked this".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;

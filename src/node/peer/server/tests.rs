//! Two nodes over real sockets: what passes, what is refused, and what a restart leaves.

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::*;
use crate::disk::drive::Effect;
use crate::node::drives::Seen;
use crate::node::locks::quorum::LockPeer;
use crate::node::peer::Peer;
use crate::node::peer::PeerDrive;
use crate::node::peer::auth::Envelope;
use crate::node::peer::client::PeerParts;
use crate::node::peer::words::PeerDriveState;
use crate::node::seams::DriveClient as _;
use crate::protocol::admin::DriveCondition;

const DEADLINE: Duration = Duration::from_millis(500);
/// For large answers on a busy machine.
const AMPLE: Duration = Duration::from_secs(600);

/// A node with one drive, which counts what it does.
struct Node {
    life: Uuid,
    done: AtomicUsize,
    hangs: bool,
}

impl PeerService for Node {
    fn state(&self) -> PeerState {
        let drive = PeerDriveState {
            condition: DriveCondition::Online,
            reason: String::new(),
            seen: Seen::Blank,
        };
        PeerState { life: self.life, deployment: None, drives: vec![drive] }
    }

    fn lock(&self, from: usize, _call: LockCall) -> LockAnswer {
        self.done.fetch_add(1, Ordering::SeqCst);
        LockAnswer { granted: from == 0, life: self.life }
    }

    async fn replacement(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn drive(
        &self,
        slot: usize,
        request: DriveRequest,
    ) -> Option<Result<DriveReply, DriveError>> {
        if self.hangs {
            futures::future::pending::<()>().await;
        }
        self.done.fetch_add(1, Ordering::SeqCst);
        if slot != 0 {
            return None;
        }
        Some(match request {
            DriveRequest::RecordPut { bytes, .. } => Ok(DriveReply::Bytes(bytes)),
            // A record that is as long as its name says.
            DriveRequest::RecordRead { name } => {
                Ok(DriveReply::Bytes(vec![7; name.parse().expect("a length")]))
            }
            _ => Err(DriveError::Blank),
        })
    }
}

fn key() -> ClusterKey {
    ClusterKey::new(b"secret", "layout")
}

/// Starts node 1 and answers where it listens; dropping the handle's task ends its connections.
async fn start(address: &str, hangs: bool) -> (SocketAddr, Arc<Node>, JoinHandle<()>) {
    start_within(address, hangs, DEADLINE).await
}

/// As [`start`]; a request counts for so long.
async fn start_within(
    address: &str,
    hangs: bool,
    window: Duration,
) -> (SocketAddr, Arc<Node>, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let node = Arc::new(Node { life: Uuid::new_v4(), done: AtomicUsize::new(0), hangs });
    let server = Arc::new(PeerServer::new(1, 2, key(), window, Arc::clone(&node)));
    let accept = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let server = Arc::clone(&server);
            connections.spawn(async move {
                let serve = service_fn(|request| server.serve(request));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await;
            });
        }
    });
    (address, node, accept)
}

fn peer(address: SocketAddr, key: ClusterKey) -> Arc<Peer> {
    peer_within(address, key, DEADLINE)
}

/// As [`peer`]; it waits for so long.
fn peer_within(address: SocketAddr, key: ClusterKey, deadline: Duration) -> Arc<Peer> {
    Arc::new(Peer::new(PeerParts {
        me: 0,
        node: 1,
        address: address.to_string(),
        drives: 1,
        key,
        deadline,
        poll_period: Duration::from_millis(50),
    }))
}

#[tokio::test]
async fn a_peer_is_asked_and_answers() {
    let (address, _node, _accept) = start_within("127.0.0.1:0", false, AMPLE).await;
    let peer = peer_within(address, key(), AMPLE);
    let drive = PeerDrive::new(Arc::clone(&peer), 0);
    let early = drive.call(DriveRequest::Facts).await;
    assert!(matches!(early, Err(DriveError::NotAsked { .. })), "it was not polled yet");
    peer.poll().await;
    assert_eq!(peer.unreachable(), None);
    assert!(drive.is_online());
    assert_eq!(drive.name(), "1/0");
    assert_eq!(drive.call(DriveRequest::Facts).await, Err(DriveError::Blank));
    let bytes = vec![7; crate::disk::drive::BULK_BYTES_MAX];
    let put = DriveRequest::RecordPut { name: "r".to_owned(), bytes: bytes.clone() };
    assert_eq!(drive.call(put).await, Ok(DriveReply::Bytes(bytes)), "bulk bytes pass");
    let call = LockCall::Forget { life: Uuid::nil() };
    assert!(LockPeer::ask(&*peer, call).await.expect("an answer").granted);
}

/// Goal: a file that is read whole passes, however large a drive may hold it; what is larger still is an error of
/// that one request, and the peer stays reached.
#[tokio::test]
async fn a_large_answer_passes_and_one_that_is_too_large_ends_nothing() {
    let (address, _node, _accept) = start_within("127.0.0.1:0", false, AMPLE).await;
    let peer = peer_within(address, key(), AMPLE);
    peer.poll().await;
    let drive = PeerDrive::new(Arc::clone(&peer), 0);
    let read = async |length: usize| {
        drive.call(DriveRequest::RecordRead { name: length.to_string() }).await
    };
    let whole = crate::disk::drive::WHOLE_BYTES_MAX as usize;
    let all = futures::future::join_all([words::BODY_BYTES_MAX, whole, whole].map(read)).await;
    for (answer, length) in all.into_iter().zip([words::BODY_BYTES_MAX, whole, whole]) {
        let Ok(DriveReply::Bytes(bytes)) = answer else { panic!("{length} bytes do not pass") };
        assert_eq!(bytes.len(), length);
    }
    let refused = read(words::ANSWER_BYTES_MAX).await.expect_err("it is too large");
    assert_eq!(refused.effect(), Effect::None, "{refused}");
    assert!(drive.is_online(), "one answer ends nothing else");
}

#[tokio::test]
async fn whoever_has_another_secret_is_refused_and_nothing_is_done() {
    let (address, node, _accept) = start("127.0.0.1:0", false).await;
    let stranger = peer(address, ClusterKey::new(b"guess", "layout"));
    stranger.poll().await;
    assert!(stranger.unreachable().is_some(), "it gets no answer that it believes");
    assert_eq!(node.done.load(Ordering::SeqCst), 0);
}

/// Goal: a request that was captured on the wire does nothing when it is sent again, with another
/// body, or without proof.
#[tokio::test]
async fn a_request_counts_once_and_with_its_own_body() {
    let (address, node, _accept) = start("127.0.0.1:0", false).await;
    let pool = crate::node::peer::pool::Pool::new(address.to_string());
    let path = format!("{}lock", words::PREFIX);
    let body = words::encode(&LockCall::Forget { life: Uuid::nil() });
    let envelope = Envelope {
        from: 0,
        to: 1,
        at_ms: now_ms(),
        nonce: [3; 16],
        body: <sha2::Sha256 as sha2::Digest>::digest(&body).into(),
    };
    let send = async |proof: Option<&str>, body: &[u8]| {
        let mut request = Request::post(&path).header("host", "n");
        if let Some(proof) = proof {
            request = request.header(REQUEST_HEADER, proof);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).expect("a request");
        pool.send(request, DEADLINE).await.expect("an answer").status()
    };
    let proof = key().prove("POST", &path, &envelope);
    assert_eq!(send(None, &body).await, StatusCode::FORBIDDEN);
    assert_eq!(send(Some(&proof), &body).await, StatusCode::OK);
    assert_eq!(send(Some(&proof), &body).await, StatusCode::FORBIDDEN, "a replay");
    let other = Envelope { nonce: [4; 16], ..envelope };
    let proof = key().prove("POST", &path, &other);
    assert_eq!(send(Some(&proof), b"other").await, StatusCode::FORBIDDEN, "another body");
    let itself = Envelope { nonce: [5; 16], from: 1, ..envelope };
    let proof = key().prove("POST", &path, &itself);
    assert_eq!(send(Some(&proof), &body).await, StatusCode::FORBIDDEN, "no such peer");
    assert_eq!(node.done.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_frozen_peer_costs_one_deadline_and_is_unknown_once() {
    let (address, _node, _accept) = start("127.0.0.1:0", true).await;
    let peer = peer(address, key());
    peer.poll().await;
    let drive = PeerDrive::new(Arc::clone(&peer), 0);
    let first = drive.call(DriveRequest::Facts).await.expect_err("it hangs");
    assert_eq!(first.effect(), Effect::Unknown, "it may have been done: {first}");
    let began = std::time::Instant::now();
    let second = drive.call(DriveRequest::Facts).await.expect_err("it is unreachable");
    assert_eq!(second.effect(), Effect::None, "it was not asked: {second}");
    assert!(began.elapsed() < DEADLINE / 2);
    assert!(!drive.is_online());
}

#[tokio::test]
async fn connections_of_an_earlier_life_are_not_used() {
    let (address, _node, accept) = start("127.0.0.1:0", false).await;
    let peer = peer(address, key());
    let drive = PeerDrive::new(Arc::clone(&peer), 0);
    peer.poll().await;
    assert_eq!(drive.call(DriveRequest::Facts).await, Err(DriveError::Blank));
    accept.abort();
    let _ = accept.await;
    let refused = drive.call(DriveRequest::Facts).await.expect_err("nobody listens");
    assert!(!drive.is_online(), "{refused}");
    let (_, _node, _accept) = start(&address.to_string(), false).await;
    peer.poll().await;
    assert!(drive.is_online());
    for _ in 0..5 {
        assert_eq!(drive.call(DriveRequest::Facts).await, Err(DriveError::Blank));
    }
}

//! One line of a testbed: a port of ours in front of a node, for one kind of caller.
//!
//! Bytes are passed on in order or thrown away, never twice and never later: a connection that lost bytes
//! is never used again. While the node is down nobody listens, so that callers are refused; the port stays
//! ours all the same. Closing a line ends every connection and throws away every byte held for it.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use nix::sys::socket::Shutdown;
use nix::sys::socket::shutdown;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpSocket;
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::net::tcp::WriteHalf;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio::time::sleep_until;

use super::TestbedError;
use super::lines::Flow;
use super::lines::Lines;
use super::lines::Party;
use super::traps::Claim;
use super::traps::TrapAction;
use super::traps::Traps;
use super::wire::Framing;
use super::wire::Piece;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that one direction holds at most while it is slow.
const CHUNKS_HELD_MAX: usize = 64;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 256;
/// Bytes of an answer that is held back; of a longer one the status decides.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A line from `from` to `to`, for the testbed's whole life.
#[derive(Debug)]
pub(super) struct Link {
    line: Arc<Line>,
    address: SocketAddr,
    /// Keeps the port ours while nobody listens on it.
    _port: TcpSocket,
    open: tokio::sync::Mutex<Option<Open>>,
}

/// What all connections of a line share.
#[derive(Debug)]
struct Line {
    from: Party,
    to: Party,
    lines: watch::Receiver<Lines>,
    traps: Option<Arc<Traps>>,
    thrown_away: AtomicU64,
}

/// A line that listens.
#[derive(Debug)]
struct Open {
    target: SocketAddr,
    close: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Why a connection ends.
#[derive(Debug)]
struct Closed;

impl From<io::Error> for Closed {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// A socket on this port (0: any) of loopback, bound and not listening.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Two sockets may be bound to one port as long as one of them does not listen.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Link {
    /// Takes a port for the line. Must be called on a runtime.
    pub(super) fn new(
        from: Party,
        to: Party,
        lines: watch::Receiver<Lines>,
        traps: Option<Arc<Traps>>,
    ) -> Result<Self, TestbedError> {
        let bind = || {
            let port = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?;
            Ok((port.local_addr()?, port))
        };
        let (address, port) = bind().map_err(TestbedError::io("take a port on", "127.0.0.1"))?;
        let line = Arc::new(Line { from, to, lines, traps, thrown_away: AtomicU64::new(0) });
        Ok(Self { line, address, _port: port, open: tokio::sync::Mutex::default() })
    }

    /// Where it listens, when it does.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its ends.
    pub(super) fn ends(&self) -> (Party, Party) {
        (self.line.from, self.line.to)
    }

    /// How many pieces were thrown away on it so far, in either direction.
    pub(super) fn thrown_away(&self) -> u64 {
        self.line.thrown_away.load(Ordering::SeqCst)
    }

    /// Begins to listen and to pass on to `target`.
    pub(super) async fn open(&self, target: SocketAddr) -> Result<(), TestbedError> {
        let mut open = self.open.lock().await;
        assert!(open.is_none(), "the line to {target} is open already");
        *open = Some(self.listen(target)?);
        Ok(())
    }

    /// Listens, and passes on to `target`.
    fn listen(&self, target: SocketAddr) -> Result<Open, TestbedError> {
        let listener = bound(self.address)
            .and_then(|socket| socket.listen(BACKLOG))
            .map_err(TestbedError::io("listen on", self.address.to_string()))?;
        let (close, closed) = oneshot::channel();
        let task = tokio::spawn(serve(listener, target, Arc::clone(&self.line), closed));
        Ok(Open { target, close, task })
    }

    /// Stops listening, ends every connection and throws away whatever is held; done when this returns.
    /// Answers where it passed on to.
    pub(super) async fn close(&self) -> Option<SocketAddr> {
        let open = self.open.lock().await.take()?;
        Some(open.end().await)
    }

    /// Ends every connection; new ones are accepted.
    pub(super) async fn reset(&self) -> Result<(), TestbedError> {
        // Held throughout: a line that its node's death closes meanwhile must not be opened again.
        let mut open = self.open.lock().await;
        if let Some(before) = open.take() {
            let target = before.end().await;
            *open = Some(self.listen(target)?);
        }
        Ok(())
    }
}

impl Open {
    /// Stops listening and ends every connection; answers where it passed on to.
    async fn end(self) -> SocketAddr {
        // The task may have panicked; then there is nothing left to close.
        let _ = self.close.send(());
        let _ = self.task.await;
        self.target
    }
}

/// Accepts until it is told to close.
async fn serve(
    listener: TcpListener,
    target: SocketAddr,
    line: Arc<Line>,
    mut closed: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((caller, _)) => {
                    connections.spawn(carry(caller, target, Arc::clone(&line)));
                }
                Err(error) => tracing::warn!(%error, "a proxy could not accept"),
            },
            Some(_) = connections.join_next() => {}
            _ = &mut closed => break,
        }
    }
    // A child that was forked this moment, and has not become its program yet, has the listener too: closing ours would
    // leave it listening, and whoever listens here next would be refused the port.
    if let Err(error) = shutdown(listener.as_raw_fd(), Shutdown::Both) {
        tracing::warn!(%error, "a proxy could not stop listening");
    }
    drop(listener);
    connections.shutdown().await;
}

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the caller to the node.
    There,
    /// Back.
    Back,
}

/// One connection's view of its line.
struct Carrier {
    line: Arc<Line>,
    /// Whether bytes were thrown away: then it ends as soon as the line is mended.
    has_lost: AtomicBool,
}

impl Carrier {
    fn flow(&self, way: Way) -> Flow {
        let ends = match way {
            Way::There => (self.line.from, self.line.to),
            Way::Back => (self.line.to, self.line.from),
        };
        self.line.lines.borrow().flow(ends, self.line.to)
    }

    fn is_cut(&self) -> bool {
        self.flow(Way::There).is_cut || self.flow(Way::Back).is_cut
    }

    /// Notes that bytes were thrown away.
    fn lose(&self) {
        self.has_lost.store(true, Ordering::SeqCst);
        self.line.thrown_away.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether what is to be delivered now gets through.
    fn passes(&self, way: Way) -> bool {
        if self.flow(way).is_cut || self.has_lost.load(Ordering::SeqCst) {
            self.lose();
            return false;
        }
        true
    }

    /// Returns when the line is whole again and this connection has lost something: it must end.
    async fn mended(&self) {
        let mut lines = self.line.lines.clone();
        loop {
            // Whoever changes the lines lives as long as they do.
            if lines.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if self.has_lost.load(Ordering::SeqCst) && !self.is_cut() {
                return;
            }
        }
    }
}

/// Passes one connection on.
async fn carry(mut caller: TcpStream, target: SocketAddr, line: Arc<Line>) {
    let carrier = Carrier { line, has_lost: AtomicBool::new(false) };
    if carrier.flow(Way::There).is_cut {
        // Not even the first byte gets through.
        carrier.lose();
        let swallow = async {
            let mut chunk = vec![0; CHUNK_BYTES];
            while caller.read(&mut chunk).await.is_ok_and(|bytes| bytes > 0) {}
        };
        tokio::select! {
            () = carrier.mended() => {}
            () = swallow => {}
        }
        return;
    }
    let Ok(mut node) = TcpStream::connect(target).await else {
        return;
    };
    // Without it small messages would wait for each other's acknowledgement.
    let _ = (caller.set_nodelay(true), node.set_nodelay(true));
    let (from_caller, to_caller) = caller.split();
    let (from_node, to_node) = node.split();
    let both = async {
        match &carrier.line.traps {
            None => {
                let there = pump(from_caller, to_node, &carrier, Way::There);
                let back = pump(from_node, to_caller, &carrier, Way::Back);
                tokio::try_join!(there, back).map(drop)
            }
            Some(traps) => {
                let exchange = Exchange { traps, carrier: &carrier, pending: Mutex::default() };
                let there = exchange.pass_requests(from_caller, to_node);
                let back = exchange.pass_answers(from_node, to_caller);
                tokio::try_join!(there, back).map(drop)
            }
        }
    };
    tokio::select! {
        _ = both => {}
        () = carrier.mended() => {}
    }
}

/// Passes bytes on in one direction, each after its delay.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    carrier: &Carrier,
    way: Way,
) -> Result<(), Closed> {
    let (hold, mut held) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_HELD_MAX);
    let read = async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let bytes = from.read(&mut chunk).await?;
            if bytes == 0 {
                return Ok::<(), Closed>(());
            }
            let due = Instant::now() + carrier.flow(way).delay;
            if hold.send((due, chunk[..bytes].to_vec())).await.is_err() {
                return Err(Closed);
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = held.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            if carrier.passes(way) {
                to.write_all(&bytes).await?;
            }
        }
        finish(to, carrier, way).await
    };
    tokio::try_join!(read, write).map(drop)
}

/// The end of a direction travels like its bytes.
async fn finish(mut to: WriteHalf<'_>, carrier: &Carrier, way: Way) -> Result<(), Closed> {
    if carrier.passes(way) {
        to.shutdown().await?;
        return Ok(());
    }
    // Lost as well: the connection stays until the line is mended.
    std::future::pending().await
}

/// A connection of a client, on which requests are recognised.
struct Exchange<'a> {
    traps: &'a Traps,
    carrier: &'a Carrier,
    /// Requests that were passed on and not answered yet, oldest first.
    pending: Mutex<VecDeque<Pending>>,
}

/// A request that was passed on.
struct Pending {
    request: String,
    is_head: bool,
    claim: Option<Claim>,
}

impl Exchange<'_> {
    fn pending(&self) -> MutexGuard<'_, VecDeque<Pending>> {
        self.pending.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn deliver(&self, to: &mut WriteHalf<'_>, bytes: &[u8], way: Way) -> io::Result<()> {
        if self.carrier.passes(way) { to.write_all(bytes).await } else { Ok(()) }
    }

    /// Passes requests on; one that is to be cut in half ends the connection.
    async fn pass_requests(
        &self,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
    ) -> Result<(), Closed> {
        let mut framing = Framing::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        // How many bytes of the body of a request that is cut in half still pass.
        let mut half: Option<(Claim, String, u64, u64)> = None;
        loop {
            let bytes = from.read(&mut chunk).await?;
            if bytes == 0 {
                if let Some((claim, ..)) = half {
                    self.traps.give_back(claim);
                }
                return finish(to, self.carrier, Way::There).await;
            }
            for piece in framing.push(&chunk[..bytes], |_| false) {
                match piece {
                    Piece::Head(head, raw) => {
                        let claim = self.traps.claim(&head);
                        let request = head.request().to_owned();
                        if let Some(claim) = claim.filter(|c| c.action == TrapAction::CutInHalf) {
                            let body = head.length.unwrap_or(2);
                            if body < 2 {
                                let part = &raw[..raw.len() / 2];
                                self.deliver(&mut to, part, Way::There).await?;
                                let (sent, all) = (part.len(), raw.len());
                                let what = format!("{sent} of {all} bytes of its head");
                                return self.cut_here(to, claim, &request, &what).await;
                            }
                            self.deliver(&mut to, &raw, Way::There).await?;
                            half = Some((claim, request, body / 2, body));
                            continue;
                        }
                        let is_head = head.method() == "HEAD";
                        self.pending().push_back(Pending { request, is_head, claim });
                        self.deliver(&mut to, &raw, Way::There).await?;
                    }
                    Piece::Body(raw) => {
                        let Some((claim, request, left, body)) = &mut half else {
                            self.deliver(&mut to, &raw, Way::There).await?;
                            continue;
                        };
                        let here = raw.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                        self.deliver(&mut to, &raw[..here], Way::There).await?;
                        *left -= here as u64;
                        if *left == 0 {
                            let what = format!("{} of {body} bytes of its body", *body / 2);
                            return self.cut_here(to, *claim, request, &what).await;
                        }
                    }
                    Piece::End => {}
                    Piece::Opaque(raw) => self.deliver(&mut to, &raw, Way::There).await?,
                }
            }
        }
    }

    /// Ends the connection in the middle of a request.
    async fn cut_here(
        &self,
        mut to: WriteHalf<'_>,
        claim: Claim,
        request: &str,
        what: &str,
    ) -> Result<(), Closed> {
        // The node may have closed first.
        let _ = to.shutdown().await;
        self.traps.spring(claim, format!("the node got {what} of {request}, then the end"));
        Err(Closed)
    }

    /// Passes answers on; one that is to be lost is waited for, looked at and thrown away with the connection.
    async fn pass_answers(
        &self,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
    ) -> Result<(), Closed> {
        let mut framing = Framing::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut answer = Answer::default();
        loop {
            let bytes = from.read(&mut chunk).await.unwrap_or(0);
            if bytes == 0 {
                if let Some(claim) = self.pending().pop_front().and_then(|pending| pending.claim) {
                    // The node died before it answered: that is no lost reply.
                    self.traps.give_back(claim);
                }
                self.deliver(&mut to, &answer.held, Way::Back).await?;
                return finish(to, self.carrier, Way::Back).await;
            }
            let is_head = || self.pending().front().is_some_and(|pending| pending.is_head);
            let pieces = framing.push(&chunk[..bytes], |head| {
                let status = head.status().unwrap_or_default();
                is_head() || matches!(status, 100..=199 | 204 | 304)
            });
            for piece in pieces {
                let is_claimed = self.pending().front().is_some_and(|front| front.claim.is_some());
                match piece {
                    Piece::Head(head, raw) => {
                        answer.status = head.status().unwrap_or_default();
                        answer.is_held = is_claimed && !answer.is_interim();
                        self.pass_or_hold(&mut to, &mut answer, &raw).await?;
                    }
                    Piece::Body(raw) | Piece::Opaque(raw) => {
                        self.pass_or_hold(&mut to, &mut answer, &raw).await?;
                        if answer.held.len() > ANSWER_BYTES_MAX {
                            self.decide(&mut to, &mut answer).await?;
                        }
                    }
                    Piece::End if answer.is_interim() => {}
                    Piece::End => {
                        self.decide(&mut to, &mut answer).await?;
                        self.pending().pop_front();
                    }
                }
            }
        }
    }

    async fn pass_or_hold(
        &self,
        to: &mut WriteHalf<'_>,
        answer: &mut Answer,
        bytes: &[u8],
    ) -> Result<(), Closed> {
        if answer.is_held {
            answer.held.extend_from_slice(bytes);
            return Ok(());
        }
        Ok(self.deliver(to, bytes, Way::Back).await?)
    }

    /// Loses the answer that is held, if the request took effect; passes it on otherwise.
    async fn decide(&self, to: &mut WriteHalf<'_>, answer: &mut Answer) -> Result<(), Closed> {
        if !answer.is_held {
            return Ok(());
        }
        let front = self
            .pending()
            .front_mut()
            .and_then(|pending| pending.claim.take().map(|claim| (claim, pending.request.clone())));
        let Some((claim, request)) = front else {
            return Ok(());
        };
        if answer.took_effect() {
            let status = answer.status;
            let evidence =
                format!("the node answered {status} to {request}; nothing was passed on");
            self.traps.spring(claim, evidence);
            return Err(Closed);
        }
        self.traps.give_back(claim);
        answer.is_held = false;
        let held = std::mem::take(&mut answer.held);
        Ok(self.deliver(to, &held, Way::Back).await?)
    }
}

/// The answer that is passing.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    is_held: bool,
    held: Vec<u8>,
}

impl Answer {
    fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }

    /// Whether it says that the request was done: an error may hide in the body of a 200.
    fn took_effect(&self) -> bool {
        let hides_error = self.held.windows(7).any(|window| window == b"<Error>");
        (200..300).contains(&self.status) && !hides_error
    }
}

//! Connections to one address, reused, with what matters about a failure: can the request have been sent?
//!
//! A connection that its other end has closed is never used again; once one has failed under a request,
//! all idle ones are dropped with it, because whatever ended it (a restart, a cut) most likely ended them.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;
use http::Request;
use http::Response;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::node::peer::words;

/// Large answers are read one at a time, from whichever peer: many at once would be too much memory.
static LARGE_ANSWERS: Semaphore = Semaphore::const_new(1);
/// Connections that are kept while nobody uses them.
const IDLE_MAX: usize = 32;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Not a byte of the request was sent.
    #[error("it was not asked: {0}")]
    NotSent(String),
    /// The request was sent, at least in part, and no whole answer arrived.
    #[error("{0}")]
    NoAnswer(String),
}

/// Connections to one address.
pub struct Pool {
    address: String,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Pool {
    /// Connections to `address` (`host:port`).
    pub fn new(address: String) -> Self {
        Self { address, idle: Mutex::default() }
    }

    /// Sends a request and reads its answer, within `deadline`.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        deadline: Duration,
    ) -> Result<Response<Bytes>, SendError> {
        let sent = AtomicBool::new(false);
        let exchange = tokio::time::timeout(deadline, self.exchange(request, &sent)).await;
        let error = match exchange {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => error,
            Err(_) => {
                let why = format!("no answer within {} ms", deadline.as_millis());
                if sent.into_inner() { SendError::NoAnswer(why) } else { SendError::NotSent(why) }
            }
        };
        self.forget();
        Err(error)
    }

    /// Drops the connections that nobody uses.
    pub fn forget(&self) {
        self.idle().clear();
    }

    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        sent: &AtomicBool,
    ) -> Result<Response<Bytes>, SendError> {
        loop {
            let reused = self.take_idle().await;
            let fresh = reused.is_none();
            let mut sender = match reused {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            sent.store(true, Ordering::SeqCst);
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let response = self.read(response).await?;
                    self.keep(sender);
                    return Ok(response);
                }
                Err(mut failure) => match failure.take_message() {
                    // The connection had ended before it took anything.
                    Some(unsent) if !fresh => {
                        sent.store(false, Ordering::SeqCst);
                        request = unsent;
                    }
                    Some(_) => return Err(SendError::NotSent(failure.error().to_string())),
                    None => return Err(SendError::NoAnswer(failure.into_error().to_string())),
                },
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, SendError> {
        let not_sent = |error: &dyn std::fmt::Display| SendError::NotSent(error.to_string());
        let stream = TcpStream::connect(&self.address).await.map_err(|error| not_sent(&error))?;
        // Requests are small and answers are waited for.
        stream.set_nodelay(true).map_err(|error| not_sent(&error))?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| not_sent(&error))?;
        tokio::spawn(async move {
            // Whoever used it learns of its end by itself.
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Response<Bytes>, SendError> {
        let (head, mut body) = response.into_parts();
        let (mut bytes, mut turn) = (BytesMut::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| SendError::NoAnswer(error.to_string()))?;
            let Ok(piece) = frame.into_data() else { continue };
            let length = bytes.len() + piece.len();
            if length > words::ANSWER_BYTES_MAX {
                return Err(SendError::NoAnswer("its answer is too large".to_owned()));
            }
            if length > words::BODY_BYTES_MAX && turn.is_none() {
                let taken = LARGE_ANSWERS.acquire().await;
                turn = Some(taken.expect("nobody closes it"));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Response::from_parts(head, bytes.freeze()))
    }

    async fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        loop {
            let mut sender = self.idle().pop()?;
            // Ready once the connection has seen the end of its last answer, or its own end.
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.idle.lock().expect("nothing panics while it holds this")
    }
}

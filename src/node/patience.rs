//! How long the node waits for a client: a request's body that trickles, and a connection whose other end reads nothing.
//!
//! Only waiting counts. A body that is read slowly because the drives are slow loses no patience.

use std::io;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body::Frame;
use http_body::SizeHint;
use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;
use nix::sys::resource::setrlimit;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio::time::Sleep;

/// For so many bytes of a body a client is waited for anew.
const STRETCH_BYTES: usize = 16 << 10;

/// A body that its client has to go on sending: an error once it was waited for too long.
pub struct Patient<B> {
    body: B,
    wait: Duration,
    /// What is left of the wait for this stretch.
    left: Duration,
    /// Bytes of this stretch.
    bytes: usize,
    /// Since when it is waited for, and the end of that.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Patient<B> {
    /// Waits `wait` for each stretch of the body.
    pub fn new(body: B, wait: Duration) -> Self {
        Self { body, wait, left: wait, bytes: 0, waiting: None }
    }
}

impl<B> Body for Patient<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if let Some((since, _)) = this.waiting.take() {
                this.left = this.left.saturating_sub(since.elapsed());
            }
            if let Some(Ok(frame)) = &frame {
                this.bytes += frame.data_ref().map_or(0, Bytes::len);
            }
            if this.bytes >= STRETCH_BYTES {
                (this.bytes, this.left) = (0, this.wait);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let left = this.left;
        let (_, sleep) = this
            .waiting
            .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        match sleep.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let message = format!("the client sent too little in {} ms", this.wait.as_millis());
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, message).into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Has the kernel end a connection whose other end takes nothing for `wait`, so that an answer that nobody reads holds
/// up no reader of ours for ever.
///
/// # Errors
/// The kernel refuses: the connection may wait for ever.
pub fn end_when_unread(stream: &TcpStream, wait: Duration) -> io::Result<()> {
    let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::TcpUserTimeout, &wait_ms).map_err(io::Error::from)
}

/// Raises this process' limit of descriptors as far as it may: connections take one each, and drives want some too.
pub fn raise_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // With fewer descriptors it serves fewer clients.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use http_body_util::StreamBody;

    /// A body of `count` frames of `bytes` bytes, `pause` apart.
    fn body(
        count: usize,
        bytes: usize,
        pause: Duration,
    ) -> impl Body<Data = Bytes, Error = io::Error> + Unpin {
        let frames = futures::stream::unfold(0, move |at| async move {
            tokio::time::sleep(pause).await;
            let frame = Frame::data(Bytes::from(vec![7; bytes]));
            (at < count).then_some((Ok(frame), at + 1))
        });
        StreamBody::new(Box::pin(frames))
    }

    async fn read(
        body: impl Body<Data = Bytes, Error = io::Error> + Unpin,
    ) -> Result<usize, String> {
        let read = Patient::new(body, Duration::from_millis(200)).collect().await;
        read.map(|body| body.to_bytes().len()).map_err(|error| error.to_string())
    }

    /// Goal: neither silence nor a trickle is waited for longer than the patience, and a slow body that goes on is.
    #[tokio::test]
    async fn only_a_body_that_goes_on_is_waited_for() {
        let ms = Duration::from_millis;
        assert_eq!(read(body(3, STRETCH_BYTES, ms(100))).await, Ok(3 * STRETCH_BYTES));
        assert!(read(body(1, 1, ms(2_000))).await.is_err_and(|why| why.contains("too little")));
        let trickle = read(body(1_000, 1, ms(20)));
        let ended = tokio::time::timeout(ms(2_000), trickle).await.expect("it ends");
        assert!(ended.is_err_and(|why| why.contains("too little")));
    }
}

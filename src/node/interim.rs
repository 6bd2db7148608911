//! A connection that says `100 Continue` where hyper does not.
//!
//! hyper says it when a body is first asked for, and of an empty body nothing is asked. A client that waits for it
//! before it goes on (botocore does with an empty file) takes the answer for what it waited for, and is then out
//! of step on this connection; S3 says it always.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::task::ready;

use http::Request;
use http::header::EXPECT;
use hyper::body::Body;
use hyper::rt::Read;
use hyper::rt::ReadBufCursor;
use hyper::rt::Write;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether it is to be said before the next answer. Cheap to clone.
#[derive(Clone, Default)]
pub struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// Looks at a request that is about to be answered.
    pub fn look_at(&self, request: &Request<impl Body>) {
        let expects = request.headers().get(EXPECT).map(http::HeaderValue::as_bytes);
        let expects = expects.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        if expects && request.body().is_end_stream() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// A stream that says it when wanted, before whatever is written next.
pub struct Interim<T> {
    stream: T,
    wanted: Wanted,
    said: usize,
}

impl<T: Write + Unpin> Interim<T> {
    /// Over this stream.
    pub fn new(stream: T, wanted: Wanted) -> Self {
        Self { stream, wanted, said: 0 }
    }

    fn poll_say(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.wanted.0.load(Ordering::Acquire) {
            let rest = &CONTINUE[self.said..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.said += written,
            }
            if self.said == CONTINUE.len() {
                self.said = 0;
                self.wanted.0.store(false, Ordering::Release);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Read + Unpin> Read for Interim<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for Interim<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_say(context))?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_say(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

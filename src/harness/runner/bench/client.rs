//! The one client that every server is measured with: connections that stay open, requests that are signed but not
//! their payloads, no retry.

use std::net::SocketAddr;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http::HeaderMap;
use http::Method;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::sigv4;
use crate::sigv4::Credentials;
use crate::sigv4::Payload;

const REGION: &str = "us-east-1";

/// A server that is measured.
#[derive(Debug, Clone)]
pub struct Target {
    /// What it is called in the table.
    pub name: String,
    /// Where it listens; nothing is resolved.
    pub address: SocketAddr,
    /// Whose requests it takes.
    pub access_key: String,
    /// Their secret.
    pub secret_key: String,
}

/// What a client does with the bytes of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Want<'a> {
    /// Counts them.
    Length,
    /// Keeps them.
    Bytes,
    /// Counts them, and holds them against what they have to be.
    Same(&'a Bytes),
}

/// An answer that was received whole.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Bytes of its body.
    pub(super) length: u64,
    /// Its body, where it was to be kept.
    pub(super) body: Vec<u8>,
}

/// One connection and the keys that it has written.
pub(super) struct Lane {
    target: Target,
    bucket: String,
    pub(super) number: usize,
    sender: SendRequest<Full<Bytes>>,
    pub(super) keys: Vec<String>,
}

impl Lane {
    pub(super) async fn open(target: &Target, bucket: &str, number: usize) -> Result<Self, String> {
        let sender = connect(target.address).await?;
        let (target, bucket) = (target.clone(), bucket.to_owned());
        Ok(Self { target, bucket, number, sender, keys: Vec::new() })
    }

    /// Sends a request for a key of the bucket, or the bucket itself, and receives its whole answer.
    pub(super) async fn ask(
        &mut self,
        method: Method,
        key: &str,
        query: &str,
        body: Bytes,
        want: Want<'_>,
    ) -> Result<Answer, String> {
        let path = match key {
            "" => format!("/{}", self.bucket),
            key => format!("/{}/{key}", self.bucket),
        };
        self.ask_at(method, &path, query, body, want).await
    }

    /// Sends a request for a path, which is encoded already, and receives its whole answer.
    pub(super) async fn ask_at(
        &mut self,
        method: Method,
        path: &str,
        query: &str,
        body: Bytes,
        want: Want<'_>,
    ) -> Result<Answer, String> {
        if self.sender.ready().await.is_err() {
            self.sender = connect(self.target.address).await?;
        }
        let words = format!("{}: {method} {path} {query}", self.target.name);
        let failed = |error: hyper::Error| format!("{words}: {error}");
        let request = self.signed(method, path, query, body);
        let response = self.sender.send_request(request).await.map_err(failed)?;
        let (head, mut content) = response.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        let (mut length, mut body) = (0, Vec::new());
        while let Some(frame) = content.frame().await {
            let frame = frame.map_err(failed)?;
            let Some(data) = frame.data_ref() else { continue };
            match want {
                Want::Length => {}
                Want::Bytes => body.extend_from_slice(data),
                Want::Same(expected) => {
                    let rest = expected.get(length as usize..).unwrap_or_default();
                    if !rest.starts_with(data) {
                        return Err(format!("{words}: wrong bytes behind the first {length}"));
                    }
                }
            }
            length += data.len() as u64;
        }
        Ok(Answer { status, headers, length, body })
    }

    fn signed(
        &self,
        method: Method,
        path: &str,
        query: &str,
        body: Bytes,
    ) -> http::Request<Full<Bytes>> {
        let credentials = Credentials {
            access_key: self.target.access_key.clone(),
            secret_key: self.target.secret_key.clone(),
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let scope = sigv4::Scope { region: REGION, service: "s3", now };
        let mut headers = vec![("host".to_owned(), self.target.address.to_string())];
        let plain = sigv4::Request { method: method.as_str(), path, query, headers: &headers };
        let signed = sigv4::sign(&plain, Payload::Unsigned, &credentials, &scope);
        headers.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut builder = http::Request::builder().method(method).uri(target);
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        builder.body(Full::new(body)).expect("paths and headers are plain")
    }

    /// As [`ask`](Self::ask); an answer that is none of success is an error.
    pub(super) async fn succeed(
        &mut self,
        method: Method,
        key: &str,
        query: &str,
        body: Bytes,
        want: Want<'_>,
    ) -> Result<Answer, String> {
        let words = format!("{}: {method} {key} {query}", self.target.name);
        let answer = self.ask(method, key, query, body, want).await?;
        match answer.status {
            200..300 => Ok(answer),
            status => {
                Err(format!("{words}: {status} {}", String::from_utf8_lossy(&answer.body).trim()))
            }
        }
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, String> {
    let refused = |error: std::io::Error| format!("{address}: {error}");
    let stream = TcpStream::connect(address).await.map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| format!("{address}: {error}"))?;
    // How it ends is seen by the requests on it.
    tokio::spawn(connection);
    Ok(sender)
}

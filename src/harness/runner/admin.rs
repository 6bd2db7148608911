//! Asking a node to heal, and what it says of itself: a hint when to look, never a witness.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use http_body_util::Limited;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time;

use crate::protocol::admin::HealProgress;
use crate::protocol::admin::HealStarted;
use crate::protocol::admin::NodeStatus;
use crate::protocol::replacement::status::Answer;
use crate::sigv4;
use crate::sigv4::Credentials;
use crate::sigv4::Payload;
use crate::sigv4::Scope;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the longest answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Asks nodes.
#[derive(Debug, Clone)]
pub struct Admin {
    credentials: Credentials,
    region: String,
}

impl Admin {
    /// Signs with `credentials`.
    pub fn new(credentials: Credentials, region: &str) -> Self {
        Self { credentials, region: region.to_owned() }
    }

    /// How the node at `address` sees itself and its peers.
    ///
    /// # Errors
    /// A sentence: no whole answer, or not 200.
    pub async fn status(&self, address: SocketAddr) -> Result<NodeStatus, String> {
        self.ask("GET", address, "/firedrill/v1/status", "").await
    }

    /// Starts a heal of everything that verifies contents.
    ///
    /// # Errors
    /// As [`Admin::status`].
    pub async fn heal(&self, address: SocketAddr) -> Result<HealStarted, String> {
        self.ask("POST", address, "/firedrill/v1/heal", "deep=true").await
    }

    /// How far the heal called `id` has come.
    ///
    /// # Errors
    /// As [`Admin::status`].
    pub async fn progress(&self, address: SocketAddr, id: &str) -> Result<HealProgress, String> {
        let path = format!("/firedrill/v1/heal/{}", sigv4::encode(id, false));
        self.ask("GET", address, &path, "").await
    }

    /// What the node at `address` and its peers tell of generations.
    ///
    /// # Errors
    /// As [`Admin::status`].
    pub async fn replacement(&self, address: SocketAddr) -> Result<Answer, String> {
        self.ask("GET", address, "/firedrill/v1/replacement", "").await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        address: SocketAddr,
        path: &str,
        query: &str,
    ) -> Result<T, String> {
        let asked = time::timeout(PATIENCE, self.exchange(method, address, path, query)).await;
        let body = asked.map_err(|_| format!("no answer in {} ms", PATIENCE.as_millis()))??;
        serde_json::from_slice(&body).map_err(|error| format!("{path}: {error}"))
    }

    async fn exchange(
        &self,
        method: &str,
        address: SocketAddr,
        path: &str,
        query: &str,
    ) -> Result<Bytes, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let connection = tokio::spawn(connection);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let scope = Scope {
            region: &self.region,
            service: "s3",
            now: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        };
        let host = ("host".to_owned(), address.to_string());
        let headers = [host.clone()];
        let unsigned = sigv4::Request { method, path, query, headers: &headers };
        let signed = sigv4::sign(&unsigned, Payload::of(b""), &self.credentials, &scope);
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut request = http::Request::builder().method(method).uri(target);
        request = request.header(host.0, host.1).header("content-length", "0");
        for (name, value) in signed {
            request = request.header(name, value);
        }
        let request = request.body(Full::<Bytes>::default()).map_err(|error| error.to_string())?;
        let answered = async {
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            if status.is_success() {
                Ok(body)
            } else {
                Err(format!("{status}: {}", String::from_utf8_lossy(&body)))
            }
        }
        .await;
        connection.abort();
        answered
    }
}

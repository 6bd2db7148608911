//! Asks a node whether it is ready: one request, one connection, nothing remembered.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long one question may take.
const QUESTION_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read at most.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// What a node answered to `GET /health/ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Asks once; `None` when no answer could be understood in time.
pub async fn ready(address: SocketAddr) -> Option<Health> {
    timeout(QUESTION_PATIENCE, ask(address)).await.ok().flatten()
}

async fn ask(address: SocketAddr) -> Option<Health> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request =
        format!("GET /health/ready HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Health { status, body: body.to_owned() })
}

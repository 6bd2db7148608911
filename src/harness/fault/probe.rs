//! What we try ourselves to see that a fault is in force. Nothing of it stays on a drive.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use nix::fcntl::OFlag;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes that a probe writes.
const PROBE_BYTES: usize = 16 << 10;

/// A file on the drive at `root` that has no name and is gone when it is closed.
pub(super) fn unnamed_file(root: &Path) -> io::Result<File> {
    let flags = OFlag::O_TMPFILE.bits();
    OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o600).open(root)
}

/// Writes and flushes something on the drive at `root`.
pub(super) fn write(root: &Path) -> io::Result<()> {
    let mut file = unnamed_file(root)?;
    file.write_all(&[0xF1; PROBE_BYTES])?;
    file.sync_all()
}

/// Asks a node, through a line, whether it lives; answers how long that took, or `None` when no answer came.
pub(super) async fn ask(address: SocketAddr, patience: Duration) -> Option<Duration> {
    let begun = Instant::now();
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        let head =
            format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut first = [0; 1];
        stream.read_exact(&mut first).await
    };
    match timeout(patience, ask).await {
        Ok(Ok(_)) => Some(begun.elapsed()),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// Whether a connection to `address` is refused.
pub(super) async fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect(address)
        .await
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

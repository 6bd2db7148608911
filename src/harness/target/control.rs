//! The harness's end of the control descriptor: arms points, hears what was reached.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;

use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::sync::watch;

use crate::protocol::control::Arm;
use crate::protocol::control::FromNode;
use crate::protocol::control::ToNode;
use crate::protocol::crash_point::Place;

/// The control channel of one life of a node.
#[derive(Debug)]
pub struct Control {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    port: watch::Receiver<Option<u16>>,
    arms: Arc<Mutex<Option<Arms>>>,
}

/// Who waits for which arm. `None` in its mutex once the node is gone.
type Arms = BTreeMap<u64, mpsc::UnboundedSender<Place>>;

impl Control {
    /// Makes a channel; the second value is the node's end. Must be called on a runtime.
    ///
    /// # Errors
    /// The kernel gave no socket pair.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(ours)?.into_split();
        let (tell_port, port) = watch::channel(None);
        let arms = Arc::new(Mutex::new(Some(Arms::new())));
        tokio::spawn(listen(reader, tell_port, Arc::clone(&arms)));
        Ok((Self { writer: tokio::sync::Mutex::new(writer), port, arms }, theirs.into()))
    }

    /// Says one thing to the node.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn say(&self, words: &ToNode) -> io::Result<()> {
        let mut line = serde_json::to_vec(words).expect("a control message is plain data");
        line.push(b'\n');
        self.writer.lock().await.write_all(&line).await
    }

    /// Waits until the node has told its port; `None` when it is gone.
    pub async fn port(&self) -> Option<u16> {
        let mut port = self.port.clone();
        let told = port.wait_for(Option::is_some).await;
        told.ok().and_then(|port| *port)
    }

    /// Arms a point; whatever passes it is told through the answered channel, which closes when the node
    /// is gone.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn arm(&self, arm: Arm) -> io::Result<mpsc::UnboundedReceiver<Place>> {
        let (tell, told) = mpsc::unbounded_channel();
        match lock(&self.arms).as_mut() {
            Some(arms) => arms.insert(arm.id, tell),
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        self.say(&ToNode::Arm(arm)).await?;
        Ok(told)
    }

    /// Lets the task that an arm holds go on, and disarms it.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn release(&self, arm: u64) -> io::Result<()> {
        if let Some(arms) = lock(&self.arms).as_mut() {
            arms.remove(&arm);
        }
        self.say(&ToNode::Release { arm }).await
    }
}

/// Reads what the node tells until it is gone.
async fn listen(
    reader: OwnedReadHalf,
    tell_port: watch::Sender<Option<u16>>,
    arms: Arc<Mutex<Option<Arms>>>,
) {
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(FromNode::Listening { port }) => {
                tell_port.send_replace(Some(port));
            }
            Ok(FromNode::Reached { arm, place, .. }) => {
                if let Some(waiting) = lock(&arms).as_ref().and_then(|arms| arms.get(&arm)) {
                    // Nobody may wait any more.
                    let _ = waiting.send(place);
                }
            }
            Err(error) => tracing::warn!(%error, line, "a node said something unknown"),
        }
    }
    // Closes every channel, so that whoever waits learns that the node is gone.
    lock(&arms).take();
}

fn lock(arms: &Mutex<Option<Arms>>) -> MutexGuard<'_, Option<Arms>> {
    arms.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

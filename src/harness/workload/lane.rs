//! One client of a load: turns its intents into requests, one after the other.

use bytes::Bytes;
use tokio::sync::watch;

use super::client::PartTag;
use super::content;
use super::driver;
use super::driver::Driver;
use super::driver::LoadSummary;
use super::driver::Numbering;
use super::driver::Route;
use super::generator::Intent;
use super::generator::Only;
use super::history::Action;
use super::history::Condition;
use super::history::Ending;
use super::history::Outcome;
use super::spec::WhenDown;
use crate::value::Digest;
use crate::value::ObjectKey;

/// One client.
pub(super) struct Lane {
    driver: Driver,
    numbers: Numbering,
    route: Route,
    summary: LoadSummary,
}

/// Every node that may be asked stayed down.
struct Blocked;

impl Lane {
    pub(super) fn new(driver: Driver, client: u32, route: Route) -> Self {
        let numbers = Numbering::of(client);
        Self { driver, numbers, route, summary: LoadSummary::default() }
    }

    /// Works through `intents`.
    pub(super) async fn work(
        &mut self,
        intents: Vec<Intent>,
        stop: &watch::Receiver<bool>,
    ) -> LoadSummary {
        for intent in intents {
            if *stop.borrow() {
                break;
            }
            if self.perform(intent, stop).await.is_err() {
                self.summary.blocked += u64::from(!*stop.borrow());
                break;
            }
        }
        self.summary
    }

    async fn perform(
        &mut self,
        intent: Intent,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), Blocked> {
        match intent {
            Intent::Put { target, size, only } => {
                let condition = self.condition(&target, only);
                self.put(&target, size, &condition, stop).await?;
            }
            Intent::Multipart { target, parts } => self.multipart(&target, &parts, stop).await?,
            Intent::Copy { target, source } => {
                let source = self.driver.memory().source(source).cloned();
                // Without a source there is nothing to copy: the write is an ordinary one.
                let Some(source) = source else {
                    self.put(&target, 1000, &Condition::Always, stop).await?;
                    return Ok(());
                };
                let action = Action::Copy {
                    source: source.target,
                    version: source.version,
                    digest: source.digest,
                    size: source.size,
                    etag: source.etag,
                };
                self.ask(&target, stop, |_| (action.clone(), Bytes::new(), Vec::new())).await?;
            }
            Intent::Delete { target } => {
                self.plain(&target, Action::Delete { version: None }, stop).await?;
            }
            Intent::DeleteVersion { target, pick } => {
                let known = self.driver.memory().version(&target, pick);
                let version = known.map(|known| known.version);
                self.plain(&target, Action::Delete { version }, stop).await?;
            }
            Intent::Read { target, pick, range } => {
                let known = pick.and_then(|pick| self.driver.memory().version(&target, pick));
                let latest = self.driver.memory().latest(&target).map(|(_, size)| *size);
                let size = known.map_or(latest, |known| known.size).unwrap_or(0);
                let range = range.filter(|_| size > 0).map(|(first, length)| {
                    let first = size * u64::from(first) / 1000;
                    let last = first + (size * u64::from(length) / 1000).max(1) - 1;
                    (first, last.min(size - 1))
                });
                let version = known.map(|known| known.version);
                self.plain(&target, Action::Get { version, range }, stop).await?;
            }
            Intent::Head { target, pick } => {
                let known = pick.and_then(|pick| self.driver.memory().version(&target, pick));
                let version = known.map(|known| known.version);
                self.plain(&target, Action::Head { version }, stop).await?;
            }
            Intent::List { bucket, prefix } => {
                self.plain(&of_bucket(bucket), Action::List { prefix }, stop).await?;
            }
            Intent::ListVersions { bucket, prefix } => {
                self.plain(&of_bucket(bucket), Action::ListVersions { prefix }, stop).await?;
            }
        }
        Ok(())
    }

    fn condition(&self, target: &ObjectKey, only: Only) -> Condition {
        match only {
            Only::Always => Condition::Always,
            Only::IfAbsent => Condition::IfAbsent,
            Only::IfMatch => match self.driver.memory().latest(target) {
                Some((etag, _)) => Condition::IfMatch(etag.clone()),
                None => Condition::IfAbsent,
            },
        }
    }

    async fn put(
        &mut self,
        target: &ObjectKey,
        size: u64,
        condition: &Condition,
        stop: &watch::Receiver<bool>,
    ) -> Result<Ending, Blocked> {
        let written = |op| {
            let body = content::bytes(op, 0, size);
            let action = Action::Put {
                digest: Digest::of(&body),
                size,
                etag: Some(content::etag(&body)),
                condition: condition.clone(),
            };
            (action, body.into(), Vec::new())
        };
        self.ask(target, stop, written).await
    }

    async fn multipart(
        &mut self,
        target: &ObjectKey,
        sizes: &[u64],
        stop: &watch::Receiver<bool>,
    ) -> Result<(), Blocked> {
        let created = self.plain(target, Action::CreateUpload, stop).await?;
        let Some(upload) = created.upload else { return Ok(()) };
        // The contents are those of the operation that completes the upload, so its number comes first.
        let complete = self.numbers.take();
        let whole = content::bytes(complete, 0, sizes.iter().sum());
        let mut bodies = Vec::new();
        let mut rest = whole.as_slice();
        for size in sizes {
            let (body, after) = rest.split_at(usize::try_from(*size).unwrap_or(rest.len()));
            bodies.push(body);
            rest = after;
        }
        let mut tags = Vec::new();
        for (part, body) in (1..).zip(&bodies) {
            let action = Action::PutPart {
                upload: upload.clone(),
                part,
                digest: Digest::of(body),
                size: body.len() as u64,
            };
            let body = Bytes::copy_from_slice(body);
            let ended =
                self.ask(target, stop, |_| (action.clone(), body.clone(), Vec::new())).await?;
            let Some(etag) = ended.etag.filter(|_| ended.outcome == Outcome::Acknowledged) else {
                self.plain(target, Action::AbortUpload { upload }, stop).await?;
                return Ok(());
            };
            tags.push(PartTag { part, etag });
        }
        let action = Action::CompleteUpload {
            upload: upload.clone(),
            parts: tags.iter().map(|tag| tag.part).collect(),
            digest: Digest::of(&whole),
            size: whole.len() as u64,
            etag: Some(content::multipart_etag(bodies.iter().copied())),
            condition: Condition::Always,
        };
        // One number, one request: when its node is down, the upload is given up.
        let ended = match self.next_address() {
            Some((node, address)) => {
                let client = self.numbers.client();
                let asked = driver::operation(complete, client, node, target.clone(), action);
                let ended = self.driver.attempt(asked, address, Bytes::new(), &tags).await;
                self.summary.count(ended.outcome);
                Some(ended)
            }
            None => None,
        };
        if ended.is_none_or(|ended| ended.outcome == Outcome::Refused) {
            self.plain(target, Action::AbortUpload { upload }, stop).await?;
        }
        Ok(())
    }

    async fn plain(
        &mut self,
        target: &ObjectKey,
        action: Action,
        stop: &watch::Receiver<bool>,
    ) -> Result<Ending, Blocked> {
        self.ask(target, stop, |_| (action.clone(), Bytes::new(), Vec::new())).await
    }

    /// Asks the nodes in turn until one accepts the connection.
    async fn ask(
        &mut self,
        target: &ObjectKey,
        stop: &watch::Receiver<bool>,
        request: impl Fn(u64) -> (Action, Bytes, Vec<PartTag>),
    ) -> Result<Ending, Blocked> {
        let mut refusals = 0;
        loop {
            let op = self.numbers.take();
            let (action, body, parts) = request(op);
            let ended = match self.next_address() {
                Some((node, address)) => {
                    let client = self.numbers.client();
                    let asked = driver::operation(op, client, node, target.clone(), action);
                    let ended = self.driver.attempt(asked, address, body, &parts).await;
                    self.summary.count(ended.outcome);
                    Some(ended)
                }
                None => None,
            };
            if let Some(ended) = ended {
                let gives_up = self.route.when_down == WhenDown::Skip;
                if gives_up || !driver::was_refused_connection(&ended) {
                    return Ok(ended);
                }
            }
            refusals += 1;
            if refusals % self.route.targets.len().max(1) == 0 && !self.route.wait(stop).await {
                return Err(Blocked);
            }
        }
    }

    /// The next node in turn that is not known to be down.
    fn next_address(&mut self) -> Option<(usize, std::net::SocketAddr)> {
        for _ in 0..self.route.targets.len() {
            let node = self.route.node()?;
            let waits = self.route.when_down != WhenDown::Elsewhere;
            match self.driver.address(node) {
                Some(address) => {
                    self.route.turn += 1;
                    return Some((node, address));
                }
                None if waits => return None,
                None => self.route.turn += 1,
            }
        }
        None
    }
}

fn of_bucket(bucket: String) -> ObjectKey {
    ObjectKey { bucket, key: String::new() }
}

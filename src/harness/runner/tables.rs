//! What an operator asks of the table catalog, one request at a time, and every node's restart with another backing.
//!
//! It decides nothing but whether an answer is the one that the scenario says is owed; what became of the state is
//! seen on the drives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use tokio::time;

use super::hand::Kept;
use super::life::Life;
use super::life::Trouble;
use crate::harness::operator::catalog::ask::Ask;
use crate::harness::operator::catalog::ask::By;
use crate::harness::operator::catalog::ask::Heard;
use crate::harness::operator::catalog::ask::Outcome as Meant;
use crate::harness::operator::catalog::client::Client;
use crate::harness::operator::catalog::client::Reach;
use crate::harness::operator::catalog::client::Wire as _;
use crate::harness::operator::catalog::recorder::Recorder;
use crate::harness::operator::catalog::routes;
use crate::harness::operator::catalog::routes::At;
use crate::harness::operator::catalog::routes::Named;
use crate::harness::scenario::catalog::CatalogStep;
use crate::harness::scenario::catalog::Enable;
use crate::harness::scenario::catalog::Expected;
use crate::harness::scenario::catalog::OneCommit;
use crate::harness::scenario::catalog::Pointer;
use crate::harness::scenario::catalog::Preflight;
use crate::harness::scenario::catalog::Restart;
use crate::harness::scenario::catalog::named::split_namespace;
use crate::harness::scenario::catalog::split_table;
use crate::harness::scenario::fault::Fault;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogAnswer;
use crate::harness::workload::catalog::CatalogRequest;
use crate::harness::workload::catalog::Commit;
use crate::harness::workload::catalog::NOT_SEEN;
use crate::harness::workload::catalog::SEEN;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::request::NOBODY;
use crate::harness::workload::request::ROOT;
use crate::harness::workload::request::Service;
use crate::protocol::catalog::settings;
use crate::protocol::config::Switch;
use crate::sigv4::Credentials;

/// Where the catalog is asked.
pub(super) const PREFIX: &str = "/iceberg/v1";
/// How long a node that is ready may say that its catalog is not.
const STARTING: Duration = Duration::from_secs(20);
/// How long an armed point may take until its node has it.
const ARMING_PATIENCE: Duration = Duration::from_secs(5);
/// How often that is looked at.
const ARMING_PERIOD: Duration = Duration::from_millis(5);

/// The status of a request that was not done and may be asked again.
pub(super) const BUSY: u16 = 503;
/// How often one that has to be done is asked, as long as that is answered.
pub(super) const ATTEMPTS_MAX: u32 = 6;
/// How soon it is asked again.
pub(super) const BUSY_PERIOD: Duration = Duration::from_millis(500);

/// Characters of an answer that is no JSON that are kept.
const TEXT_MAX: usize = 1_000;

/// What is known of the catalog while a run lasts.
pub struct Tables {
    credentials: Credentials,
    region: String,
    timeout: Duration,
    asks: AtomicU64,
    /// How many points are armed once those of the last fault are; `None` when no request has to wait for that.
    arming: Mutex<Option<u64>>,
    /// The last single commit of each table.
    pub(super) last: Mutex<BTreeMap<String, Commit>>,
    /// The prefixes of tables in their buckets, by `warehouse.namespace.name`.
    locations: Mutex<BTreeMap<String, String>>,
    /// What a hand has copied, and what the drives were last seen to hold.
    pub(super) hand: Mutex<Kept>,
}

impl Tables {
    /// Asks in the name of `credentials`, and gives an answer up after `timeout_ms`.
    pub fn new(credentials: Credentials, region: &str, timeout_ms: u64) -> Self {
        Self {
            credentials,
            region: region.to_owned(),
            timeout: Duration::from_millis(timeout_ms),
            asks: AtomicU64::new(0),
            arming: Mutex::new(None),
            last: Mutex::default(),
            locations: Mutex::default(),
            hand: Mutex::default(),
        }
    }

    /// The prefix of a table that was asked for before.
    pub(super) fn location(&self, table: &str) -> Option<String> {
        let known = self.locations.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(table).cloned()
    }

    /// Remembers it.
    pub(super) fn keep_location(&self, table: &str, location: &str) {
        let mut known = self.locations.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(table.to_owned(), location.to_owned());
    }

    /// What a principal of the testbed's signs with; nothing for nobody.
    pub(super) fn signs(&self, principal: &str) -> Option<Credentials> {
        let access_key = match principal {
            ROOT => self.credentials.access_key.clone(),
            NOBODY => return None,
            name => name.to_owned(),
        };
        Some(Credentials { access_key, secret_key: self.credentials.secret_key.clone() })
    }

    /// How nodes are spoken to in somebody's name.
    pub(super) fn reach(&self, nodes: Vec<String>, sender: Sender<'_>) -> Reach {
        let signs = self.signs(sender.principal).map(|signs| (By::Operator, signs));
        Reach {
            nodes,
            service: sender.service.name().to_owned(),
            region: self.region.clone(),
            timeout: self.timeout,
            starting: STARTING,
            credentials: signs.into_iter().collect(),
        }
    }
}

/// In whose name a request is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<'a> {
    /// A principal by its name.
    pub(super) principal: &'a str,
    /// For which service it is signed.
    pub(super) service: Service,
}

/// The one who may do everything, as usual.
pub(super) const OPERATOR: Sender<'_> = Sender { principal: ROOT, service: Service::S3 };

/// The routes of a warehouse.
pub(super) fn at(warehouse: &str) -> At<'_> {
    At { prefix: PREFIX, warehouse }
}

impl Life<'_> {
    /// Sends one request, and tells the history of it before and after.
    pub(super) async fn asked(
        &self,
        warehouse: &str,
        table: Option<&str>,
        node: usize,
        action: CatalogAction,
        ask: Ask,
    ) -> Heard {
        self.asked_of(warehouse, (table, None), node, action, ask).await
    }

    /// As [`Life::asked`], about a table, or about a namespace or view by its name.
    pub(super) async fn asked_of(
        &self,
        warehouse: &str,
        (table, name): (Option<&str>, Option<&str>),
        node: usize,
        action: CatalogAction,
        ask: Ask,
    ) -> Heard {
        let (warehouse, table) = (warehouse.to_owned(), table.map(str::to_owned));
        let name = name.map(str::to_owned);
        let asked = CatalogRequest { ask: self.number(), node, warehouse, table, name, action };
        self.sent(OPERATOR, asked, ask).await
    }

    /// Where each node is reached.
    pub(super) fn addresses(&self) -> Vec<String> {
        let nodes = 0..self.plan.testbed.nodes;
        nodes.map(|node| self.testbed.client_address(node).to_string()).collect()
    }

    /// The number of a request that is about to be sent.
    pub(super) fn number(&self) -> u64 {
        self.tables.asks.fetch_add(1, Ordering::SeqCst)
    }

    /// Sends what `asked` says in somebody's name, and tells the history of it before and after.
    pub(super) async fn sent(&self, sender: Sender<'_>, asked: CatalogRequest, ask: Ask) -> Heard {
        let node = asked.node;
        let reach = self.tables.reach(self.addresses(), sender);
        let client = Client::new(reach, Arc::new(Recorder::none()));
        self.recorder.record(Event::CatalogAsked(asked.clone()));
        let heard = client.send(&ask.to(node)).await;
        self.recorder.record(Event::CatalogAnswered(answer(&asked, &heard)));
        heard
    }

    /// Asks what a step says. Where nobody else works, what is refused is seen to change nothing.
    pub(super) async fn ask_catalog(
        &self,
        index: usize,
        step: &CatalogStep,
        is_alone: bool,
    ) -> Result<(), Trouble> {
        self.waiting.on_ourselves("a fault to be armed");
        self.armed().await?;
        self.waiting.on_the_cluster(format!("the catalog to {}", step.name()));
        let warehouse = step.warehouse().unwrap_or_default();
        let node = step.node().unwrap_or_default();
        let at = at(warehouse);
        let plain = |action, ask| self.asked(warehouse, None, node, action, ask);
        for attempt in 1.. {
            let (heard, expected) = match step {
                CatalogStep::Request(request) => {
                    return self.request(step, [request.clone()], is_alone).await;
                }
                CatalogStep::Matrix(matrix) => {
                    return self.request(step, matrix.requests(), is_alone).await;
                }
                CatalogStep::Rehearse(on) => return self.rehearse(on).await,
                CatalogStep::Enable(enable) => return self.enable(enable).await,
                CatalogStep::Admit(_) => return self.admit().await,
                CatalogStep::Holds(holds) => return self.hold_drives(holds).await,
                CatalogStep::Snapshot(hand) => return self.lay_hand(hand).await,
                CatalogStep::Struck(_) => return self.background.drained().await,
                CatalogStep::Heal(_) => return self.heal().await,
                CatalogStep::Pointer(on) => {
                    let heard = self.pointer(warehouse, &on.table, node).await;
                    owed(step, on.expect, &heard)?;
                    return tells(step, on, &heard);
                }
                CatalogStep::Preflight(preflight) => {
                    return told(
                        step,
                        preflight,
                        &plain(CatalogAction::Preflight, at.preflight()).await,
                    );
                }
                CatalogStep::Backfill(on) => {
                    (plain(CatalogAction::Backfill, at.backfill()).await, on.expect)
                }
                CatalogStep::Migrate(on) => {
                    (plain(CatalogAction::Migrate, at.migrate()).await, on.expect)
                }
                CatalogStep::Cancel(on) => {
                    (plain(CatalogAction::Cancel, at.cancel()).await, on.expect)
                }
                CatalogStep::Create(on) => {
                    (self.create(warehouse, &on.table, node).await, on.expect)
                }
                CatalogStep::Diagnose(on) => return self.diagnose(step, on).await,
                CatalogStep::Recover(on) => (self.recover(step, on).await?, on.expect),
                CatalogStep::TableBucket(on) => {
                    (self.table_bucket(warehouse, node, false).await, on.expect)
                }
                CatalogStep::CreateNamespace(on) => {
                    let levels = split_namespace(&on.namespace).unwrap_or_default();
                    (self.create_namespace(warehouse, &levels, node).await, on.expect)
                }
                CatalogStep::DropNamespace(on) => (self.drop_namespace(on).await, on.expect),
                CatalogStep::Drop(on) => (self.drop_table(on).await, on.expect),
                CatalogStep::CreateView(on)
                | CatalogStep::ReplaceView(on)
                | CatalogStep::DropView(on) => (self.view(index, step, on).await, on.expect),
                CatalogStep::Commit(on) => {
                    let again = on.again || attempt > 1;
                    let on = OneCommit { again, ..on.clone() };
                    (self.commit_once(index, &on).await, on.expect)
                }
            };
            let is_busy = heard.told.outcome == Meant::Refused && heard.told.status == Some(BUSY);
            let is_busy = is_busy && matches!(expected, Expected::Done | Expected::Unknown);
            if !is_busy || attempt == ATTEMPTS_MAX {
                return owed(step, expected, &heard);
            }
            // It was not done, and the server has no way to call us once it could be.
            time::sleep(BUSY_PERIOD).await;
        }
        Ok(())
    }

    async fn enable(&self, enable: &Enable) -> Result<(), Trouble> {
        let (warehouse, node) = (&*enable.warehouse, enable.node);
        let step = CatalogStep::Enable(enable.clone());
        let heard = self.table_bucket(warehouse, node, true).await;
        owed(&step, Expected::Done, &heard)?;
        let mut made = Vec::new();
        for table in &enable.tables {
            let (namespace, _) = split_table(table).unwrap_or_default();
            for depth in 1..=namespace.len() {
                let part = &namespace[..depth];
                if made.iter().any(|known| known == part) {
                    continue;
                }
                let heard = self.create_namespace(warehouse, part, node).await;
                owed(&step, Expected::Done, &heard)?;
                made.push(part.to_vec());
            }
            let heard = self.create(warehouse, table, node).await;
            owed(&step, Expected::Done, &heard)?;
        }
        Ok(())
    }

    async fn create(&self, warehouse: &str, table: &str, node: usize) -> Heard {
        let (namespace, name) = split_table(table).unwrap_or_default();
        let ask = at(warehouse).create_table(Named { namespace: &namespace, name: &name });
        self.asked(warehouse, Some(table), node, CatalogAction::CreateTable, ask).await
    }

    async fn pointer(&self, warehouse: &str, table: &str, node: usize) -> Heard {
        let (namespace, name) = split_table(table).unwrap_or_default();
        let ask = at(warehouse).pointer(Named { namespace: &namespace, name: &name });
        self.asked(warehouse, Some(table), node, CatalogAction::Pointer, ask).await
    }

    async fn admit(&self) -> Result<(), Trouble> {
        let step = CatalogStep::Admit(crate::harness::scenario::form::Nothing {});
        for node in 0..self.plan.testbed.nodes {
            let ask = routes::admit().waiting();
            let heard = self.asked("", None, node, CatalogAction::Admit, ask).await;
            owed(&step, Expected::Done, &heard)?;
        }
        Ok(())
    }

    /// One commit, or the last one of the table once more.
    async fn commit_once(&self, index: usize, on: &OneCommit) -> Heard {
        let place = format!("{}.{}", on.warehouse, on.table);
        let commit = {
            let mut last = self.tables.last.lock().unwrap_or_else(PoisonError::into_inner);
            let commit = match last.get(&place) {
                Some(before) if on.again => {
                    Commit { attempt: before.attempt + 1, ..before.clone() }
                }
                before => {
                    let number = self.tables.asks.load(Ordering::SeqCst);
                    let commit = self.new_commit(index, 0, number);
                    let id = &commit.commit_id;
                    let location =
                        on.relocates.then(|| format!("s3://{}/moved/{id}", on.warehouse));
                    let key = before.filter(|_| on.reuses_key).map(Commit::idempotency_key);
                    Commit { key, location, ..commit }
                }
            };
            last.insert(place, commit.clone());
            commit
        };
        self.commit(&on.warehouse, &on.table, on.node, &commit).await
    }

    /// A commit that nobody else makes.
    pub(super) fn new_commit(&self, index: usize, writer: u32, number: u64) -> Commit {
        let property = format!("s{index}-w{writer}-{number}");
        let commit_id = self.plan.seed.uuid(&format!("commit {property}")).to_string();
        Commit { writer, property, commit_id, attempt: 0, key: None, location: None }
    }

    /// Sends one commit.
    pub(super) async fn commit(
        &self,
        warehouse: &str,
        table: &str,
        node: usize,
        commit: &Commit,
    ) -> Heard {
        let (namespace, name) = split_table(table).unwrap_or_default();
        let id = &commit.commit_id;
        let key = commit.idempotency_key();
        let mut body = routes::set_property(&commit.property, id, id, Some(&key));
        if let Some(location) = &commit.location {
            routes::relocate(&mut body, location);
        }
        let ask = at(warehouse).commit(Named { namespace: &namespace, name: &name }, body);
        let action = CatalogAction::Commit(commit.clone());
        self.asked(warehouse, Some(table), node, action, ask).await
    }

    /// Ends the nodes, configures them and starts all of them.
    pub(super) async fn restart(&self, restart: &Restart) -> Result<(), Trouble> {
        self.waiting.on_ourselves("armed faults to strike");
        self.background.drained().await?;
        self.injector.at_rest().await;
        let all = 0..self.plan.testbed.nodes;
        let is_meant = |node: &usize| restart.nodes.is_empty() || restart.nodes.contains(node);
        for node in all.clone().filter(is_meant) {
            self.waiting.on_the_cluster(format!("node {node} to end"));
            self.testbed.stop(node).await?;
            if let Some(catalog) = &restart.catalog {
                self.testbed.become_catalog(node, catalog.clone())?;
            }
        }
        if let Some(catalog) =
            restart.catalog.as_ref().filter(|_| all.clone().all(|it| is_meant(&it)))
        {
            let backing = catalog.backing.as_ref().map_or("object", |backing| backing.word());
            let is_on = |gate: &Option<Switch>| {
                let word = gate.as_ref().map(Switch::word);
                settings::parse_flag(settings::SNAPSHOT_V2, word).unwrap_or_default()
            };
            let snapshot_v2 =
                is_on(&catalog.snapshot_v2) && is_on(&catalog.snapshot_v2_fleet_confirmed);
            let backing = backing.to_owned();
            self.recorder.record(Event::Noted(Note::Backing { backing, snapshot_v2 }));
        }
        if all.clone().all(|it| is_meant(&it)) {
            self.recorder.record(Event::Noted(Note::Restarted));
        }
        self.start_all().await
    }

    /// A fault is about to be armed, on each node of its that runs.
    pub(super) fn arming(&self, fault: &Fault) {
        let trigger = fault.trigger();
        let nodes = match trigger.on_node {
            Some(node) => vec![node],
            None => fault.nodes(self.plan.testbed.nodes),
        };
        let running =
            nodes.iter().filter(|node| self.testbed.process(**node).is_some()).count().max(1);
        let points = self.testbed.armed() + u64::try_from(running).unwrap_or(u64::MAX);
        *self.tables.arming.lock().unwrap_or_else(PoisonError::into_inner) =
            trigger.at.is_some().then_some(points);
    }

    /// Waits until the nodes have the point of the fault that the last step has armed: a single request passes it
    /// only once.
    ///
    /// # Errors
    /// Not every node has it after [`ARMING_PATIENCE`]: the request might prove nothing.
    pub(super) async fn armed(&self) -> Result<(), Trouble> {
        let arming = self.tables.arming.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(points) = arming else { return Ok(()) };
        let began = Instant::now();
        while self.testbed.armed() < points {
            if began.elapsed() > ARMING_PATIENCE {
                return Err(Trouble::NotArmed { within: ARMING_PATIENCE });
            }
            // The task that arms has no way to call us, so the state is looked at.
            time::sleep(ARMING_PERIOD).await;
        }
        Ok(())
    }
}

/// What the history keeps of an answer.
fn answer(asked: &CatalogRequest, heard: &Heard) -> CatalogAnswer {
    let outcome = match heard.told.outcome {
        Meant::Done => Outcome::Acknowledged,
        Meant::Refused => Outcome::Refused,
        Meant::Unknown => Outcome::Ambiguous,
    };
    let told = match &asked.action {
        CatalogAction::Look(commit) => (outcome == Outcome::Acknowledged).then_some({
            let place = format!("/metadata/properties/{}", commit.property);
            if heard.text(&place) == Some(commit.commit_id.as_str()) { SEEN } else { NOT_SEEN }
        }),
        CatalogAction::Diagnose => heard.text("/recovery_status"),
        _ => heard.text("/status"),
    };
    let is_spelt = matches!(asked.action, CatalogAction::Request(_));
    CatalogAnswer {
        ask: asked.ask,
        outcome,
        status: heard.told.status,
        words: heard.told.words.clone(),
        told: told.map(str::to_owned),
        generation: heard.number("/generation"),
        kind: kind(heard),
        location: place(heard),
        text: heard.told.body.as_str().filter(|_| is_spelt).map(beginning),
        pointer: heard.text("/metadata-location").map(str::to_owned),
        token: heard.text("/version-token").map(str::to_owned),
    }
}

/// The type of an error, in either of its forms.
pub(super) fn kind(heard: &Heard) -> Option<String> {
    let of_storage = || heard.told.body.as_str()?.split_once("<Code>")?.1.split_once("</Code>");
    let kind = heard.text("/error/type").or_else(|| of_storage().map(|(code, _)| code));
    kind.map(str::to_owned)
}

/// The place that an answer tells of a table.
fn place(heard: &Heard) -> Option<String> {
    let place = heard.text("/warehouse-location").or(heard.text("/metadata/location"));
    place.map(str::to_owned)
}

/// As much of a text as is worth keeping.
fn beginning(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// Whether a preflight tells what the step says.
fn told(step: &CatalogStep, preflight: &Preflight, heard: &Heard) -> Result<(), Trouble> {
    let seen = heard.text("/status").unwrap_or_default();
    let blockers = heard.told.body.pointer("/blockers").map(ToString::to_string);
    let blockers = blockers.unwrap_or_default();
    let named = preflight.blockers.iter().all(|word| blockers.contains(word));
    if seen == preflight.status && named {
        return Ok(());
    }
    Err(otherwise(step, &format!("{} {:?}", preflight.status, preflight.blockers), heard))
}

/// Whether a pointer has the generation that the step says.
fn tells(step: &CatalogStep, pointer: &Pointer, heard: &Heard) -> Result<(), Trouble> {
    match pointer.generation {
        Some(owed) if heard.number("/generation") != Some(owed) => {
            Err(otherwise(step, &format!("of generation {owed}"), heard))
        }
        _ => Ok(()),
    }
}

/// Whether what came is what the step says.
pub(super) fn owed(step: &CatalogStep, expected: Expected, heard: &Heard) -> Result<(), Trouble> {
    let (is_so, words) = match expected {
        Expected::Done => (heard.told.outcome == Meant::Done, "done"),
        Expected::Refused => (heard.told.outcome == Meant::Refused, "refused"),
        Expected::Unknown => (heard.told.outcome == Meant::Unknown, "unknown"),
        Expected::Known => (heard.told.outcome != Meant::Unknown, "known"),
    };
    if is_so { Ok(()) } else { Err(otherwise(step, words, heard)) }
}

/// What a step says did not come.
pub(super) fn otherwise(step: &CatalogStep, owed: &str, heard: &Heard) -> Trouble {
    let waiting_for = format!("the catalog to {}", step.name());
    Trouble::Stuck { waiting_for, reason: instead(owed, heard) }
}

/// What was owed, and what came instead.
pub(super) fn instead(owed: &str, heard: &Heard) -> String {
    let (status, told) = (heard.status(), &heard.told);
    let body = match told.words.is_empty() {
        true => told.body.to_string().chars().take(600).collect(),
        false => told.words.clone(),
    };
    format!("{} had to be {owed}, and came to {status}: {body}", heard.ask.words())
}

//! The life of a rehearsal: step after step, what is durable written after each, until it is over or stops.

use std::fs::File;
use std::fs::OpenOptions;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use serde_json::Value;

use super::ask::Heard;
use super::ask::Outcome;
use super::client::Wire;
use super::error::CatalogError;
use super::facts::Facts;
use super::facts::Subject;
use super::hook;
use super::keep;
use super::orders::Orders;
use super::printed;
use super::recorder::Recorder;
use super::report;
use super::restored;
use super::restored::Place;
use super::routes::Named;
use super::state::Done;
use super::state::Ended;
use super::state::State;
use super::step::Step;
use super::stress;
use super::turn;
use super::turn::Move;
use super::turn::News;
use super::turn::Stop;
use super::turn::StopKind;
use super::turn::Turn;
use super::turn::turn;

/// The folder of a rehearsal, held for as long as this lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    #[expect(dead_code, reason = "held, not looked at")]
    lock: Flock<File>,
}

impl Folder {
    /// Makes the folder, or takes the one that is there.
    ///
    /// # Errors
    ///
    /// [`CatalogError::InUse`], [`CatalogError::Io`].
    pub fn take(path: &Path) -> Result<Self, CatalogError> {
        std::fs::create_dir_all(path).map_err(CatalogError::io("create", path))?;
        let name = path.join(".lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&name);
        let file = file.map_err(CatalogError::io("open", &name))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Self { path: path.to_owned(), lock }),
            Err((_, Errno::EWOULDBLOCK)) => Err(CatalogError::InUse { path: path.to_owned() }),
            Err((_, errno)) => Err(CatalogError::io("lock", &name)(errno.into())),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is durable in it, with these orders: those of before if nothing that matters differs.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Usage`] when it was begun with other orders; [`CatalogError::File`].
    pub fn state(&self, orders: Orders) -> Result<State, CatalogError> {
        let Some(mut state) = State::read(&self.path)? else {
            return Ok(State::new(orders));
        };
        let before = &state.orders;
        let is_same = before.rehearsal == orders.rehearsal
            && before.prefix == orders.prefix
            && before.warehouses == orders.warehouses
            && before.execute == orders.execute
            && before.nodes == orders.nodes
            && before.table == orders.table;
        if !is_same {
            return Err(CatalogError::Usage(format!(
                "the run in {} was begun with another rehearsal, warehouses, nodes or table: name another folder with --run",
                self.path.display()
            )));
        }
        let run_id = before.run_id.clone();
        state.orders = Orders { run_id, ..orders };
        Ok(state)
    }
}

/// How a rehearsal ended for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// Every step is over.
    Over {
        /// Steps whose checks are missing.
        lacking: usize,
    },
    /// It stopped.
    Stopped(Step, Stop),
}

/// Goes on with `state` until it is over or stops; `say` hears a line per step. What is durable is written to
/// `folder` after each step, the report at the end.
///
/// # Errors
///
/// [`CatalogError::File`], [`CatalogError::Io`]: then what was last durable is what it goes on from.
pub async fn go<W: Wire>(
    wire: &Arc<W>,
    recorder: &Arc<Recorder>,
    folder: &Path,
    state: &mut State,
    say: &mut (dyn FnMut(&str) + Send),
) -> Result<Conclusion, CatalogError> {
    state.starts += 1;
    state.stopped = None;
    let conclusion = steps(wire, recorder, folder, state, say).await?;
    if let Conclusion::Over { .. } = conclusion {
        state.is_over = true;
    }
    if let Some(why) = recorder.failed() {
        return Err(CatalogError::Unknown(format!("not every request was written down: {why}")));
    }
    state.write(folder)?;
    report::write(folder, state)?;
    Ok(conclusion)
}

async fn steps<W: Wire>(
    wire: &Arc<W>,
    recorder: &Arc<Recorder>,
    folder: &Path,
    state: &mut State,
    say: &mut (dyn FnMut(&str) + Send),
) -> Result<Conclusion, CatalogError> {
    while let Some(step) = state.next() {
        let name = step.name();
        if state.orders.stop_before == Some(step) {
            let words = format!("as asked, before {name}");
            let stop =
                Stop::new(StopKind::Asked, words, "start the same command without --stop-before");
            state.stopped = Some((step, stop.clone()));
            return Ok(Conclusion::Stopped(step, stop));
        }
        let is_again = state.under_way == Some(step) && state.starts > 1;
        state.under_way = Some(step);
        state.write(folder)?;
        recorder.begin(step);
        let (first, began) = (recorder.next(), Instant::now());
        let mut facts = state.facts.clone();
        let place = Place { recorder, folder };
        let result = one(wire, &place, step, &state.orders, &mut facts).await;
        match result {
            Ok((ended, mut evidence, lacks)) => {
                if is_again {
                    evidence = format!("begun again; {evidence}");
                }
                say(&format!("{name}: {}: {evidence}", word(&ended)));
                facts.work = Default::default();
                state.facts = facts;
                state.done.push(Done {
                    step,
                    ended,
                    evidence,
                    requests: (first, recorder.next()),
                    took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    lacks,
                });
                state.under_way = None;
                state.write(folder)?;
            }
            Err(stop) => {
                say(&format!("{name}: stopped: {}", stop.words));
                state.stopped = Some((step, stop.clone()));
                return Ok(Conclusion::Stopped(step, stop));
            }
        }
    }
    let lacking = state.done.iter().filter(|done| done.lacks).count();
    Ok(Conclusion::Over { lacking })
}

/// Reads what the requests are made from, and answers them all.
///
/// # Errors
///
/// Where reading ended, and why.
pub async fn print<W: Wire>(wire: &Arc<W>, orders: &Orders) -> Result<Value, (Step, Stop)> {
    let mut facts = Facts::default();
    for step in [Step::Identify, Step::Inventory] {
        let place = Place { recorder: &Arc::new(Recorder::none()), folder: Path::new(".") };
        one(wire, &place, step, orders, &mut facts).await.map_err(|stop| (step, stop))?;
    }
    let mut base = None;
    if let Some(table) = &orders.table {
        let found = facts.warehouses.iter().find_map(|(name, known)| {
            Some((name.clone(), known.tables.get(&table.to_string())?.pointer.clone()))
        });
        if let Some((warehouse, pointer)) = found {
            let named = Named { namespace: &table.namespace, name: &table.name };
            let load = wire.send(&orders.at(&warehouse).load(named)).await;
            turn::expect(&load, &[200]).map_err(|stop| (Step::Inventory, stop))?;
            let log = load.told.body.pointer("/metadata/metadata-log").and_then(Value::as_array);
            let earlier = log.and_then(|log| log.last()?.get("metadata-file")?.as_str());
            let earlier = earlier.map(str::to_owned);
            let table = table.clone();
            facts.subject = Some(Subject { warehouse, table, pointer, earlier, has_gap: false });
            base = load.told.body.get("metadata").cloned();
        }
    }
    Ok(printed::document(orders, &facts, base.as_ref()))
}

/// How a step ended, in a word.
pub fn word(ended: &Ended) -> &'static str {
    match ended {
        Ended::Passed => "held",
        Ended::Skipped => "skipped",
        Ended::Asserted => "by the operator's word",
    }
}

/// One step: how it ended, what was seen, and whether a check is missing.
async fn one<W: Wire>(
    wire: &Arc<W>,
    place: &Place<'_>,
    step: Step,
    orders: &Orders,
    facts: &mut Facts,
) -> Result<(Ended, String, bool), Stop> {
    let mut news = News::Begin;
    for round in 0.. {
        let is_by_word = news == News::ByWord;
        let next = turn(step, &mut Turn { orders, facts, round }, news)?;
        news = match next {
            Move::Send(asks) => {
                let mut all = Vec::with_capacity(asks.len());
                for ask in &asks {
                    let heard = wire.send(ask).await;
                    answered(&heard)?;
                    all.push(heard);
                }
                News::Heard(all)
            }
            Move::Stress(stress) => {
                News::Stressed(Box::new(stress::run(wire, orders, &stress).await))
            }
            Move::CheckBackup => {
                let folder = orders.backup.clone().unwrap_or_default();
                let checked = keep::verify::facts(&folder).map_err(|error| chain(&error));
                News::Backup(checked)
            }
            Move::Restore => News::Restored(restored::check(place, orders, facts).await),
            Move::Hand(words) => by_hand(step, words, orders, facts).await?,
            Move::Pass(evidence) if is_by_word => return Ok((Ended::Asserted, evidence, false)),
            Move::Pass(evidence) => return Ok((Ended::Passed, evidence, false)),
            Move::NotNeeded(reason) => return Ok((Ended::Skipped, reason, false)),
            Move::Skip(reason) => return Ok((Ended::Skipped, reason, true)),
        };
    }
    unreachable!("a step ends before its rounds run out")
}

/// A request without an answer, or whose effect is not known, is the last one.
fn answered(heard: &Heard) -> Result<(), Stop> {
    if heard.told.status.is_none() || heard.told.outcome == Outcome::Unknown {
        return turn::expect(heard, &[]);
    }
    Ok(())
}

async fn by_hand(step: Step, words: String, orders: &Orders, facts: &Facts) -> Result<News, Stop> {
    let name = step.name();
    if let Some(command) = orders.hooks.get(&step) {
        return match hook::run(step, command, orders, facts).await {
            // The command itself may hold what must not be written down.
            Ok(()) => Ok(News::ByHook(format!("--hook {name}"))),
            Err(why) => Err(Stop::new(
                StopKind::Operator,
                format!("the command for {name} failed: {why}"),
                "put it right, then start the same command again",
            )),
        };
    }
    if orders.done.contains(&step) {
        return Ok(News::ByWord);
    }
    let remedy = format!(
        "do it, then start the same command again with --done {name}; or name a command: --hook {name}=COMMAND"
    );
    Err(Stop::new(StopKind::Operator, words, remedy))
}

fn chain(error: &CatalogError) -> String {
    crate::harness::report::Chain(error).to_string()
}

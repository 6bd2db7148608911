//! The runbook's steps one by one, for who goes through it by hand.

use std::sync::Arc;

use serde_json::Value;
use serde_json::json;

use super::answers;
use super::answers::Execution;
use super::answers::Preflight;
use super::ask::Heard;
use super::ask::Outcome;
use super::client::Wire;
use super::orders::Orders;
use super::routes;
use super::turn;
use super::turn::Stop;
use super::turn::StopKind;

/// A step of the runbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Single {
    /// What stands in the way.
    Preflight,
    /// Fence and copy.
    Migrate,
    /// Take it back.
    Cancel,
    /// How nodes and warehouses stand.
    Status,
    /// Open to writers.
    Admit,
    /// Build the warehouse prefix index.
    Backfill,
}

/// Does one step for every warehouse, in order, and ends at the first that does not do.
///
/// The value is what to print: the answers.
///
/// # Errors
///
/// Why it ended; what came before it stays done.
pub async fn run<W: Wire>(wire: &Arc<W>, orders: &Orders, single: Single) -> Result<Value, Stop> {
    match single {
        Single::Status => return Ok(status(wire, orders).await),
        Single::Admit => return admit(wire, orders).await,
        _ => {}
    }
    let mut all = serde_json::Map::new();
    for name in &orders.warehouses {
        let at = orders.at(name);
        let value = match single {
            Single::Preflight => {
                let it = preflight(wire.send(&at.preflight()).await)?;
                if !it.blockers.is_empty() {
                    all.insert(name.clone(), json!(it));
                    let words = format!("{name} has blockers: {}", it.blockers.join(", "));
                    return Err(Stop::new(
                        StopKind::Blocked,
                        words,
                        it.recommended_actions.join(", "),
                    ));
                }
                json!(it)
            }
            Single::Migrate => {
                let it = preflight(wire.send(&at.preflight()).await)?;
                if !it.blockers.is_empty() {
                    let words = format!(
                        "{name} has blockers: {}; nothing was sent",
                        it.blockers.join(", ")
                    );
                    return Err(Stop::new(
                        StopKind::Blocked,
                        words,
                        it.recommended_actions.join(", "),
                    ));
                }
                let heard = wire.send(&at.migrate()).await;
                turn::expect(&heard, &[200])?;
                json!(answers::read::<Execution>(&heard).map_err(Stop::unreadable)?)
            }
            Single::Cancel => {
                let heard = wire.send(&at.cancel()).await;
                turn::expect(&heard, &[200])?;
                heard.told.body
            }
            _ => backfill(wire, orders, name).await?,
        };
        all.insert(name.clone(), value);
    }
    Ok(Value::Object(all))
}

fn preflight(heard: Heard) -> Result<Preflight, Stop> {
    turn::expect(&heard, &[200])?;
    answers::read(&heard).map_err(Stop::unreadable)
}

async fn backfill<W: Wire>(wire: &Arc<W>, orders: &Orders, name: &str) -> Result<Value, Stop> {
    let at = orders.at(name);
    let heard = wire.send(&at.backfill()).await;
    let by = if turn::is_not_served(&heard) {
        let heard = wire.send(&at.object("HEAD", "firedrill-backfill-probe")).await;
        turn::expect(&heard, &[200, 404])?;
        "the server has no route for it: an object was asked for, as the runbook has it"
    } else {
        turn::expect(&heard, &[200, 202, 204])?;
        "the server's own route"
    };
    let it = preflight(wire.send(&at.preflight()).await)?;
    if !it.warehouse_index_ready {
        let words = format!("the warehouse prefix index of {name} is still not whole ({by})");
        return Err(Stop::new(StopKind::Blocked, words, "see the server's log"));
    }
    Ok(json!({"by": by, "warehouse_index_ready": true, "status": it.status}))
}

/// What every node says of itself and of every warehouse. It refuses nothing.
async fn status<W: Wire>(wire: &Arc<W>, orders: &Orders) -> Value {
    let mut nodes = Vec::new();
    for node in 0..orders.nodes {
        let own = wire.send(&routes::status().to(node)).await;
        let first = orders.warehouses.first().map_or("", String::as_str);
        let config = wire.send(&orders.at(first).config().to(node)).await;
        let has_own = own.status() == 200 && own.told.body.is_object();
        nodes.push(json!({
            "node": node,
            "backing": if config.status() == 200 { json!(answers::backing(&config)) } else { json!(words(&config)) },
            "catalog": if has_own { own.told.body } else { json!("this server does not tell") },
        }));
    }
    let mut warehouses = serde_json::Map::new();
    for name in &orders.warehouses {
        let heard = wire.send(&orders.at(name).preflight()).await;
        let value = if heard.status() == 200 { heard.told.body } else { json!(words(&heard)) };
        warehouses.insert(name.clone(), value);
    }
    json!({"nodes": nodes, "warehouses": warehouses})
}

fn words(heard: &Heard) -> String {
    match heard.told.status {
        Some(status) => format!("{status}: {}", heard.told.words),
        None => heard.told.words.clone(),
    }
}

async fn admit<W: Wire>(wire: &Arc<W>, orders: &Orders) -> Result<Value, Stop> {
    let first = orders.warehouses.first().map_or("", String::as_str);
    for node in 0..orders.nodes {
        let config = wire.send(&orders.at(first).config().to(node)).await;
        turn::expect(&config, &[200])?;
        if answers::backing(&config) != "durable-strong" {
            let words = format!("node {node} does not run with the durable strong backing");
            return Err(Stop::new(
                StopKind::Precondition,
                words,
                "nothing is to be admitted there",
            ));
        }
    }
    let mut nodes = Vec::new();
    for node in 0..orders.nodes {
        let heard = wire.send(&routes::admit().to(node)).await;
        if turn::is_not_served(&heard) && heard.told.outcome == Outcome::Refused {
            let words = format!("node {node} has no switch for it ({})", words(&heard));
            let remedy = "let the writers in by your own means";
            return Err(Stop::new(StopKind::Unexpected, words, remedy));
        }
        turn::expect(&heard, &[200, 202, 204])?;
        nodes.push(json!({"node": node, "answer": heard.told.body}));
    }
    Ok(json!({"admitted": nodes}))
}

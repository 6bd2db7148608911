//! What comes first in the life of a node: approved imports are replayed, and flat records settled, on each of its
//! drives once, before anybody asks which generation goes on.
//!
//! It decides nothing. A refusal blocks the set until the next start, and leaves every byte; whoever is not ready
//! yet is waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::replacement::attempt::Aim;
use crate::node::replacement::attempt::Attempt;
use crate::node::replacement::attempt::End;
use crate::node::replacement::places;
use crate::node::replacement::survey;
use crate::node::seams::BoxFuture;
use crate::node::service::Node;
use crate::node::store::Store;
use crate::protocol::replacement::flat;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::import;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Effect;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Files;
use crate::protocol::replacement::store::Write;

/// How far a start has come in one set.
#[derive(Debug, Default)]
pub struct Settling {
    settled: BTreeSet<usize>,
    refused: Option<Refusal>,
}

impl Settling {
    /// Settles every drive of the set that this node owns, that is formatted, answers, and was not settled before.
    ///
    /// # Errors
    ///
    /// [`End::Refused`], now and from now on; [`End::Deferred`], and it is tried again.
    pub async fn go_on(
        &mut self,
        node: &Arc<Node>,
        objects: &Arc<Store>,
        set: usize,
    ) -> Result<(), End> {
        if let Some(refusal) = &self.refused {
            return Err(End::Refused(refusal.clone()));
        }
        let (size, owners) = (node.loaded.config.set_drives, node.loaded.endpoints());
        for endpoint in (set * size..(set + 1) * size).filter(|it| owners[*it].0 == node.me()) {
            if self.settled.contains(&endpoint) {
                continue;
            }
            let Some(files) = read(node, endpoint).await else { continue };
            let settling: BoxFuture<'_, _> = Box::pin(settle(node, objects, set, endpoint, &files));
            match settling.await {
                Ok(()) => drop(self.settled.insert(endpoint)),
                // Whoever holds a lease gives it up some day.
                Err(End::Refused(refusal)) if refusal.effect() == Effect::Defer => {
                    return Err(End::Deferred(refusal.to_string()));
                }
                Err(End::Refused(refusal)) => {
                    node.replacements.refused(set, &refusal);
                    self.refused = Some(refusal.clone());
                    return Err(End::Refused(refusal));
                }
                Err(end) => return Err(end),
            }
        }
        Ok(())
    }
}

/// The files of a drive that is formatted and answers.
async fn read(node: &Node, endpoint: usize) -> Option<Files> {
    let copy = survey::read(node.client(endpoint)).await.ok()?;
    copy.format_id.is_some().then(|| survey::files(&copy))
}

async fn settle(
    node: &Arc<Node>,
    objects: &Arc<Store>,
    set: usize,
    endpoint: usize,
    files: &Files,
) -> Result<(), End> {
    let names = places::endpoints(&node.loaded.config);
    let size = node.loaded.config.set_drives;
    let of_set = &names[set * size..(set + 1) * size];
    for successor in files.generations_with(&[Record::Approval]) {
        let Some(approval) = files.approval(successor).map_err(End::Refused)? else { continue };
        import::check_scope(&approval, SetId { pool: 0, set }, of_set).map_err(End::Refused)?;
        let (anchor, aim) = (names[endpoint].clone(), (successor, Aim::Import));
        let attempt = Attempt::on(node, objects, set, aim, approval.targets, anchor);
        let attempt = attempt.expect("its targets were just found among the drives of the set");
        tracing::info!(set, %successor, "an approved import goes on");
        match attempt.run().await {
            End::Over => {}
            end => return Err(end),
        }
    }
    for id in flat::generations(files) {
        settle_flat(node, endpoint, id).await?;
    }
    Ok(())
}

/// Settles the flat records of one generation.
async fn settle_flat(node: &Arc<Node>, endpoint: usize, id: GenerationId) -> Result<(), End> {
    loop {
        let Some(files) = read(node, endpoint).await else {
            return Err(End::Deferred(format!("the drive with flat records of {id} is away")));
        };
        let Some(write) = flat::next_write(&files, id).map_err(End::Refused)? else {
            return Ok(());
        };
        if !files.has_folder {
            let made = node.client(endpoint).call(DriveRequest::MakeRecordFolder).await;
            made.map_err(|error| End::Deferred(format!("the folder of the records: {error}")))?;
        }
        perform(node, endpoint, &write).await?;
    }
}

async fn perform(node: &Arc<Node>, endpoint: usize, write: &Write) -> Result<(), End> {
    let drive = node.client(endpoint);
    let Change::Swap { expected, new } = write.change.clone() else {
        unreachable!("flat records are moved and removed, and nothing else: {write:?}");
    };
    let bytes = |bytes: Option<Vec<u8>>| bytes.map(serde_bytes::ByteBuf::from);
    let path = write.path.clone();
    let swap = DriveRequest::Swap { path, expected: bytes(expected), new: bytes(new) };
    match drive.call(swap).await {
        Ok(DriveReply::Swapped(false)) => {
            let why = format!("{} changed meanwhile", write.path);
            return Err(End::Deferred(why));
        }
        Ok(_) => {}
        Err(error) => return Err(End::Deferred(format!("{}: {error}", write.step.name()))),
    }
    tracing::info!(step = write.step.name(), drive = drive.name(), "replacement step");
    node.replacements.wrote(node.loaded.place(endpoint).0, write.step);
    node.pass(write.step, drive.name(), &write.path).await;
    Ok(())
}

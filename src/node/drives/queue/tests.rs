//! A drive whose threads hang, and what becomes of those who asked it.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;
use crate::disk::drive::Drive;
use crate::disk::drive::Effect;

/// A drive that answers at once or hangs until it is told to go on.
#[derive(Default)]
struct Moody {
    hangs: Mutex<bool>,
    thawed: Condvar,
    performed: AtomicUsize,
}

impl Moody {
    fn hang(&self, hangs: bool) {
        *self.hangs.lock().expect("a flag") = hangs;
        self.thawed.notify_all();
    }
}

impl Drive for Moody {
    fn name(&self) -> &str {
        "0/0"
    }

    fn perform(&self, request: DriveRequest) -> Answer {
        let mut hangs = self.hangs.lock().expect("a flag");
        while *hangs {
            hangs = self.thawed.wait(hangs).expect("a flag");
        }
        drop(hangs);
        self.performed.fetch_add(1, Ordering::SeqCst);
        match request {
            DriveRequest::ListBuckets => Err(DriveError::Absent { root: "/there".to_owned() }),
            _ => Ok(DriveReply::Done),
        }
    }
}

impl Attached for Moody {
    fn own(&self, _now_ns: i64) -> Result<(), DriveError> {
        Ok(())
    }

    fn close(&self, _now_ns: i64) -> Result<(), DriveError> {
        Ok(())
    }
}

const DEADLINE: Duration = Duration::from_millis(200);

fn queue(threads: usize, waiting_max: usize) -> (QueuedDrive, Arc<Moody>) {
    let limits = QueueLimits { deadline: DEADLINE, waiting_max, threads, left_behind_max: 8 };
    let (queue, drive) = (QueuedDrive::new("0/0".to_owned(), limits), Arc::new(Moody::default()));
    queue.attach(Arc::clone(&drive) as Arc<dyn Attached>, DriveCondition::Online);
    (queue, drive)
}

/// Goal: every thread of a drive hangs, with more requests waiting. All are answered by the deadline,
/// those in the drive as unknown and the rest as not asked; then nothing waits for the drive at all.
#[tokio::test]
async fn whoever_asks_a_hung_drive_is_answered_by_the_deadline() {
    let (queue, drive) = queue(2, 16);
    drive.hang(true);
    let began = Instant::now();
    let asked = (0..6).map(|_| queue.call(DriveRequest::Facts));
    let answers = futures::future::join_all(asked).await;
    assert!(began.elapsed() < DEADLINE * 2, "nobody waits for a thread");
    let unknown = answers
        .iter()
        .filter(|answer| answer.as_ref().is_err_and(|error| error.effect() == Effect::Unknown));
    assert_eq!(unknown.count(), 2, "what a thread had begun with: {answers:?}");
    assert!(answers.iter().all(Result::is_err));

    assert!(!queue.is_online());
    assert_eq!(queue.standing().condition, DriveCondition::Suspect);
    assert_eq!(queue.standing().left_behind, 2);
    let began = Instant::now();
    let refused = queue.call(DriveRequest::Facts).await;
    assert!(matches!(refused, Err(DriveError::NotAsked { .. })), "{refused:?}");
    assert!(began.elapsed() < DEADLINE / 2, "refused at once");

    // It is put to work again while the old threads still hang, and they end when they can.
    let other = Arc::new(Moody::default());
    queue.attach(other, DriveCondition::Online);
    assert_eq!(queue.call(DriveRequest::Facts).await, Ok(DriveReply::Done));
    drive.hang(false);
    let deadline = Instant::now() + Duration::from_secs(5);
    while queue.standing().left_behind > 0 {
        assert!(Instant::now() < deadline, "the old threads do not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(drive.performed.load(Ordering::SeqCst), 2, "what only waited was never done");
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let (queue, drive) = queue(1, 1);
    drive.hang(true);
    let mut first = queue.call(DriveRequest::Facts);
    assert!(futures::poll!(&mut first).is_pending());
    let deadline = Instant::now() + Duration::from_secs(5);
    while queue.standing().waiting > 0 {
        assert!(Instant::now() < deadline, "the thread does not take it up");
        tokio::task::yield_now().await;
    }
    let mut second = queue.call(DriveRequest::Facts);
    assert!(futures::poll!(&mut second).is_pending());
    let third = queue.call(DriveRequest::Facts).await;
    assert!(matches!(third, Err(DriveError::NotAsked { .. })), "{third:?}");
    drive.hang(false);
    assert_eq!(first.await, Ok(DriveReply::Done));
    assert_eq!(second.await, Ok(DriveReply::Done));
}

#[tokio::test]
async fn a_drive_that_vanished_takes_no_more_work() {
    let (queue, drive) = queue(1, 4);
    let gone = queue.call(DriveRequest::ListBuckets).await;
    assert!(matches!(gone, Err(DriveError::Absent { .. })));
    tokio::time::timeout(Duration::from_secs(5), queue.changed()).await.expect("it rings");
    assert_eq!(queue.standing().condition, DriveCondition::Absent);
    assert!(queue.call(DriveRequest::Facts).await.is_err());
    assert_eq!(drive.performed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_blank_drive_is_online_once_it_has_its_format() {
    let (queue, drive) = queue(1, 4);
    queue.attach(drive, DriveCondition::Blank);
    assert!(!queue.is_online());
    let format = DriveRequest::WriteFormat { bytes: vec![], rebuilding: false };
    assert_eq!(queue.call(format).await, Ok(DriveReply::Done));
    assert!(queue.is_online());
}

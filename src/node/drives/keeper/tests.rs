//! A mount point where drives come, go, hang and are exchanged.

use std::sync::Condvar;
use std::time::Instant;

use uuid::Uuid;

use super::*;
use crate::disk::drive::Drive;

/// What lies at the mount point now.
#[derive(Default)]
struct Mount {
    lies_there: Mutex<Option<Lying>>,
    hangs: Mutex<bool>,
    thawed: Condvar,
}

#[derive(Clone)]
struct Lying {
    number: u32,
    format: Option<Vec<u8>>,
}

impl Mount {
    fn put(&self, number: u32, format: Option<&FormatJson>) {
        let format = format.map(FormatJson::encode);
        *self.lies_there.lock().expect("a value") = Some(Lying { number, format });
    }

    fn pull(&self) {
        *self.lies_there.lock().expect("a value") = None;
    }

    fn hang(&self, hangs: bool) {
        *self.hangs.lock().expect("a flag") = hangs;
        self.thawed.notify_all();
    }
}

/// What was opened there.
struct Opened {
    mount: Arc<Mount>,
    number: u32,
}

impl Drive for Opened {
    fn name(&self) -> &str {
        "0/1"
    }

    fn perform(&self, request: DriveRequest) -> Result<DriveReply, DriveError> {
        let mut hangs = self.mount.hangs.lock().expect("a flag");
        while *hangs {
            hangs = self.mount.thawed.wait(hangs).expect("a flag");
        }
        let mut lying = self.mount.lies_there.lock().expect("a value");
        let lying = lying.as_mut().ok_or(DriveError::Absent { root: "/d".to_owned() })?;
        if lying.number != self.number {
            let (opened, found) = (self.number.to_string(), lying.number.to_string());
            return Err(DriveError::Swapped { root: "/d".to_owned(), opened, found });
        }
        match request {
            DriveRequest::ReadFormat => {
                Ok(DriveReply::Format(lying.format.clone().map(Into::into)))
            }
            DriveRequest::WriteFormat { bytes, .. } => {
                lying.format = Some(bytes);
                Ok(DriveReply::Done)
            }
            DriveRequest::ListBuckets => Ok(DriveReply::Buckets(vec![])),
            _ => Ok(DriveReply::Done),
        }
    }
}

impl Attached for Opened {
    fn own(&self, _now_ns: i64) -> Result<(), DriveError> {
        self.perform(DriveRequest::Facts).map(drop)
    }

    fn close(&self, _now_ns: i64) -> Result<(), DriveError> {
        self.perform(DriveRequest::Facts).map(drop)
    }
}

fn reference() -> FormatJson {
    let sets = vec![vec![Uuid::from_u128(1), Uuid::from_u128(2)]];
    FormatJson::new(Uuid::from_u128(9), sets[0][0], sets)
}

/// A keeper at slot 1, and the way to tell it the deployment's format.
fn keeper() -> (Arc<Keeper>, Arc<Mount>, watch::Sender<Option<Arc<FormatJson>>>) {
    let mount = Arc::new(Mount::default());
    let there = Arc::clone(&mount);
    let open = move || {
        let lying = there.lies_there.lock().expect("a value").clone();
        let lying = lying.ok_or(DriveError::Absent { root: "/d".to_owned() })?;
        let opened = Opened { mount: Arc::clone(&there), number: lying.number };
        Ok(Arc::new(opened) as Arc<dyn Attached>)
    };
    let deadline = Duration::from_millis(100);
    let limits = QueueLimits { deadline, waiting_max: 16, threads: 2, left_behind_max: 8 };
    let (tell, told) = watch::channel(None);
    let period = Duration::from_millis(20);
    let keeper = Keeper::new("0/1".to_owned(), (0, 1), limits, period, Arc::new(open), told);
    let keeper = Arc::new(keeper);
    tokio::spawn(Arc::clone(&keeper).keep());
    (keeper, mount, tell)
}

async fn until(keeper: &Keeper, condition: DriveCondition) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while keeper.queue().standing().condition != condition {
        assert!(Instant::now() < deadline, "{:?}, not {condition:?}", keeper.queue().standing());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_drive_is_online_once_the_format_is_known_and_is_its_own() {
    let (keeper, mount, tell) = keeper();
    let own = reference().for_place(0, 1).expect("slot 1");
    mount.put(1, Some(&own));
    let deadline = Instant::now() + Duration::from_secs(5);
    while keeper.seen().format().is_none() {
        assert!(Instant::now() < deadline, "it is not looked at");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(!keeper.queue().is_online(), "nobody knows yet whether it belongs");
    tell.send_replace(Some(Arc::new(reference())));
    until(&keeper, DriveCondition::Online).await;
    keeper.close().await;
}

#[tokio::test]
async fn a_drive_of_another_slot_or_deployment_is_refused_by_name() {
    let (keeper, mount, tell) = keeper();
    tell.send_replace(Some(Arc::new(reference())));
    mount.put(1, Some(&reference()));
    until(&keeper, DriveCondition::Refused).await;
    let reason = keeper.queue().standing().reason;
    assert_eq!(reason, "drive 0/1 holds the drive of set 0 slot 0, expected was set 0 slot 1");
    let sets = vec![vec![Uuid::from_u128(5), Uuid::from_u128(6)]];
    let foreign = FormatJson::new(Uuid::from_u128(7), sets[0][1], sets);
    mount.put(2, Some(&foreign));
    let deadline = Instant::now() + Duration::from_secs(5);
    while !keeper.queue().standing().reason.contains(&foreign.id.to_string()) {
        assert!(Instant::now() < deadline, "{:?}", keeper.queue().standing());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(!keeper.queue().is_online());
    mount.put(3, reference().for_place(0, 1).as_ref());
    until(&keeper, DriveCondition::Online).await;
}

#[tokio::test]
async fn a_drive_that_is_pulled_or_exchanged_is_identified_anew() {
    let (keeper, mount, tell) = keeper();
    tell.send_replace(Some(Arc::new(reference())));
    let own = reference().for_place(0, 1).expect("slot 1");
    mount.put(1, Some(&own));
    until(&keeper, DriveCondition::Online).await;
    mount.pull();
    until(&keeper, DriveCondition::Absent).await;
    mount.put(2, Some(&own));
    until(&keeper, DriveCondition::Online).await;
    mount.put(3, Some(&reference()));
    until(&keeper, DriveCondition::Refused).await;
    mount.put(4, None);
    until(&keeper, DriveCondition::Blank).await;
    let bytes = own.encode();
    let given = keeper.queue().call(DriveRequest::WriteFormat { bytes, rebuilding: true }).await;
    assert_eq!(given, Ok(DriveReply::Done));
    until(&keeper, DriveCondition::Online).await;
    let deadline = Instant::now() + Duration::from_secs(5);
    while keeper.seen().format() != Some(&own) {
        assert!(Instant::now() < deadline, "{}", keeper.seen());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_drive_that_hung_serves_again_once_it_answers() {
    let (keeper, mount, tell) = keeper();
    tell.send_replace(Some(Arc::new(reference())));
    let own = reference().for_place(0, 1).expect("slot 1");
    mount.put(1, Some(&own));
    until(&keeper, DriveCondition::Online).await;
    mount.hang(true);
    until(&keeper, DriveCondition::Suspect).await;
    // Several probe periods later there is still one thread that looks, and the threads of the queue.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(keeper.queue().standing().left_behind <= 2);
    let began = Instant::now();
    keeper.close().await;
    assert!(began.elapsed() < Duration::from_secs(1), "a hung drive holds up nobody's end");
    mount.hang(false);
    until(&keeper, DriveCondition::Online).await;
}

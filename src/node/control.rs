//! The node's end of the control descriptor: crash points that are armed, defects that are planted.
//!
//! Only a process that inherited the descriptor has any of this; see `protocol::control` for the
//! words. A report is written before the task that it is about is parked or the process ends, so
//! that whoever reads it may rely on it.

use std::collections::BTreeMap;
use std::env;
use std::io;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::thread;

use crate::protocol::control::Arm;
use crate::protocol::control::ArmAction;
use crate::protocol::control::CONTROL_FD_VARIABLE;
use crate::protocol::control::Defect;
use crate::protocol::control::FromNode;
use crate::protocol::control::ToNode;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Passing;
use crate::protocol::crash_point::Place;
use crate::sys;

/// What the harness said at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// Defects to plant.
    pub defects: Vec<Defect>,
    /// UUIDs of the only file systems that may be opened when a defect is planted.
    pub run_file_systems: Vec<String>,
}

/// Why the control descriptor cannot be used. The node does not start then.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The variable does not name an open descriptor.
    #[error("{CONTROL_FD_VARIABLE}={value} names no open descriptor")]
    Descriptor {
        /// Its value.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The first line is something else than a start.
    #[error("the first line on the control descriptor is not a start")]
    Start {
        /// What was wrong with it.
        source: io::Error,
    },
}

/// The open control descriptor.
pub struct Control {
    armed: Arc<Armed>,
    reports: Arc<Reports>,
}

impl Control {
    /// Takes over the descriptor that the environment names, waits for the start and then reads on in
    /// a thread of its own; `ended` is called once the harness is gone. `None` without the variable.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn inherited(
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Option<(Self, Orders)>, ControlError> {
        let Some(value) = env::var_os(CONTROL_FD_VARIABLE) else { return Ok(None) };
        let value = value.to_string_lossy().into_owned();
        let number = value.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let descriptor = number.and_then(sys::inherited_descriptor);
        match descriptor {
            Ok(descriptor) => Self::on(UnixStream::from(descriptor), ended).map(Some),
            Err(source) => Err(ControlError::Descriptor { value, source }),
        }
    }

    /// As [`inherited`](Self::inherited), on a socket that is at hand.
    ///
    /// # Errors
    /// [`ControlError::Start`].
    pub fn on(
        socket: UnixStream,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<(Self, Orders), ControlError> {
        let fail = |source| ControlError::Start { source };
        let reports = Arc::new(Reports(Mutex::new(socket.try_clone().map_err(fail)?)));
        let mut lines = BufReader::new(socket).lines();
        let first = lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        let start = first.and_then(|line| serde_json::from_str(&line).map_err(io::Error::other));
        let ToNode::Start { defects, run_file_systems, arms } = start.map_err(fail)? else {
            return Err(fail(io::ErrorKind::InvalidData.into()));
        };
        let armed = Arc::new(Armed { reports: Arc::clone(&reports), ..Armed::default() });
        for arm in arms {
            armed.arm(arm);
        }
        let reader = Arc::clone(&armed);
        let read_on = move || {
            for line in lines {
                match line.map(|line| serde_json::from_str(&line)) {
                    Ok(Ok(ToNode::Arm(arm))) => reader.arm(arm),
                    Ok(Ok(ToNode::Release { arm })) => reader.release(arm),
                    Ok(Ok(ToNode::Start { .. })) => tracing::error!("a second start is ignored"),
                    Ok(Err(error)) => tracing::error!(%error, "a control line is not understood"),
                    Err(_) => break,
                }
            }
            ended();
        };
        let spawned = thread::Builder::new().name("control".to_owned()).spawn(read_on);
        spawned.map_err(fail)?;
        Ok((Self { armed, reports }, Orders { defects, run_file_systems }))
    }

    /// Tells the harness where the node listens.
    pub fn listening(&self, port: u16) {
        self.reports.write(&FromNode::Listening { port });
    }

    /// What the store and the drives call at each crash point.
    pub fn passing(&self) -> Arc<dyn Passing> {
        Arc::clone(&self.armed) as Arc<dyn Passing>
    }
}

/// The way back to the harness.
#[derive(Debug)]
struct Reports(Mutex<UnixStream>);

impl Reports {
    fn write(&self, report: &FromNode) {
        let mut line = serde_json::to_vec(report).expect("reports are plain data");
        line.push(b'\n');
        let mut socket = self.0.lock().expect("nothing panics while it writes");
        if let Err(error) = socket.write_all(&line) {
            tracing::error!(%error, "a report did not reach the harness");
        }
    }
}

/// The armed points.
struct Armed {
    reports: Arc<Reports>,
    state: Mutex<State>,
    released: Condvar,
}

impl Default for Armed {
    fn default() -> Self {
        let (nobody, _) = UnixStream::pair().expect("a socket pair takes two descriptors");
        let reports = Arc::new(Reports(Mutex::new(nobody)));
        Self { reports, state: Mutex::default(), released: Condvar::new() }
    }
}

#[derive(Default)]
struct State {
    arms: BTreeMap<u64, Watched>,
}

/// One arm: it counts from when it was armed, acts once, and is gone when it is released.
struct Watched {
    arm: Arm,
    passings: BTreeMap<(Option<String>, String, String), u32>,
    struck: bool,
}

impl Watched {
    fn concerns(&self, point: CrashPoint, place: &Place) -> bool {
        let arm = &self.arm;
        let drive = arm.drive.is_none() || arm.drive == place.drive;
        let bucket = arm.bucket.as_ref().is_none_or(|bucket| *bucket == place.bucket);
        let key = arm.key.as_ref().is_none_or(|key| *key == place.key);
        arm.point == point && drive && bucket && key
    }

    /// Counts one passing; true when it is time to act.
    fn is_due(&mut self, place: &Place) -> bool {
        let who = (place.drive.clone(), place.bucket.clone(), place.key.clone());
        let passings = self.passings.entry(who).or_default();
        *passings += 1;
        !self.struck && *passings >= self.arm.nth
    }
}

impl Armed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the arms")
    }

    fn arm(&self, arm: Arm) {
        let watched = Watched { passings: BTreeMap::new(), struck: false, arm };
        self.state().arms.insert(watched.arm.id, watched);
    }

    fn release(&self, arm: u64) {
        self.state().arms.remove(&arm);
        self.released.notify_all();
    }

    /// Which arm acts at this passing, if any.
    fn struck(&self, point: CrashPoint, place: &Place) -> Option<(u64, ArmAction)> {
        let mut state = self.state();
        let mut struck = None;
        for watched in state.arms.values_mut().filter(|watched| watched.concerns(point, place)) {
            // Of two that are due at one passing the older acts, the other one at the next.
            if watched.is_due(place) && struck.is_none() {
                watched.struck = true;
                struck = Some((watched.arm.id, watched.arm.action));
            }
        }
        struck
    }

    fn park(&self, arm: u64) {
        let mut state = self.state();
        while state.arms.contains_key(&arm) {
            state = self.released.wait(state).expect("nothing panics while it holds the arms");
        }
    }
}

impl Passing for Armed {
    fn may_act(&self) -> bool {
        !self.state().arms.is_empty()
    }

    fn pass(&self, point: CrashPoint, place: &Place) {
        let Some((arm, action)) = self.struck(point, place) else { return };
        tracing::info!(%point, drive = place.drive, bucket = place.bucket, key = place.key, ?action, "reached");
        self.reports.write(&FromNode::Reached { arm, point, place: place.clone() });
        match action {
            ArmAction::Abort => sys::exit_now(134),
            // A coordinator's task runs on a thread of the runtime, which gets another one meanwhile.
            ArmAction::Hold if tokio::runtime::Handle::try_current().is_ok() => {
                tokio::task::block_in_place(|| self.park(arm));
            }
            ArmAction::Hold => self.park(arm),
        }
        tracing::info!(%point, drive = place.drive, "released");
    }
}

#[cfg(test)]
mod tests;

//! What is seen of a server from outside while it works: processor time, memory, and the flushes of its drives.
//!
//! What cannot be read is unknown, and never zero.

use std::fs;

use crate::harness::testbed::processes;

/// Clock ticks of a second, as `/proc` counts processor time: the same on every Linux, whatever the kernel's own are.
pub(super) const TICKS_PER_S: f64 = 100.0;

/// A server, as the kernel sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Outside {
    /// Its process, if it is ours.
    pub(super) pid: Option<i32>,
    /// Its drives, as the kernel calls them.
    pub(super) devices: Vec<String>,
}

impl Outside {
    /// Flushes that the drives have done so far.
    ///
    /// # Errors
    /// The device whose statistics cannot be read, or tell of no flushes.
    ///
    /// # Sources
    /// The kernel's `Documentation/block/stat.rst`: the sixteenth number, since Linux 5.5.
    pub(super) fn flushes(&self) -> Result<u64, String> {
        let of_device = |device: &String| {
            let path = format!("/sys/block/{device}/stat");
            let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            let number = stat.split_ascii_whitespace().nth(15);
            let number = number.and_then(|number| number.parse::<u64>().ok());
            number.ok_or_else(|| format!("{path} tells of no flushes"))
        };
        self.devices.iter().map(of_device).sum()
    }

    /// Processor time that the server's process has used, in clock ticks; `None` where it is not ours to see.
    pub(super) fn ticks(&self) -> Option<u64> {
        Some(processes::stat(self.pid?).ok()?.cpu_ticks)
    }

    /// The most memory that the server's process has had resident, in bytes.
    pub(super) fn resident_bytes_max(&self) -> Option<u64> {
        self.bytes_of("VmHWM:")
    }

    /// Memory that the server's process has resident now, in bytes.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        self.bytes_of("VmRSS:")
    }

    fn bytes_of(&self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
        Some(kib << 10)
    }
}

/// Processor time that this process, the client, has used, in clock ticks.
pub(super) fn own_ticks() -> Option<u64> {
    Some(processes::stat(i32::try_from(std::process::id()).ok()?).ok()?.cpu_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_read_is_named_and_not_counted_as_zero() {
        let outside = Outside { pid: None, devices: vec!["no-such-device".to_owned()] };
        let error = outside.flushes().expect_err("there is no such device");
        assert!(error.contains("no-such-device"), "{error}");
        assert_eq!(Outside::default().flushes(), Ok(0));
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let pid = i32::try_from(std::process::id()).expect("a process id fits");
        let outside = Outside { pid: Some(pid), devices: Vec::new() };
        assert!(own_ticks().is_some() && outside.ticks().is_some());
        let (most, now) = (outside.resident_bytes_max(), outside.resident_bytes());
        assert!(most.is_some_and(|bytes| bytes > 0) && now.is_some_and(|bytes| bytes > 0));
    }
}

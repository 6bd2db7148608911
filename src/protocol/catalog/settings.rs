//! The switches of the catalog, by the runbook's names.
//!
//! # Sources
//!
//! Specification of the catalog §1.2 (values), §4.9 (which gates write which version).

/// Selects the backing.
pub const BACKING: &str = "RUSTFS_TABLE_CATALOG_BACKING";
/// The gate "version 2 is asked for".
pub const SNAPSHOT_V2: &str = "RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2";
/// The gate "every process of the fleet reads version 2".
pub const SNAPSHOT_V2_FLEET_CONFIRMED: &str =
    "RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2_FLEET_CONFIRMED";

/// Where the catalog's state is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backing {
    /// One object an entry.
    #[default]
    Object,
    /// One snapshot for all.
    DurableStrong,
}

impl Backing {
    /// The backing that the switch selects; absent and empty select the default.
    ///
    /// # Errors
    ///
    /// Any other value, by name: it stops the start.
    pub fn parse(value: Option<&str>) -> Result<Self, String> {
        match value.unwrap_or_default().trim() {
            "" | "object" => Ok(Self::Object),
            "durable-strong" => Ok(Self::DurableStrong),
            other => Err(format!("{BACKING} is {other:?}, neither `object` nor `durable-strong`")),
        }
    }

    /// The value of the switch.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::DurableStrong => "durable-strong",
        }
    }
}

/// The two gates of snapshot version 2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gates {
    /// Version 2 is asked for.
    pub requested: bool,
    /// Every process of the fleet reads it.
    pub fleet_confirmed: bool,
}

impl Gates {
    /// The version that the next write has at least: 2 only when both gates are open.
    pub fn write_version(self) -> u32 {
        if self.requested && self.fleet_confirmed { 2 } else { 1 }
    }
}

/// A switch that is on or off; absent and empty are off.
///
/// # Errors
///
/// Any other value, by name: it stops the start.
pub fn parse_flag(name: &str, value: Option<&str>) -> Result<bool, String> {
    match &*value.unwrap_or_default().trim().to_ascii_lowercase() {
        "1" | "t" | "true" | "on" | "yes" | "ok" | "success" | "active" | "enabled" => Ok(true),
        "" | "0" | "f" | "false" | "off" | "no" | "not_ok" | "failure" | "inactive"
        | "disabled" => Ok(false),
        other => Err(format!("{name} is {other:?}, neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_an_unknown_backing_is_no_backing() {
        for object in [None, Some(""), Some(" object\n")] {
            assert_eq!(Backing::parse(object), Ok(Backing::Object));
        }
        assert_eq!(Backing::parse(Some("durable-strong ")), Ok(Backing::DurableStrong));
        for unknown in ["memory", "Object", "durable_strong"] {
            assert!(Backing::parse(Some(unknown)).is_err());
        }
        for backing in [Backing::Object, Backing::DurableStrong] {
            assert_eq!(Backing::parse(Some(backing.name())), Ok(backing));
        }
    }

    #[test]
    fn both_gates_make_version_2() {
        let version =
            |requested, fleet_confirmed| Gates { requested, fleet_confirmed }.write_version();
        assert_eq!([version(true, false), version(false, true), version(false, false)], [1; 3]);
        assert_eq!(version(true, true), 2);
    }

    #[test]
    fn a_flag_has_many_spellings_but_not_any() {
        assert_eq!(parse_flag(SNAPSHOT_V2, Some(" TRUE ")), Ok(true));
        assert_eq!(parse_flag(SNAPSHOT_V2, Some("not_ok")), Ok(false));
        assert_eq!(parse_flag(SNAPSHOT_V2, None), Ok(false));
        assert!(parse_flag(SNAPSHOT_V2, Some("maybe")).unwrap_err().contains(SNAPSHOT_V2));
    }
}

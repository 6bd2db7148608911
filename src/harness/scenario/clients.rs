//! Steps in which a real client takes part: `client: { name: pyiceberg, part: before, warehouse: lake }`.
//!
//! A real client is a program that other people wrote, installed where packages can be had. It goes through a flow in
//! parts; what happens between the parts is for other steps to say. Cases with such steps run when they are named or
//! asked for by the client's name, and are no part of a suite by themselves: most machines have no such client.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use super::form::Step;

/// A real client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RealClient {
    /// PyIceberg, as it is published.
    Pyiceberg,
}

impl RealClient {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Pyiceberg];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pyiceberg => "pyiceberg",
        }
    }
}

impl fmt::Display for RealClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RealClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|client| client.name() == text);
        let names = Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("there is no client `{text}`: {names}"))
    }
}

/// One part of a client's flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientStep {
    /// Which client.
    pub name: RealClient,
    /// Which part of its flow.
    pub part: Part,
    /// The warehouse that it works on.
    pub warehouse: String,
}

/// A part of a client's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Everything, in object backing.
    Before,
    /// What goes on under the fence of a migration.
    Fenced,
    /// Everything, in durable-strong backing, on top of what the first part has left.
    After,
}

impl Part {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Fenced => "fenced",
            Self::After => "after",
        }
    }
}

/// The real clients that take part in `steps`, each once.
pub fn of(steps: &[Step]) -> Vec<RealClient> {
    let mut clients: Vec<_> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Client(step) => Some(step.name),
            _ => None,
        })
        .collect();
    clients.sort();
    clients.dedup();
    clients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_says_which_client_does_which_part_where() {
        let read = |text: &str| crate::yaml::parse::<ClientStep>("step", text);
        let step = read("{ name: pyiceberg, part: fenced, warehouse: lake }").unwrap();
        assert_eq!(
            (step.name, step.part, &*step.warehouse),
            (RealClient::Pyiceberg, Part::Fenced, "lake")
        );
        for text in
            ["{ name: spark, part: before, warehouse: a }", "{ name: pyiceberg, part: before }"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        for client in RealClient::ALL {
            assert_eq!(client.name().parse(), Ok(client));
        }
        assert!("spark".parse::<RealClient>().is_err());
    }
}

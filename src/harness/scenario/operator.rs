//! The operator's tools as steps: `operator: { tool: backup, node: 0 }`.
//!
//! What an operator would find out first (which drive holds the records, which generations nobody goes on with,
//! which drives they claim) is found out from the drives when the step is reached. What the tool is to be asked
//! otherwise than it should, and by what it is refused then, stands in the step.

use serde::Deserialize;
use serde::Serialize;

/// One use of a tool, on the drives of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorStep {
    /// Which tool.
    pub tool: Tool,
    /// Whose drives: the node's that owns the survivor anchor and the targets.
    pub node: usize,
    /// Which erasure set the generation is of.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set: usize,
    /// Whether it is to write, with the assertion that every node is stopped; otherwise it only says what it would.
    #[serde(default, skip_serializing_if = "is_false")]
    pub write: bool,
    /// What the operator does wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misuse: Option<Misuse>,
    /// By what it has to be refused: `P13`, `E44`, or the name of an error without a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Serde's condition for numbers.
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Serde's condition for switches.
fn is_false(switch: &bool) -> bool {
    !*switch
}

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// `replacement backup`.
    Backup,
    /// `replacement prepare-migration`.
    PrepareMigration,
    /// `replacement rearm`.
    Rearm,
    /// `replacement orphans`.
    Orphans,
}

impl Tool {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::PrepareMigration => "prepare-migration",
            Self::Rearm => "rearm",
            Self::Orphans => "orphans",
        }
    }

    /// Whether it can be told to write on a drive.
    pub fn may_write(self) -> bool {
        matches!(self, Self::PrepareMigration | Self::Rearm)
    }
}

/// What an operator does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misuse {
    /// Names no anchor.
    NoAnchor,
    /// Names a target without its endpoint.
    TargetWithoutEndpoint,
    /// Names a target twice.
    TargetTwice,
    /// Names a folder that is not there as the target's.
    TargetNotThere,
    /// Names another drive's endpoint as the target.
    AnotherTarget,
    /// Names a source by a word that is no id.
    SourceNotAnId,
    /// Names a source twice.
    SourceTwice,
    /// Names a source that nobody has a record of.
    SourceUnknown,
    /// Leaves out the source that has marked a target.
    SourceLeftOut,
    /// Names sources of another set besides.
    SourcesOfTwoSets,
    /// Names a source as the successor.
    SuccessorIsSource,
    /// Asks to write without asserting that every node is stopped.
    NotAsserted,
}

impl Misuse {
    /// Whether `tool` can be used so.
    pub fn is_possible(self, tool: Tool) -> bool {
        match tool {
            Tool::PrepareMigration => true,
            Tool::Rearm => matches!(self, Self::SourceNotAnId | Self::NotAsserted),
            Tool::Backup => matches!(self, Self::TargetNotThere | Self::TargetTwice),
            Tool::Orphans => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_says_which_tool_and_whose_drives() {
        let text =
            "{ tool: prepare_migration, node: 1, write: true, misuse: no_anchor, refused: P1 }";
        let step: OperatorStep = crate::yaml::parse("step", text).unwrap();
        assert_eq!((step.tool, step.node, step.set), (Tool::PrepareMigration, 1, 0));
        assert_eq!((step.misuse, step.refused.as_deref()), (Some(Misuse::NoAnchor), Some("P1")));
        for text in
            ["{ tool: repair, node: 0 }", "{ tool: backup }", "{ tool: backup, node: 0, to: x }"]
        {
            assert!(crate::yaml::parse::<OperatorStep>("step", text).is_err(), "{text}");
        }
    }
}

//! The tool of the catalog's runbook as a step: it goes through a cutover, as far as it comes, and goes on where it
//! stopped when it is started again.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;

use super::form::TestbedForm;
use crate::harness::operator::catalog::step::Step;

/// One start of the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rehearse {
    /// Every table bucket.
    pub warehouses: Vec<String>,
    /// The principal who has the tables' policy, and S3 inside the tables alone.
    pub inside: String,
    /// The principal who has S3 everywhere, and no table's policy.
    pub outside: String,
    /// The steps of the runbook that the operator says to have done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// The step of the runbook before which it is to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The step at which it has to stop, of itself or as asked; when absent it has to come to the runbook's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops: Option<String>,
}

impl Rehearse {
    /// The steps that are done by the operator's word.
    ///
    /// # Errors
    ///
    /// There is no such step, or nobody's word does it.
    pub fn by_word(&self) -> Result<BTreeSet<Step>, String> {
        let steps = self.done.iter().map(|name| {
            let step: Step = name.parse()?;
            match step.may_be_asserted() {
                true => Ok(step),
                false => Err(format!("the step {name} is not done by anybody's word")),
            }
        });
        steps.collect()
    }

    /// What is wrong with it, by the key that is wrong.
    pub fn problems(&self, testbed: &TestbedForm) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut add = |key: &str, message: String| problems.push((key.to_owned(), message));
        if self.warehouses.is_empty() {
            add(".warehouses", "names no warehouse".to_owned());
        }
        for (key, name) in [(".inside", &self.inside), (".outside", &self.outside)] {
            if !testbed.principals.contains_key(name) {
                add(key, format!("the testbed has no principal `{name}`"));
            }
        }
        if let Err(message) = self.by_word() {
            add(".done", message);
        }
        for (key, name) in [(".before", &self.before), (".stops", &self.stops)] {
            if let Some(Err(message)) = name.as_ref().map(|name| name.parse::<Step>()) {
                add(key, message);
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rehearsal_names_steps_and_principals_that_there_are() {
        let text = "{ nodes: 1, drives: 4, parity: 2, principals: { in: { actions: [a] }, out: { actions: [b] } } }";
        let testbed: TestbedForm = crate::yaml::parse("testbed", text).unwrap();
        let problems = |more: &str| {
            let text = format!("{{ inside: in, outside: out, {more} }}");
            let rehearse: Rehearse = crate::yaml::parse("rehearse", &text).unwrap();
            rehearse.problems(&testbed).len()
        };
        assert_eq!(problems("warehouses: [lake], done: [drain], stops: restart"), 0);
        for bad in [
            "warehouses: []",
            "warehouses: [lake], done: [nothing]",
            "warehouses: [lake], done: [materialize]",
            "warehouses: [lake], before: nothing",
            "warehouses: [lake], stops: nothing",
        ] {
            assert_eq!(problems(bad), 1, "{bad}");
        }
    }
}

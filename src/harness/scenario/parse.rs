//! From the text of a scenario to its cases, each checked.
//!
//! `cases:` makes several of one file: wherever `$case` stands, the case's value is read instead.
//! Values are words that mean nothing to YAML, so the place of every error stays that of the file.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::form::Cases;
use super::form::Cover;
use super::form::ScenarioForm;
use super::form::Suite;
use super::validate;
use crate::protocol::crash_point::CrashPoint;
use crate::value::Seed;
use crate::yaml;
use crate::yaml::YamlError;

/// What stands for a case's value.
const PLACEHOLDER: &str = "$case";

/// One file.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The file, as errors and lists call it.
    pub file: String,
    /// The folder that it stands in.
    pub family: String,
    /// Its name.
    pub name: String,
    /// Its cases, at least one.
    pub cases: Vec<Case>,
    /// Which of them one run takes.
    pub cover: Cover,
}

/// One case: a scenario that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// `scenario`, or `scenario[value]`.
    pub name: String,
    /// The folder of its file.
    pub family: String,
    /// The value, when the file makes several cases.
    pub value: Option<String>,
    /// The form, with the value in its place.
    pub form: ScenarioForm,
}

impl Case {
    /// Whether this is a canary: it plants a defect and must fail.
    pub fn is_canary(&self) -> bool {
        self.family == CANARY
    }

    /// The same without its planted defect, which must pass.
    #[must_use]
    pub fn control(&self) -> Self {
        let mut control = self.clone();
        control.name.push_str(CONTROL_SUFFIX);
        control.form.testbed.defects.clear();
        control.form.expect.fails = None;
        control
    }
}

/// What the name of a canary's control ends with.
pub const CONTROL_SUFFIX: &str = "+control";

/// The family whose scenarios must fail, and the only one that may plant defects.
pub const CANARY: &str = "canary";

impl Scenario {
    /// The smallest suite that runs it.
    pub fn suite(&self) -> Suite {
        self.cases[0].form.suite
    }

    /// The cases that one run of `suite` takes: all, or as many as `cover` says, drawn from `seed`.
    pub fn covered(&self, suite: Suite, seed: Seed) -> Vec<&Case> {
        let mut cases: Vec<&Case> = self.cases.iter().collect();
        if let (Cover::Rotate(count), Suite::Quick) = (self.cover, suite) {
            cases.sort_by_key(|case| seed.bytes(&format!("cover {}", case.name)));
            cases.truncate(count);
            cases.sort_by(|one, other| one.name.cmp(&other.name));
        }
        cases
    }
}

/// The one key that is read before the others.
#[derive(Debug, Deserialize)]
struct Head {
    #[serde(default)]
    cases: Option<Cases>,
}

/// Reads the scenario `text` of `file`, which stands in the folder `family`.
///
/// # Errors
/// Everything that is wrong with it, each with its place; nothing was touched.
pub fn parse(file: &str, family: &str, text: &str) -> Result<Scenario, Vec<YamlError>> {
    let (head, places) =
        yaml::parse_with_places::<Head>(file, text).map_err(|error| vec![error])?;
    let Some(cases) = head.cases else {
        let form =
            read(file, family, text).map_err(|errors| errors.into_iter().collect::<Vec<_>>())?;
        let cover = form.cover;
        if cover != Cover::All {
            return Err(vec![places.error("cover", "there are no `cases` to rotate")]);
        }
        let name = form.scenario.clone();
        let case = Case { name: name.clone(), family: family.to_owned(), value: None, form };
        return Ok(Scenario {
            file: file.to_owned(),
            family: family.to_owned(),
            name,
            cases: vec![case],
            cover,
        });
    };
    let values = values(&cases).map_err(|message| vec![places.error("cases", message)])?;
    if !text.lines().any(|line| line.split(" #").next().unwrap_or(line).contains(PLACEHOLDER)) {
        let message = format!("`{PLACEHOLDER}` stands nowhere: all cases would be the same");
        return Err(vec![places.error("cases", message)]);
    }
    let mut read_cases = Vec::new();
    let mut errors = Vec::new();
    for value in values {
        match read(file, family, &text.replace(PLACEHOLDER, &value)) {
            Ok(form) => read_cases.push(Case {
                name: format!("{}[{value}]", form.scenario),
                family: family.to_owned(),
                value: Some(value),
                form,
            }),
            Err(wrong) => {
                for mut error in wrong {
                    let is_known = errors.iter().any(|known: &YamlError| {
                        known.position == error.position
                            && known.message.starts_with(&error.message)
                    });
                    if !is_known {
                        error.message.push_str(&format!(" (case {value})"));
                        errors.push(error);
                    }
                }
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let first = &read_cases[0].form;
    Ok(Scenario {
        file: file.to_owned(),
        family: family.to_owned(),
        name: first.scenario.clone(),
        cover: first.cover,
        cases: read_cases,
    })
}

/// Reads and checks one case.
fn read(file: &str, family: &str, text: &str) -> Result<ScenarioForm, Vec<YamlError>> {
    let (form, places) =
        yaml::parse_with_places::<ScenarioForm>(file, text).map_err(|error| vec![error])?;
    let problems = validate::problems(&form, family);
    if problems.is_empty() {
        return Ok(form);
    }
    Err(problems.into_iter().map(|(path, message)| places.error(&path, message)).collect())
}

/// The values of all cases, each once, in order.
fn values(cases: &Cases) -> Result<Vec<String>, String> {
    match cases {
        Cases::CrashPoints(pattern) => {
            let points = matching(pattern);
            if points.is_empty() {
                return Err(format!("no crash point matches `{pattern}`"));
            }
            Ok(points.into_iter().map(|point| point.name().to_owned()).collect())
        }
        Cases::Values(values) => {
            if values.is_empty() {
                return Err("a list of no cases".to_owned());
            }
            let mut seen = BTreeSet::new();
            for value in values {
                let is_word = !value.is_empty()
                    && value.len() <= 64
                    && value
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
                if !is_word {
                    return Err(format!("case {value:?} is not a word of letters, digits, `_.-`"));
                }
                if !seen.insert(value) {
                    return Err(format!("case `{value}` stands twice"));
                }
            }
            Ok(values.clone())
        }
    }
}

/// The crash points that `pattern` matches: a name, or the beginning of names before a `*`.
pub fn matching(pattern: &str) -> Vec<CrashPoint> {
    let matches = |point: &&CrashPoint| match pattern.strip_suffix('*') {
        Some(beginning) => point.name().starts_with(beginning),
        None => point.name() == pattern,
    };
    CrashPoint::ALL.iter().filter(matches).copied().collect()
}

#[cfg(test)]
mod tests;

//! Which scenarios and cases a command line names.
//!
//! A `scenarios/` folder beside the caller wins over what is built into the binary. Reading touches
//! nothing else.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

use crate::harness::report::suite::Drawn;
use crate::harness::report::suite::Partition;
use crate::harness::scenario::clients;
use crate::harness::scenario::clients::RealClient;
use crate::harness::scenario::form::Suite;
use crate::harness::scenario::library::BUILT_IN;
use crate::harness::scenario::parse;
use crate::harness::scenario::parse::Case;
use crate::harness::scenario::parse::Scenario;
use crate::value::Digest;
use crate::value::Seed;
use crate::yaml;
use crate::yaml::YamlError;

/// The folder beside the caller.
const FOLDER: &str = "scenarios";

/// Why a selection is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A scenario is wrong: everything that is, each with its place.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<YamlError>),
    /// Nothing has this name.
    #[error("there is no scenario, case, family or file `{0}`")]
    Unknown(String),
    /// Two files give their scenarios one name.
    #[error("`{name}` is the name of both {one} and {other}")]
    Twice {
        /// The name.
        name: String,
        /// A file.
        one: String,
        /// Another one.
        other: String,
    },
}

/// The scenarios that can be named.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// All of them, by file.
    pub scenarios: Vec<Scenario>,
}

impl Catalogue {
    /// Reads every scenario in the folder beside the caller, or the built-in ones without it.
    ///
    /// # Errors
    /// [`SelectionError`], with everything that is wrong in any of them.
    pub fn load() -> Result<Self, SelectionError> {
        let folder = Path::new(FOLDER);
        if folder.is_dir() { Self::of_folder(folder) } else { Self::built_in() }
    }

    /// The built-in scenarios.
    ///
    /// # Errors
    /// As [`Catalogue::load`].
    pub fn built_in() -> Result<Self, SelectionError> {
        let texts = BUILT_IN.iter().map(|known| {
            (format!("{FOLDER}/{}", known.file), known.family.to_owned(), Ok(known.text.to_owned()))
        });
        Self::of_texts(texts)
    }

    /// The scenarios in `folder` and the folders below it.
    ///
    /// # Errors
    /// As [`Catalogue::load`].
    pub fn of_folder(folder: &Path) -> Result<Self, SelectionError> {
        let mut paths = Vec::new();
        yaml_files(folder, &mut paths);
        paths.sort();
        Self::of_paths(&paths)
    }

    /// The scenarios in the files `paths`.
    ///
    /// # Errors
    /// As [`Catalogue::load`].
    pub fn of_paths(paths: &[PathBuf]) -> Result<Self, SelectionError> {
        let texts = paths.iter().map(|path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let family = absolute.parent().and_then(Path::file_name).unwrap_or_default();
            let family = family.to_string_lossy().into_owned();
            (path.display().to_string(), family, yaml::text_of(path))
        });
        Self::of_texts(texts)
    }

    fn of_texts(
        texts: impl Iterator<Item = (String, String, Result<String, YamlError>)>,
    ) -> Result<Self, SelectionError> {
        let mut scenarios = Vec::new();
        let mut wrong = Vec::new();
        for (file, family, text) in texts {
            match text
                .map_err(|error| vec![error])
                .and_then(|text| parse::parse(&file, &family, &text))
            {
                Ok(scenario) => scenarios.push(scenario),
                Err(errors) => wrong.extend(errors),
            }
        }
        if !wrong.is_empty() {
            return Err(SelectionError::Wrong(wrong));
        }
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for scenario in &scenarios {
            if let Some(one) = names.insert(&scenario.name, &scenario.file) {
                return Err(SelectionError::Twice {
                    name: scenario.name.clone(),
                    one: one.to_owned(),
                    other: scenario.file.clone(),
                });
            }
        }
        Ok(Self { scenarios })
    }
}

/// What a command line asks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Files, folders, names of scenarios, families or cases; everything when empty.
    pub names: Vec<String>,
    /// Only scenarios of this suite or a smaller one.
    pub suite: Option<Suite>,
    /// Whether canaries are taken that are not named.
    pub canaries: bool,
    /// Real clients: only cases in which one of them takes part. Without any, only cases in which none takes part, and
    /// those that are named by themselves.
    pub clients: BTreeSet<RealClient>,
    /// The seed, from which rotating cases are drawn.
    pub seed: Seed,
}

impl Wanted {
    /// Whether a case is taken that was found in a suite, folder or family, or by its `own_name`.
    fn takes(&self, case: &Case, own_name: bool) -> bool {
        let of_case = clients::of(&case.form.steps);
        match self.clients.is_empty() {
            true => own_name || of_case.is_empty(),
            false => of_case.iter().any(|client| self.clients.contains(client)),
        }
    }
}

/// The cases that were selected.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The cases, in order, each once.
    pub cases: Vec<Case>,
    /// Scenarios of which only some cases were drawn.
    pub drawn: Vec<Drawn>,
}

/// The cases that `wanted` names.
///
/// # Errors
/// [`SelectionError`].
pub fn select(wanted: &Wanted) -> Result<Selection, SelectionError> {
    let mut selection = Selection::default();
    if wanted.names.is_empty() {
        let catalogue = Catalogue::load()?;
        let suite = wanted.suite.unwrap_or(Suite::Quick);
        for scenario in &catalogue.scenarios {
            if wanted.canaries || scenario.family != parse::CANARY {
                selection.take(scenario, suite, wanted, false);
            }
        }
        return Ok(selection);
    }
    let mut catalogue = None;
    for name in &wanted.names {
        let path = Path::new(name);
        if path.is_dir() || path.is_file() {
            let found = match path.is_dir() {
                true => Catalogue::of_folder(path)?,
                false => Catalogue::of_paths(&[path.to_owned()])?,
            };
            if found.scenarios.is_empty() {
                return Err(SelectionError::Unknown(name.clone()));
            }
            for scenario in &found.scenarios {
                let suite = wanted.suite.unwrap_or(Suite::Release);
                selection.take(scenario, suite, wanted, path.is_file());
            }
            continue;
        }
        let known = match &catalogue {
            Some(known) => known,
            None => catalogue.insert(Catalogue::load()?),
        };
        selection.take_named(known, name, wanted)?;
    }
    Ok(selection)
}

impl Selection {
    /// Takes what `name` means in `catalogue`.
    fn take_named(
        &mut self,
        catalogue: &Catalogue,
        name: &str,
        wanted: &Wanted,
    ) -> Result<(), SelectionError> {
        let plain = name.rsplit('/').next().unwrap_or(name);
        let case = catalogue.scenarios.iter().flat_map(|scenario| &scenario.cases);
        if let Some(case) = case.clone().find(|case| case.name == plain) {
            if wanted.takes(case, true) {
                self.push(case);
            }
            return Ok(());
        }
        let suite = wanted.suite.unwrap_or(Suite::Release);
        let mut is_known = false;
        for scenario in &catalogue.scenarios {
            if scenario.name == plain || scenario.family == plain {
                is_known = true;
                self.take(scenario, suite, wanted, scenario.name == plain);
            }
        }
        if is_known { Ok(()) } else { Err(SelectionError::Unknown(name.to_owned())) }
    }

    /// Takes the cases that a run of `suite` has of `scenario`.
    fn take(&mut self, scenario: &Scenario, suite: Suite, wanted: &Wanted, own_name: bool) {
        if scenario.suite() > suite || !scenario.cases.iter().any(|it| wanted.takes(it, own_name)) {
            return;
        }
        let covered = scenario.covered(suite, wanted.seed);
        if covered.len() < scenario.cases.len() {
            self.drawn.push(Drawn {
                scenario: scenario.name.clone(),
                covered: covered.len() as u64,
                all: scenario.cases.len() as u64,
            });
        }
        for case in covered {
            self.push(case);
        }
    }

    fn push(&mut self, case: &Case) {
        if !self.cases.iter().any(|known| known.name == case.name) {
            self.cases.push(case.clone());
        }
    }

    /// Only the cases of one shard; a case keeps its shard whatever else is selected.
    pub fn keep_shard(&mut self, partition: Partition) {
        self.cases.retain(|case| shard_of(&case.name, partition.of) == partition.shard);
    }
}

/// The shard, from 1 to `of`, that a case belongs to.
fn shard_of(case: &str, of: u64) -> u64 {
    let digest = Digest::of(case.as_bytes()).0;
    let mut number = [0; 8];
    number.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(number) % of.max(1) + 1
}

/// Reads `hash:M/N`.
///
/// # Errors
/// A sentence.
pub fn partition(text: &str) -> Result<Partition, String> {
    let numbers = text.strip_prefix("hash:").and_then(|rest| rest.split_once('/'));
    let parsed = numbers.and_then(|(shard, of)| Some((shard.parse().ok()?, of.parse().ok()?)));
    match parsed {
        Some((shard, of)) if shard >= 1 && shard <= of => Ok(Partition { shard, of }),
        _ => Err(format!("partition `{text}` is not hash:M/N with M from 1 to N")),
    }
}

/// Every YAML file in `folder` and below.
fn yaml_files(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            yaml_files(&path, paths);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases that the names select of the built-in scenarios or of the folder beside us.
    fn selected(names: &[&str], clients: &[RealClient]) -> Vec<String> {
        let wanted = Wanted {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            suite: None,
            canaries: false,
            clients: clients.iter().copied().collect(),
            seed: Seed(1),
        };
        select(&wanted).unwrap().cases.into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn real_clients_take_part_when_they_are_asked_for() {
        let real = "a-real-client-over-a-cutover";
        for family in ["catalog", "scenarios/catalog"] {
            let all = selected(&[family], &[]);
            assert!(all.len() > 1 && !all.iter().any(|case| case == real), "{family}: {all:?}");
            assert_eq!(selected(&[family], &[RealClient::Pyiceberg]), [real], "{family}");
        }
        assert_eq!(selected(&[real], &[]), [real], "named by itself");
        assert_eq!(selected(&["scenarios/catalog/a-real-client-over-a-cutover.yaml"], &[]), [real]);
        assert!(selected(&["kill-during-puts"], &[RealClient::Pyiceberg]).is_empty());
    }

    #[test]
    fn every_case_is_in_exactly_one_shard() {
        for case in ["a", "b[c]", "kill-during-puts", "d[put.meta_renamed]"] {
            let shards = (1..=3).filter(|shard| shard_of(case, 3) == *shard).count();
            assert_eq!(shards, 1, "{case}");
        }
        assert_eq!(partition("hash:2/3"), Ok(Partition { shard: 2, of: 3 }));
        for wrong in ["hash:0/3", "hash:4/3", "slice:1/2", "hash:1"] {
            assert!(partition(wrong).is_err(), "{wrong}");
        }
    }
}

//! What is wrong with the steps about the table catalog. Pure.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::catalog::CatalogStep;
use super::catalog::Commits;
use super::catalog::Enable;
use super::catalog::Expected;
use super::catalog::Hand;
use super::catalog::Holds;
use super::catalog::OnTable;
use super::catalog::OneCommit;
use super::catalog::Pointer;
use super::catalog::Restart;
use super::catalog::named::split_namespace;
use super::catalog::repair::Diagnose;
use super::catalog::repair::Recover;
use super::catalog::split_table;
use super::catalog::split_warehouse;
use super::clients::ClientStep;
use super::form::ScenarioForm;
use super::validate::Problem;

/// Writers of one step.
const WRITERS_MAX: u32 = 64;
/// Commits of one writer.
const COMMITS_MAX: u32 = 10_000;

/// What is there, step by step.
#[derive(Debug, Default)]
pub(super) struct Warehouses {
    /// The tables of each warehouse.
    tables: BTreeMap<String, BTreeSet<String>>,
    /// Names under which the strong snapshot was copied.
    kept: BTreeSet<String>,
    /// Tables with a single commit, `warehouse.namespace.name`.
    committed: BTreeSet<String>,
}

impl Warehouses {
    /// One request.
    pub(super) fn asked(
        &mut self,
        form: &ScenarioForm,
        path: &str,
        step: &CatalogStep,
        problems: &mut Vec<Problem>,
    ) {
        let path = format!("{path}.{}", step.name());
        let mut add = |key: &str, message: String| problems.push((format!("{path}{key}"), message));
        if let Some(node) = step.node().filter(|node| *node >= form.testbed.nodes) {
            add(".node", format!("there is no node {node}"));
        }
        let wrong = match step {
            CatalogStep::Enable(enable) => return self.enabled(form, enable, &mut add),
            CatalogStep::Request(request) => request.problems(&form.testbed),
            CatalogStep::Matrix(matrix) => matrix.problems(&form.testbed),
            CatalogStep::Rehearse(rehearse) => {
                let mut wrong = rehearse.problems(&form.testbed);
                let known = |name: &&String| !self.tables.contains_key(*name);
                wrong.extend(rehearse.warehouses.iter().find(known).map(|name| {
                    (
                        ".warehouses".to_owned(),
                        format!("nobody enabled a warehouse `{name}` before"),
                    )
                }));
                wrong
            }
            _ => Vec::new(),
        };
        wrong.into_iter().for_each(|(key, message)| add(&key, message));
        match step {
            CatalogStep::Snapshot(Hand::Keep(name)) => {
                self.kept.insert(name.clone());
            }
            CatalogStep::Snapshot(Hand::PutBack(name)) if !self.kept.contains(name) => {
                add(".put_back", format!("nobody kept a snapshot `{name}` before"));
            }
            CatalogStep::Holds(holds) if holds.fence.is_some() != holds.warehouse.is_some() => {
                add(".fence", "a fence is that of a `warehouse`: name both or none".to_owned());
            }
            CatalogStep::Holds(holds) if *holds == Holds::default() => {
                add("", "names nothing that the drives have to hold".to_owned());
            }
            _ => {}
        }
        if let CatalogStep::TableBucket(on) = step {
            if form.workload.buckets.contains_key(&on.warehouse) {
                add(".warehouse", format!("there is a bucket `{}` already", on.warehouse));
            }
            self.tables.entry(on.warehouse.clone()).or_default();
            return;
        }
        let Some(warehouse) = step.warehouse() else { return };
        let Some(tables) = self.tables.get_mut(warehouse) else {
            return add(".warehouse", format!("nobody enabled a warehouse `{warehouse}` before"));
        };
        if let CatalogStep::Commit(on) = step {
            let is_first = self.committed.insert(format!("{warehouse}.{}", on.table));
            if is_first && (on.again || on.reuses_key) {
                add(".table", format!("nobody committed to `{}` by a step before", on.table));
            }
        }
        match step {
            CatalogStep::Create(on) => match split_table(&on.table) {
                None => add(".table", format!("`{}` is not `namespace.name`", on.table)),
                Some(_) => {
                    tables.insert(on.table.clone());
                }
            },
            CatalogStep::Commit(OneCommit { table, .. })
            | CatalogStep::Pointer(Pointer { table, .. })
            | CatalogStep::Drop(OnTable { table, .. })
            | CatalogStep::Diagnose(Diagnose { table, .. })
            | CatalogStep::Recover(Recover { table, .. })
                if !tables.contains(table) =>
            {
                add(".table", format!("nobody created `{table}` before"));
            }
            CatalogStep::Pointer(on) if on.generation.is_some() && on.expect != Expected::Done => {
                add(".generation", "only what is done tells a generation".to_owned());
            }
            CatalogStep::Commit(on) if on.again && (on.relocates || on.reuses_key) => {
                add(".again", "is what the last one was".to_owned());
            }
            CatalogStep::CreateNamespace(on) | CatalogStep::DropNamespace(on)
                if split_namespace(&on.namespace).is_none() =>
            {
                add(".namespace", format!("`{}` has an empty level", on.namespace));
            }
            CatalogStep::CreateView(on)
            | CatalogStep::ReplaceView(on)
            | CatalogStep::DropView(on)
                if split_table(&on.view).is_none() =>
            {
                add(".view", format!("`{}` is not `namespace.name`", on.view));
            }
            _ => {}
        }
    }

    fn enabled(
        &mut self,
        form: &ScenarioForm,
        enable: &Enable,
        add: &mut impl FnMut(&str, String),
    ) {
        let name = &enable.warehouse;
        if form.workload.buckets.contains_key(name) || self.tables.contains_key(name) {
            add(".warehouse", format!("there is a bucket `{name}` already"));
        }
        if enable.tables.is_empty() {
            add(".tables", "names no table".to_owned());
        }
        for table in &enable.tables {
            if split_table(table).is_none() {
                add(".tables", format!("`{table}` is not `namespace.name`"));
            }
        }
        self.tables.insert(name.clone(), enable.tables.iter().cloned().collect());
    }

    /// A real client's part.
    pub(super) fn visited(&self, path: &str, step: &ClientStep, problems: &mut Vec<Problem>) {
        let warehouse = &step.warehouse;
        if !self.tables.contains_key(warehouse) {
            let message = format!("nobody enabled a warehouse `{warehouse}` before");
            problems.push((format!("{path}.warehouse"), message));
        }
    }

    /// One load of commits.
    pub(super) fn committed(
        &mut self,
        form: &ScenarioForm,
        path: &str,
        commits: &Commits,
        problems: &mut Vec<Problem>,
    ) {
        for step in &commits.meanwhile {
            self.asked(form, &format!("{path}.meanwhile"), step, problems);
        }
        let mut add = |key: &str, message: String| problems.push((format!("{path}{key}"), message));
        if !(1..=WRITERS_MAX).contains(&commits.writers) {
            add(".writers", format!("1 to {WRITERS_MAX} writers"));
        }
        if !(1..=COMMITS_MAX).contains(&commits.commits) {
            add(".commits", format!("1 to {COMMITS_MAX} commits"));
        }
        if commits.tables.is_empty() {
            add(".tables", "names no table".to_owned());
        }
        if commits.retry && commits.looks {
            add(".looks", "a writer that looks sends again what is not there".to_owned());
        }
        for table in &commits.tables {
            let is_there = split_warehouse(table).is_some_and(|(warehouse, name)| {
                self.tables.get(warehouse).is_some_and(|tables| tables.contains(name))
            });
            if !is_there {
                add(".tables", format!("nobody created `{table}` (`warehouse.namespace.name`)"));
            }
        }
    }
}

/// One restart with another catalog.
pub(super) fn restarted(
    form: &ScenarioForm,
    path: &str,
    restart: &Restart,
    problems: &mut Vec<Problem>,
) {
    if let Some(node) = restart.nodes.iter().find(|node| **node >= form.testbed.nodes) {
        problems.push((format!("{path}.nodes"), format!("there is no node {node}")));
    }
    let backing = restart.catalog.as_ref().and_then(|catalog| catalog.backing.as_ref());
    let word = backing.map_or("object", |backing| backing.word());
    if !["object", "durable-strong"].contains(&word) {
        let message = format!("there is no backing `{word}`: object or durable-strong");
        problems.push((format!("{path}.catalog"), message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::scenario::form::Step;
    use crate::harness::scenario::library::BUILT_IN;
    use crate::harness::scenario::parse;

    fn wrong(step: &str) -> Vec<Problem> {
        let known = BUILT_IN.iter().find(|known| known.family == "catalog").unwrap();
        let scenario = parse::parse(known.file, known.family, known.text).unwrap();
        let form = &scenario.cases[0].form;
        let mut warehouses = Warehouses::default();
        let mut problems = Vec::new();
        let enable = "{ enable: { warehouse: house, tables: [a.t] } }";
        warehouses.asked(form, "s", &crate::yaml::parse("e", enable).unwrap(), &mut problems);
        assert_eq!(problems, []);
        match crate::yaml::parse::<Step>("step", step).unwrap() {
            Step::Catalog(step) => warehouses.asked(form, "s", &step, &mut problems),
            Step::Client(step) => warehouses.visited("s", &step, &mut problems),
            Step::Commits(commits) => warehouses.committed(form, "s", &commits, &mut problems),
            Step::Restart(restart) => restarted(form, "s", &restart, &mut problems),
            step => panic!("{step:?}"),
        }
        problems
    }

    #[test]
    fn what_is_sent_again_is_what_it_was() {
        let again =
            "catalog: { commit: { warehouse: house, table: a.t, again: true, relocates: true } }";
        let places: Vec<String> = wrong(again).into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, ["s.commit.table", "s.commit.again"]);
    }

    #[test]
    fn what_a_step_names_was_made_before() {
        for good in [
            "catalog: { migrate: { warehouse: house } }",
            "catalog: { create: { warehouse: house, table: a.late } }",
            "catalog: { request: { method: GET, path: /iceberg/v1/config, expect: supported } }",
            "catalog: { pointer: { warehouse: house, table: a.t, generation: 2 } }",
            "catalog: { holds: { snapshot: absent, registry_fence: false } }",
            "catalog: { holds: { warehouse: house, fence: preparing } }",
            "catalog: { snapshot: { keep: older } }",
            "catalog: { struck: {} }",
            "commits: { writers: 2, commits: 3, tables: [house.a.t] }",
            "restart: { catalog: { RUSTFS_TABLE_CATALOG_BACKING: durable-strong } }",
            "client: { name: pyiceberg, part: before, warehouse: house }",
            "restart: {}",
            "catalog: { table_bucket: { warehouse: other } }",
            "catalog: { drop: { warehouse: house, table: a.t } }",
            "catalog: { drop_namespace: { warehouse: house, namespace: a.b } }",
            "catalog: { replace_view: { warehouse: house, view: a.v } }",
            "catalog: { diagnose: { warehouse: house, table: a.t, status: HEALTHY } }",
        ] {
            assert_eq!(wrong(good), [], "{good}");
        }
        for bad in [
            "catalog: { migrate: { warehouse: other } }",
            "catalog: { migrate: { warehouse: house, node: 99 } }",
            "catalog: { enable: { warehouse: house, tables: [a.t] } }",
            "catalog: { create: { warehouse: house, table: late } }",
            "catalog: { commit: { warehouse: house, table: a.late } }",
            "catalog: { request: { method: GET, path: /x, as: stranger, expect: denied } }",
            "catalog: { matrix: { as: [root], node: 99, rows: [{ method: GET, path: /, expect: [supported] }] } }",
            "client: { name: pyiceberg, part: before, warehouse: other }",
            "catalog: { pointer: { warehouse: house, table: a.late } }",
            "catalog: { pointer: { warehouse: house, table: a.t, generation: 2, expect: refused } }",
            "catalog: { holds: { fence: preparing } }",
            "catalog: { holds: { warehouse: house } }",
            "catalog: { holds: {} }",
            "catalog: { snapshot: { put_back: older } }",
            "commits: { writers: 0, commits: 3, tables: [house.a.t] }",
            "commits: { writers: 2, commits: 3, tables: [house.a.u] }",
            "commits: { writers: 2, commits: 3, tables: [] }",
            "restart: { catalog: { RUSTFS_TABLE_CATALOG_BACKING: strong } }",
            "restart: { nodes: [99] }",
            "catalog: { drop: { warehouse: house, table: a.late } }",
            "catalog: { recover: { warehouse: house, table: a.late } }",
            "catalog: { create_namespace: { warehouse: house, namespace: a. } }",
            "catalog: { create_view: { warehouse: house, view: v } }",
            "catalog: { commit: { warehouse: house, table: a.t, again: true } }",
            "catalog: { commit: { warehouse: house, table: a.t, reuses_key: true } }",
        ] {
            assert_eq!(wrong(bad).len(), 1, "{bad}");
        }
    }
}

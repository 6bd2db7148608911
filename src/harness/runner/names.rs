//! Requests about what has a name in a warehouse: the bucket itself, namespaces, tables that go, views.

use super::life::Life;
use super::tables::at;
use crate::harness::operator::catalog::ask::Ask;
use crate::harness::operator::catalog::ask::Heard;
use crate::harness::operator::catalog::ask::Outcome;
use crate::harness::operator::catalog::routes::Named;
use crate::harness::scenario::catalog::CatalogStep;
use crate::harness::scenario::catalog::OnTable;
use crate::harness::scenario::catalog::named::OnNamespace;
use crate::harness::scenario::catalog::named::OnView;
use crate::harness::scenario::catalog::named::split_namespace;
use crate::harness::scenario::catalog::split_table;
use crate::harness::workload::catalog::CatalogAction;

/// The status of a bucket that is there already.
const CONFLICT: u16 = 409;

impl Life<'_> {
    /// Makes a bucket, if it is not there, and enables it as a table bucket; that is asked until it is answered where
    /// `waits` says so, else once.
    pub(super) async fn table_bucket(&self, warehouse: &str, node: usize, waits: bool) -> Heard {
        let make = Ask::new("PUT", format!("/{warehouse}")).waiting();
        let heard = self.asked(warehouse, None, node, CatalogAction::MakeBucket, make).await;
        if heard.told.outcome != Outcome::Done && heard.told.status != Some(CONFLICT) {
            return heard;
        }
        let ask = Ask { waits, ..Ask::new("PUT", at(warehouse).bucket().path) };
        self.asked(warehouse, None, node, CatalogAction::Enable, ask).await
    }

    /// Makes a namespace.
    pub(super) async fn create_namespace(
        &self,
        warehouse: &str,
        levels: &[String],
        node: usize,
    ) -> Heard {
        let (name, ask) = (levels.join("."), at(warehouse).create_namespace(levels));
        let action = CatalogAction::CreateNamespace;
        self.asked_of(warehouse, (None, Some(&name)), node, action, ask).await
    }

    /// Drops a namespace.
    pub(super) async fn drop_namespace(&self, on: &OnNamespace) -> Heard {
        let levels = split_namespace(&on.namespace).unwrap_or_default();
        let ask = at(&on.warehouse).drop_namespace(&levels);
        let action = CatalogAction::DropNamespace;
        self.asked_of(&on.warehouse, (None, Some(&on.namespace)), on.node, action, ask).await
    }

    /// Drops a table.
    pub(super) async fn drop_table(&self, on: &OnTable) -> Heard {
        let (namespace, name) = split_table(&on.table).unwrap_or_default();
        let ask = at(&on.warehouse).drop_table(Named { namespace: &namespace, name: &name });
        let action = CatalogAction::DropTable;
        self.asked(&on.warehouse, Some(&on.table), on.node, action, ask).await
    }

    /// Creates, replaces or drops a view.
    pub(super) async fn view(&self, index: usize, step: &CatalogStep, on: &OnView) -> Heard {
        let (namespace, name) = split_table(&on.view).unwrap_or_default();
        let (at, named) = (at(&on.warehouse), Named { namespace: &namespace, name: &name });
        let (action, ask) = match step {
            CatalogStep::CreateView(_) => (CatalogAction::CreateView, at.create_view(named)),
            CatalogStep::ReplaceView(_) => {
                let value = format!("step {index}");
                (CatalogAction::ReplaceView, at.replace_view(named, "replaced-by", &value))
            }
            _ => (CatalogAction::DropView, at.drop_view(named)),
        };
        self.asked_of(&on.warehouse, (None, Some(&on.view)), on.node, action, ask).await
    }
}

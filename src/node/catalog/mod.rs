//! THE TABLE CATALOG, served: Iceberg's REST routes over the records and the snapshot of `protocol::catalog`.
//!
//! | module | what it is |
//! |---|---|
//! | `path`, `reply`, `caller` | a request: its route, its answer, who asks and whether they may |
//! | `namespaces`, `tables`, `commits`, `views`, `migration` | what the routes do |
//! | `state`, `listed`, `documents` | what a request sees: entries, names, metadata files |
//! | `change` | each change, in whichever backing the node has |
//! | `object`, `flow` | changes of records, a write at a time |
//! | `strong` | changes of the snapshot, all at once |
//! | `graph` | the files that a commit refers to |
//! | `bridge` | what the catalog says to ordinary S3 requests on table buckets |
//! | `depot`, `locks` | where records lie, and the locks under which steps are taken |
//!
//! A request is looked at in one order: names in its path, signature and permission, whether the bucket is a table
//! bucket, its body, and then the state.

pub mod bridge;
mod caller;
mod change;
mod commits;
mod depot;
mod diagnosis;
mod documents;
mod flow;
mod graph;
mod listed;
mod locks;
mod migration;
mod namespaces;
mod object;
mod path;
mod reply;
mod second_look;
mod standing;
mod state;
mod strong;
mod tables;
#[cfg(test)]
mod tests;
mod views;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::Method;
use http::Response;
use http::request::Parts;
use serde_json::Value;
use serde_json::json;

use crate::node::config::CatalogSettings;
use crate::node::s3::access::Principals;
use crate::node::s3::rights::Rights;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::protocol::catalog::actions::Action;
use crate::protocol::catalog::actions::Resource;
use crate::protocol::catalog::fence::CutOver;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::settings::Gates;
use crate::protocol::catalog::strong::hydrate::Reader;
use crate::protocol::catalog::strong::plan::Rules;
use crate::protocol::config::CatalogRelease;
use caller::Caller;
use depot::Depot;
use path::OfTable;
use path::Route;
use reply::Reply;
pub use reply::refused;
use state::State;
use strong::Explanation;
use strong::Strong;

/// Bytes of the largest body that is read.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of the largest body of a rename.
const RENAME_BYTES_MAX: usize = 16 << 10;

/// The routes that clients are told of, in every backing.
const ENDPOINTS: [&str; 19] = [
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
];
/// Those that a durable-strong catalog has besides.
const STRONG_ENDPOINTS: [&str; 2] =
    ["POST /v1/{prefix}/namespaces/{namespace}/properties", "POST /v1/{prefix}/tables/rename"];

/// The catalog of one node.
pub struct Catalog {
    depot: Depot,
    principals: Principals,
    rights: Arc<Rights>,
    settings: CatalogSettings,
    region: &'static str,
    strong: Strong,
    /// Whether the durable-strong state was found migrated whole.
    opened: AtomicBool,
    /// One opening at a time.
    opening: tokio::sync::Mutex<()>,
}

impl Catalog {
    /// Serves the catalog that lies in `store`.
    pub fn new(
        store: Arc<Store>,
        principals: Principals,
        rights: Arc<Rights>,
        settings: CatalogSettings,
        region: &'static str,
    ) -> Self {
        let depot = Depot::new(store, settings.config.release);
        let history_max = settings.config.commit_history_per_table;
        let knows_collisions = settings.config.release.knows_collisions();
        let keeps_version = depot.store().rules().keeps_snapshot_version();
        let rules = Rules::new(gates(&settings));
        let bytes_max = settings.config.snapshot_bytes_max;
        let rules = Rules { history_max, knows_collisions, keeps_version, bytes_max, ..rules };
        let strong = Strong::new(depot.clone(), rules);
        let (opened, opening) = (AtomicBool::new(false), tokio::sync::Mutex::default());
        Self { depot, principals, rights, settings, region, strong, opened, opening }
    }

    /// Answers one request.
    pub async fn answer(&self, head: &Parts, body: &[u8]) -> Response<Bytes> {
        let (changes, is_head) = (path::changes(&head.method), head.method == Method::HEAD);
        let route = match Route::of(head.uri.path()) {
            Ok(route) => route,
            Err(refusal) => return reply::written(Err(refusal), changes, is_head),
        };
        let caller = match Caller::of(&self.principals, self.region, head, body) {
            Ok(caller) => caller,
            Err(refused) => return *refused,
        };
        let Some(needed) = needed(&head.method, &route) else {
            let text = format!("{} {} is no route", head.method, head.uri.path());
            return reply::refused(501, "RESTException", &text, is_head);
        };
        let query = head.uri.query();
        let done = Box::pin(self.done(&caller, needed, &head.method, route, query, body)).await;
        if let Err(refusal) = &done {
            tracing::debug!(path = head.uri.path(), class = ?refusal.class, %refusal, "refused");
        }
        reply::written(done, changes, is_head)
    }

    async fn done(
        &self,
        caller: &Caller,
        needed: Needed,
        method: &Method,
        route: Route,
        query: Option<&str>,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        self.permit(caller, needed, &route)?;
        let query = path::parameters(query.unwrap_or_default())?;
        if let Some(bucket) = warehouse(&route)
            && !matches!((&route, method), (Route::Bucket(_), &Method::PUT))
        {
            self.check_table_bucket(bucket).await?;
        }
        match (method, route) {
            (_, Route::Config) => self.config(&query),
            (&Method::PUT, Route::Bucket(bucket)) => self.enable_bucket(&bucket).await,
            (_, Route::Bucket(bucket)) => self.bucket(&bucket).await,
            (&Method::POST, Route::Namespaces(bucket)) => {
                self.create_namespace(&bucket, body).await
            }
            (_, Route::Namespaces(bucket)) => self.list_namespaces(&bucket, &query).await,
            (&Method::DELETE, Route::Namespace(bucket, name)) => {
                self.drop_namespace(&bucket, &name).await
            }
            (&Method::HEAD, Route::Namespace(bucket, name)) => {
                self.load_namespace(&bucket, &name).await.map(|_| Reply::Empty)
            }
            (_, Route::Namespace(bucket, name)) => self.load_namespace(&bucket, &name).await,
            (_, Route::Properties(bucket, name)) => {
                self.change_properties(&bucket, &name, body).await
            }
            (&Method::POST, Route::Tables(bucket, of)) => {
                self.create_table(&bucket, &of, body).await
            }
            (_, Route::Tables(bucket, of)) => self.list_tables(&bucket, &of, &query).await,
            (_, Route::Register(bucket, of)) => self.register_table(&bucket, &of, body).await,
            (_, Route::Table(bucket, name, of)) => {
                Box::pin(self.of_table(caller, method, &bucket, &name, of, &query, body)).await
            }
            (_, Route::Rename(bucket)) => self.rename_table(caller, &bucket, body).await,
            (&Method::POST, Route::Views(bucket, of)) => self.create_view(&bucket, &of, body).await,
            (_, Route::Views(bucket, of)) => self.list_views(&bucket, &of, &query).await,
            (&Method::POST, Route::View(bucket, name)) => {
                self.replace_view(&bucket, &name, body).await
            }
            (&Method::DELETE, Route::View(bucket, name)) => {
                self.drop_view(&bucket, &name, &query).await
            }
            (&Method::HEAD, Route::View(bucket, name)) => self.has_view(&bucket, &name).await,
            (_, Route::View(bucket, name)) => self.load_view(&bucket, &name).await,
            (_, Route::Migration(bucket)) => Box::pin(self.migration(method, &bucket)).await,
            (_, Route::NotServed(what)) => {
                Err(Class::Unsupported.because(format!("{what} are not served")))
            }
            (_, Route::Unknown) => Err(Class::Unsupported.because("there is no such route")),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request, taken apart")]
    async fn of_table(
        &self,
        caller: &Caller,
        method: &Method,
        bucket: &str,
        name: &crate::protocol::catalog::name::Identifier,
        of: OfTable,
        query: &[(String, String)],
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        match (method, of) {
            (&Method::POST, OfTable::Itself) => self.commit_table(caller, bucket, name, body).await,
            (&Method::DELETE, OfTable::Itself) => self.drop_table(bucket, name, query).await,
            (&Method::HEAD, OfTable::Itself) => self.has_table(bucket, name).await,
            (_, OfTable::Itself) => self.load_table(bucket, name, query).await,
            (_, OfTable::Credentials) => self.credentials(bucket, name).await,
            (&Method::PUT, OfTable::Location) => self.set_pointer(caller, bucket, name, body).await,
            (_, OfTable::Location) => self.pointer(bucket, name).await,
            (_, OfTable::Export) => self.export(bucket, name).await,
            (_, OfTable::Diagnostics) => self.diagnose(bucket, name).await,
            (_, OfTable::Recovery) => self.recover(bucket, name).await,
            (_, OfTable::Rollback) => self.roll_back(caller, bucket, name, body).await,
            (_, OfTable::Import) => self.import_table(bucket, name, body).await,
        }
    }

    fn config(&self, query: &[(String, String)]) -> Result<Reply, Refusal> {
        let mut defaults = json!({
            "warehouse": "default",
            "rustfs.catalog-endpoint-prefix": "/iceberg/v1",
            "rustfs.catalog-compat-endpoint-prefix": "/_iceberg/v1",
            "rustfs.catalog-backing": Backing::Object.name(),
        });
        if let Some((_, warehouse)) = query.iter().find(|(name, _)| name == "warehouse") {
            if warehouse.is_empty() {
                return Err(Class::Invalid.because("the warehouse is empty"));
            }
            defaults["prefix"] = json!(warehouse);
        }
        let mut overrides = json!({ "namespace-separator": "%1F" });
        let mut endpoints = ENDPOINTS.to_vec();
        if self.settings.backing == Backing::DurableStrong {
            overrides["rustfs.catalog-backing"] = json!(Backing::DurableStrong.name());
            endpoints.extend(STRONG_ENDPOINTS);
        }
        let mut document: Value = json!({ "defaults": defaults, "overrides": overrides });
        document["endpoints"] = json!(endpoints);
        Ok(Reply::json(&document))
    }

    fn permit(&self, caller: &Caller, needed: Needed, route: &Route) -> Result<(), Refusal> {
        let Needed { action, .. } = needed;
        let on = match route {
            Route::Config | Route::Unknown | Route::NotServed(_) => Resource::Everything,
            Route::Bucket(bucket)
            | Route::Namespaces(bucket)
            | Route::Migration(bucket)
            // Both names of a rename stand in its body, and are asked for there.
            | Route::Rename(bucket) => Resource::Warehouse(bucket),
            Route::Namespace(bucket, name)
            | Route::Properties(bucket, name)
            | Route::Tables(bucket, name)
            | Route::Register(bucket, name)
            | Route::Views(bucket, name) => Resource::Namespace(bucket, name),
            Route::Table(bucket, name, _) => Resource::Table(bucket, name),
            Route::View(bucket, name) => Resource::View(bucket, name),
        };
        match action {
            Some(action) => caller.may(action, on),
            None => Ok(()),
        }
    }

    async fn check_table_bucket(&self, bucket: &str) -> Result<(), Refusal> {
        let no_table_bucket =
            || Class::Invalid.because(format!("bucket {bucket} is not enabled for tables"));
        match self.rights.bucket(bucket).await {
            Ok(rights) if rights.is_table_bucket => Ok(()),
            // What was read a moment ago may be older than the request that enabled it.
            Ok(_) => {
                self.rights.forget(bucket);
                match self.rights.bucket(bucket).await {
                    Ok(rights) if rights.is_table_bucket => Ok(()),
                    Ok(_) => Err(no_table_bucket()),
                    Err(error) => Err(depot::unreadable(&error)),
                }
            }
            Err(StoreError::NoSuchBucket(_)) => Err(no_table_bucket()),
            Err(error) => Err(depot::unreadable(&error)),
        }
    }

    fn forget_marker(&self, bucket: &str) {
        self.rights.forget(bucket);
    }

    /// What a request about a bucket sees.
    async fn state(&self, bucket: &str) -> Result<State, Refusal> {
        match self.settings.backing {
            Backing::Object => {
                self.check_current(bucket).await?;
                Ok(State::Object(self.depot.clone()))
            }
            Backing::DurableStrong => {
                self.check_opened().await?;
                let loaded = self.strong.hydrate(Reader::Strong, &Explanation::default()).await?;
                let none = || Class::Damaged.because("there is no strong snapshot");
                Ok(State::Strong(loaded.ok_or_else(none)?))
            }
        }
    }

    /// Refuses to serve object-backed state that a durable-strong process has taken over.
    async fn check_current(&self, bucket: &str) -> Result<(), Refusal> {
        if !self.depot.knows_fences() {
            return Ok(());
        }
        let cut_over = self.depot.read_as(keys::CUT_OVER, CutOver::decode).await?;
        if cut_over.is_none() {
            return Ok(());
        }
        let fence = object::fence(&self.depot, bucket).await?;
        permit::check_current(cut_over.as_ref().map(|it| &it.value), fence.as_ref())?;
        if fence.is_none() && self.depot.stat(&keys::bucket_entry(bucket)).await?.is_none() {
            let text = format!("bucket {bucket} has its tables in the durable-strong catalog only");
            return Err(Class::Unavailable.because(text));
        }
        Ok(())
    }
}

/// What a route needs of its caller.
#[derive(Debug, Clone, Copy)]
struct Needed {
    /// The action; none where the body says more.
    action: Option<Action>,
}

/// What a route needs; nothing where there is no such route.
fn needed(method: &Method, route: &Route) -> Option<Needed> {
    use Action as A;
    let action = match (route, method.as_str()) {
        (Route::Config, "GET") | (Route::Migration(_), "GET") => A::GetTableCatalog,
        (Route::Migration(_), "POST" | "DELETE") => A::MigrateTableCatalog,
        (Route::Bucket(_), "PUT") => A::SetTableBucket,
        (Route::Bucket(_), "GET") => A::GetTableBucket,
        (Route::Namespaces(_), "GET") | (Route::Namespace(..), "GET" | "HEAD") => {
            A::GetTableNamespace
        }
        (Route::Namespaces(_), "POST") => A::SetTableNamespace,
        (Route::Namespace(..), "DELETE") => A::DeleteTableNamespace,
        (Route::Properties(..), "POST") => A::UpdateTableNamespaceProperties,
        (Route::Tables(..), "GET") => A::GetTable,
        (Route::Tables(..), "POST") | (Route::Views(..), "POST") => A::CreateTable,
        (Route::Register(..), "POST") => A::RegisterTable,
        (Route::Rename(_), "POST") => return Some(Needed { action: None }),
        (Route::Views(..), "GET") => A::GetTableMetadata,
        (Route::View(..), "GET") => A::GetTableMetadata,
        (Route::View(..), "HEAD") => A::GetTable,
        (Route::View(..), "POST") => A::CommitTable,
        (Route::View(..), "DELETE") => A::DeleteTable,
        (Route::Table(_, _, of), method) => match (of, method) {
            (OfTable::Itself, "GET") => A::GetTableMetadata,
            (OfTable::Itself, "HEAD") => A::GetTable,
            (OfTable::Itself, "POST") => A::CommitTable,
            (OfTable::Itself, "DELETE") => A::DeleteTable,
            (OfTable::Credentials, "GET") => A::GetTableCredentials,
            (OfTable::Location, "GET") => A::GetTableMetadataLocation,
            (OfTable::Location, "PUT") => A::SetTableMetadataLocation,
            (OfTable::Export | OfTable::Diagnostics, "GET") => A::GetTableMetadata,
            (OfTable::Recovery | OfTable::Rollback, "POST") => A::CommitTable,
            (OfTable::Import, "POST") => A::RegisterTable,
            _ => return None,
        },
        (Route::NotServed(_), _) => return Some(Needed { action: None }),
        _ => return None,
    };
    Some(Needed { action: Some(action) })
}

fn warehouse(route: &Route) -> Option<&str> {
    match route {
        Route::Config | Route::NotServed(_) | Route::Unknown => None,
        Route::Bucket(bucket)
        | Route::Namespaces(bucket)
        | Route::Namespace(bucket, _)
        | Route::Properties(bucket, _)
        | Route::Tables(bucket, _)
        | Route::Register(bucket, _)
        | Route::Table(bucket, _, _)
        | Route::Rename(bucket)
        | Route::Views(bucket, _)
        | Route::View(bucket, _)
        | Route::Migration(bucket) => Some(bucket),
    }
}

/// The gates; a release that reads version 1 only knows none.
fn gates(settings: &CatalogSettings) -> Gates {
    match settings.config.release {
        CatalogRelease::SnapshotV1 => Gates::default(),
        CatalogRelease::Current | CatalogRelease::WithoutFences => settings.gates,
    }
}

/// Unix milliseconds.
fn now_ms() -> i64 {
    i64::try_from(crate::node::peer::client::now_ms()).unwrap_or(i64::MAX)
}

//! The catalog over a store in temporary directories, asked over its routes.

mod cutover;
mod object;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use http::Request;
use serde_json::Value;
use serde_json::json;

use super::Catalog;
use crate::node::config::CatalogSettings;
use crate::node::s3::access::KnownPrincipal;
use crate::node::s3::access::Principals;
use crate::node::s3::rights::Rights;
use crate::node::store::tests::bench::Bench;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::settings::Gates;
use crate::protocol::config::CatalogConfig;
use crate::protocol::object::effect::BucketState;
use crate::sigv4;

const REGION: &str = "us-east-1";
const MIGRATION: &str = "lake1/catalog/migration";
const EVENTS: &str = "lake1/namespaces/sales/tables/events";

/// Somebody who may do some things.
pub const READER: &str = "reader";

/// A deployment with one bucket, and one process's catalog.
pub struct Deployment {
    pub bench: Bench,
    pub catalog: Catalog,
}

/// A store's catalog as a process with these switches has it.
pub fn process(bench: &Bench, backing: Backing, gates: Gates) -> Catalog {
    let config = CatalogConfig::default();
    process_of(bench, CatalogSettings { backing, gates, config })
}

pub fn process_of(bench: &Bench, settings: CatalogSettings) -> Catalog {
    let principal = |actions: &[&str]| KnownPrincipal {
        secret: "secret".to_owned(),
        actions: actions.iter().map(|it| (*it).to_owned()).collect(),
        account: "firedrill".to_owned(),
    };
    let principals = Principals::new(BTreeMap::from([
        ("root".to_owned(), principal(&["*"])),
        (READER.to_owned(), principal(&["admin:GetTableCatalog", "s3:*"])),
    ]));
    let rights = Arc::new(Rights::new(Arc::clone(&bench.store), principals.clone()));
    Catalog::new(Arc::clone(&bench.store), principals, rights, settings, REGION)
}

impl Deployment {
    /// An object-backed one with the table bucket `lake1`, the namespace `sales` and the table `events`.
    pub async fn new() -> Self {
        let bench = Bench::new(4, BucketState::Unversioned).await;
        bench.store.create_bucket("lake1").await.unwrap();
        let catalog = process(&bench, Backing::Object, Gates::default());
        let made = Self { bench, catalog };
        assert_eq!(made.ask("PUT", "buckets/lake1", None).await.0, 200);
        let body = json!({ "namespace": ["sales"], "properties": { "owner": "ops" } });
        assert_eq!(made.ask("POST", "lake1/namespaces", Some(body)).await.0, 200);
        assert_eq!(made.create("events").await.0, 200);
        made
    }

    /// Another process takes over.
    pub fn restart(&mut self, backing: Backing, gates: Gates) {
        self.catalog = process(&self.bench, backing, gates);
    }

    pub async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        ask_as(&self.catalog, "root", method, path, body).await
    }

    pub async fn create(&self, name: &str) -> (u16, Value) {
        let field = json!({ "id": 1, "name": "id", "required": false, "type": "long" });
        let schema = json!({ "type": "struct", "schema-id": 0, "fields": [field] });
        let body = json!({ "name": name, "schema": schema });
        self.ask("POST", "lake1/namespaces/sales/tables", Some(body)).await
    }

    /// Sets a property of `events`.
    pub async fn set(&self, key: &str, more: Value) -> (u16, Value) {
        let update = json!({ "action": "set-properties", "updates": { key: "1" } });
        let mut body = json!({ "requirements": [], "updates": [update] });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.ask("POST", EVENTS, Some(body)).await
    }

    pub async fn pointer(&self) -> (u16, Value) {
        self.ask("GET", &format!("{EVENTS}/metadata-location"), None).await
    }
}

/// A deployment that was cut over and admitted.
pub async fn strong() -> Deployment {
    let mut made = Deployment::new().await;
    made.catalog.backfill("lake1").await.unwrap();
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    made.restart(Backing::DurableStrong, Gates::default());
    made.catalog.admit().await.unwrap();
    made
}

/// Asks over the wire's own form: signed, routed, answered.
pub async fn ask_as(
    catalog: &Catalog,
    who: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let scope = Signed { prefix: "/iceberg/v1", service: "s3tables", region: REGION };
    ask_signed(catalog, who, scope, method, path, body).await
}

/// Under which prefix something is asked, and what for it is signed.
#[derive(Debug, Clone, Copy)]
pub struct Signed {
    pub prefix: &'static str,
    pub service: &'static str,
    pub region: &'static str,
}

/// As [`ask_as`], signed so.
pub async fn ask_signed(
    catalog: &Catalog,
    who: &str,
    signed: Signed,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let body = body.map(|it| serde_json::to_vec(&it).unwrap()).unwrap_or_default();
    let uri = format!("{}/{path}", signed.prefix);
    let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
    let headers = vec![("host".to_owned(), "here".to_owned())];
    let request = sigv4::Request { method, path, query, headers: &headers };
    let now = i64::try_from(crate::node::peer::client::now_ms() / 1_000).unwrap();
    let scope = sigv4::Scope { region: signed.region, service: signed.service, now };
    let credentials =
        sigv4::Credentials { access_key: who.to_owned(), secret_key: "secret".to_owned() };
    let signed = sigv4::sign(&request, sigv4::Payload::of(&body), &credentials, &scope);
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap());
    request = request.uri(&uri).header("host", "here");
    for (name, value) in signed {
        request = request.header(name, value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    let answer = catalog.answer(&head, &body).await;
    let json = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
    (answer.status().as_u16(), json)
}

/// The type of an error.
pub fn kind(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["type"].as_str().unwrap_or_default())
}

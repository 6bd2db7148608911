//! The requests of the wire, each in one place. Pure.

use serde_json::Value;
use serde_json::json;

use super::ask::Ask;
use crate::sigv4;

/// Whose tables: where a catalog is served, and which warehouse.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// `/iceberg/v1` or `/_iceberg/v1`.
    pub prefix: &'a str,
    /// The warehouse: the table bucket's name.
    pub warehouse: &'a str,
}

/// A table or view of a warehouse.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The segments of its namespace.
    pub namespace: &'a [String],
    /// Its name.
    pub name: &'a str,
}

impl At<'_> {
    fn path(&self, rest: &str) -> String {
        format!("{}/{}{rest}", self.prefix, sigv4::encode(self.warehouse, false))
    }

    fn namespace(&self, namespace: &[String], rest: &str) -> String {
        let parts: Vec<_> = namespace.iter().map(|part| sigv4::encode(part, false)).collect();
        self.path(&format!("/namespaces/{}{rest}", parts.join("%1F")))
    }

    fn table(&self, table: Named<'_>, rest: &str) -> String {
        let name = sigv4::encode(table.name, false);
        self.namespace(table.namespace, &format!("/tables/{name}{rest}"))
    }

    /// What the catalog is, for this warehouse.
    pub fn config(&self) -> Ask {
        Ask::new("GET", format!("{}/config", self.prefix)).with("warehouse", self.warehouse)
    }

    /// Whether the bucket is a table bucket.
    pub fn bucket(&self) -> Ask {
        let name = sigv4::encode(self.warehouse, false);
        Ask::new("GET", format!("{}/buckets/{name}", self.prefix))
    }

    /// The namespaces right below `parent`; from the page that `token` names.
    pub fn namespaces(&self, parent: &[String], token: &str) -> Ask {
        let ask = Ask::new("GET", self.path("/namespaces"));
        let ask = if parent.is_empty() { ask } else { ask.with("parent", &parent.join("\u{1f}")) };
        ask.with("pageToken", token)
    }

    /// Makes a namespace.
    pub fn create_namespace(&self, namespace: &[String]) -> Ask {
        let body = json!({"namespace": namespace, "properties": {}});
        Ask::new("POST", self.path("/namespaces")).carrying(body)
    }

    /// Drops a namespace.
    pub fn drop_namespace(&self, namespace: &[String]) -> Ask {
        Ask::new("DELETE", self.namespace(namespace, ""))
    }

    /// The tables of a namespace.
    pub fn tables(&self, namespace: &[String], token: &str) -> Ask {
        Ask::new("GET", self.namespace(namespace, "/tables")).with("pageToken", token)
    }

    /// The views of a namespace.
    pub fn views(&self, namespace: &[String], token: &str) -> Ask {
        Ask::new("GET", self.namespace(namespace, "/views")).with("pageToken", token)
    }

    /// Makes a table with one column.
    pub fn create_table(&self, table: Named<'_>) -> Ask {
        let field = json!({"id": 1, "name": "id", "required": false, "type": "long"});
        let body = json!({
            "name": table.name,
            "schema": {"type": "struct", "schema-id": 0, "fields": [field]},
            "properties": {"format-version": "2"},
        });
        Ask::new("POST", self.namespace(table.namespace, "/tables")).carrying(body)
    }

    /// Drops a table and keeps its files.
    pub fn drop_table(&self, table: Named<'_>) -> Ask {
        Ask::new("DELETE", self.table(table, "")).with("purgeRequested", "false")
    }

    /// The table's metadata.
    pub fn load(&self, table: Named<'_>) -> Ask {
        Ask::new("GET", self.table(table, ""))
    }

    /// The view's metadata.
    pub fn load_view(&self, view: Named<'_>) -> Ask {
        Ask::new("GET", self.view(view))
    }

    /// Makes a view of one column.
    pub fn create_view(&self, view: Named<'_>) -> Ask {
        let field = json!({"id": 1, "name": "id", "required": false, "type": "long"});
        let query = json!({"type": "sql", "sql": "select 1 as id", "dialect": "spark"});
        let body = json!({
            "name": view.name,
            "schema": {"type": "struct", "schema-id": 0, "fields": [field]},
            "view-version": {
                "version-id": 1,
                "timestamp-ms": 1,
                "schema-id": 0,
                "summary": {},
                "default-namespace": view.namespace,
                "representations": [query],
            },
            "properties": {},
        });
        Ask::new("POST", self.namespace(view.namespace, "/views")).carrying(body)
    }

    /// Sets one property of a view.
    pub fn replace_view(&self, view: Named<'_>, name: &str, value: &str) -> Ask {
        let update = json!({"action": "set-properties", "updates": {name: value}});
        let body = json!({"requirements": [], "updates": [update]});
        Ask::new("POST", self.view(view)).carrying(body)
    }

    /// Drops a view.
    pub fn drop_view(&self, view: Named<'_>) -> Ask {
        Ask::new("DELETE", self.view(view))
    }

    fn view(&self, view: Named<'_>) -> String {
        let name = sigv4::encode(view.name, false);
        self.namespace(view.namespace, &format!("/views/{name}"))
    }

    /// The table's pointer, version token and generation.
    pub fn pointer(&self, table: Named<'_>) -> Ask {
        Ask::new("GET", self.table(table, "/metadata-location"))
    }

    /// One commit.
    pub fn commit(&self, table: Named<'_>, body: Value) -> Ask {
        Ask::new("POST", self.table(table, "")).carrying(body)
    }

    /// Everything that the catalog has of the table.
    pub fn export(&self, table: Named<'_>) -> Ask {
        Ask::new("GET", self.table(table, "/catalog/export"))
    }

    /// How the table's commits stand.
    pub fn diagnostics(&self, table: Named<'_>) -> Ask {
        Ask::new("GET", self.table(table, "/catalog/diagnostics"))
    }

    /// Repairs what can be repaired without moving the pointer.
    pub fn recovery(&self, table: Named<'_>) -> Ask {
        let body = json!({"mode": "safe-repair"});
        Ask::new("POST", self.table(table, "/catalog/recovery")).carrying(body)
    }

    /// Rolls the table back to `location`.
    pub fn rollback(&self, table: Named<'_>, location: &str, token: &str) -> Ask {
        let body = json!({"metadata-location": location, "version-token": token});
        Ask::new("POST", self.table(table, "/catalog/rollback")).carrying(body)
    }

    /// Imports the table from `location`.
    pub fn import(&self, table: Named<'_>, location: &str) -> Ask {
        let body = json!({"metadata-location": location, "properties": {}});
        Ask::new("POST", self.table(table, "/catalog/import")).carrying(body)
    }

    /// The bridge to another catalog.
    pub fn external(&self, table: Named<'_>) -> Ask {
        Ask::new("GET", self.table(table, "/catalog/external"))
    }

    /// How the table is maintained.
    pub fn maintenance_config(&self, table: Named<'_>) -> Ask {
        Ask::new("GET", self.table(table, "/maintenance/config"))
    }

    /// Changes how the table is maintained: in the background, by workers whose lease lasts `lease_s` seconds.
    pub fn set_maintenance(&self, table: Named<'_>, background: bool, lease_s: u32) -> Ask {
        let body = json!({
            "version": 1,
            "retain-recent-metadata-files": 2,
            "delete-enabled": false,
            "background-enabled": background,
            "worker-paused": false,
            "worker-lease-timeout-seconds": lease_s,
            "max-retry-attempts": 0,
            "retry-initial-backoff-seconds": 5,
            "retry-max-backoff-seconds": 300,
            "quarantine-enabled": false,
            "quarantine-retention-seconds": 0,
        });
        Ask::new("PUT", self.table(table, "/maintenance/config")).carrying(body)
    }

    /// Lets the scheduler queue a job.
    pub fn schedule(&self, table: Named<'_>, scheduler: &str) -> Ask {
        let body = json!({"scheduler-id": scheduler});
        Ask::new("POST", self.table(table, "/maintenance/scheduler/run")).carrying(body)
    }

    /// Lets a worker take a job.
    pub fn work(&self, table: Named<'_>, worker: &str) -> Ask {
        let body = json!({"worker-id": worker});
        Ask::new("POST", self.table(table, "/maintenance/worker/run")).carrying(body)
    }

    /// The preflight.
    pub fn preflight(&self) -> Ask {
        Ask::new("GET", self.path("/catalog/migration"))
    }

    /// Materialises the warehouse.
    pub fn migrate(&self) -> Ask {
        Ask::new("POST", self.path("/catalog/migration"))
    }

    /// Cancels the migration.
    pub fn cancel(&self) -> Ask {
        Ask::new("DELETE", self.path("/catalog/migration"))
    }

    /// Builds the warehouse prefix index, where the server has a route for it.
    pub fn backfill(&self) -> Ask {
        Ask::new("POST", "/firedrill/v1/catalog/backfill").with("warehouse", self.warehouse)
    }

    /// An object of the table bucket.
    pub fn object(&self, method: &str, key: &str) -> Ask {
        let bucket = sigv4::encode(self.warehouse, false);
        Ask::new(method, format!("/{bucket}/{}", sigv4::encode(key, true)))
    }
}

/// How a node's catalog stands, where it says.
pub fn status() -> Ask {
    Ask::new("GET", "/firedrill/v1/catalog")
}

/// Opens a catalog that started closed to writers.
pub fn admit() -> Ask {
    Ask::new("POST", "/firedrill/v1/catalog/admit")
}

/// All buckets.
pub fn buckets() -> Ask {
    Ask::new("GET", "/")
}

/// The body of a commit that sets one property, with ids by which it can be sent again.
pub fn set_property(name: &str, value: &str, commit_id: &str, key: Option<&str>) -> Value {
    let mut body = json!({
        "requirements": [],
        "updates": [{"action": "set-properties", "updates": {name: value}}],
        "commit-id": commit_id,
    });
    if let Some(key) = key {
        body["idempotency-key"] = json!(key);
    }
    body
}

/// Adds to the body of a commit that the table moves to `location`.
pub fn relocate(body: &mut Value, location: &str) {
    if let Some(updates) = body["updates"].as_array_mut() {
        updates.push(json!({"action": "set-location", "location": location}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_spelt_as_the_wire_has_them() {
        let at = At { prefix: "/iceberg/v1", warehouse: "lake1" };
        let namespace = ["sales".to_owned(), "eu".to_owned()];
        let table = Named { namespace: &namespace, name: "deep" };
        assert_eq!(
            at.pointer(table).words(),
            "GET /iceberg/v1/lake1/namespaces/sales%1Feu/tables/deep/metadata-location"
        );
        assert_eq!(at.migrate().words(), "POST /iceberg/v1/lake1/catalog/migration");
        assert_eq!(at.object("HEAD", "a b/c").path, "/lake1/a%20b/c");
        assert_eq!(at.bucket().path, "/iceberg/v1/buckets/lake1");
        assert_eq!(at.backfill().words(), "POST /firedrill/v1/catalog/backfill?warehouse=lake1");
    }
}

//! Which route a path means, under either prefix.
//!
//! # Sources
//!
//! Specification of the catalog §2.1 (rules 1, 6, 8), §2.4 to §2.6 (routes).

use http::Method;

use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::sigv4;

/// Where the catalog is served.
pub const PREFIXES: [&str; 2] = ["/iceberg/v1", "/_iceberg/v1"];

/// What a path names. The warehouse comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `config`.
    Config,
    /// `buckets/{warehouse}`.
    Bucket(String),
    /// `{warehouse}/namespaces`.
    Namespaces(String),
    /// `{warehouse}/namespaces/{namespace}`.
    Namespace(String, Namespace),
    /// `…/properties`.
    Properties(String, Namespace),
    /// `…/tables`.
    Tables(String, Namespace),
    /// `…/register`.
    Register(String, Namespace),
    /// `…/tables/{table}`, or something of it.
    Table(String, Identifier, OfTable),
    /// `{warehouse}/tables/rename`.
    Rename(String),
    /// `…/views`.
    Views(String, Namespace),
    /// `…/views/{view}`.
    View(String, Identifier),
    /// `{warehouse}/catalog/migration`.
    Migration(String),
    /// A route of other catalogs that this one does not serve.
    NotServed(&'static str),
    /// No route.
    Unknown,
}

/// What of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfTable {
    /// The table.
    Itself,
    /// `credentials`.
    Credentials,
    /// `metadata-location`.
    Location,
    /// `catalog/export`.
    Export,
    /// `catalog/diagnostics`.
    Diagnostics,
    /// `catalog/recovery`.
    Recovery,
    /// `catalog/rollback`.
    Rollback,
    /// `catalog/import`.
    Import,
}

impl Route {
    /// The route of a path as it was sent.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] for a name that is none.
    pub fn of(path: &str) -> Result<Self, Refusal> {
        let Some(rest) = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix)) else {
            return Ok(Self::Unknown);
        };
        let Some(rest) = rest.strip_prefix('/') else { return Ok(Self::Unknown) };
        let parts: Vec<String> = rest.split('/').map(decoded).collect::<Result<_, _>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(match *parts {
            ["config"] => Self::Config,
            ["buckets", warehouse] if !warehouse.is_empty() => Self::Bucket(warehouse.into()),
            [warehouse, "catalog", "migration"] => Self::Migration(warehouse.into()),
            [warehouse, "tables", "rename"] => Self::Rename(warehouse.into()),
            [warehouse, "namespaces"] => Self::Namespaces(warehouse.into()),
            [warehouse, "namespaces", namespace, ref below @ ..] => {
                Self::below(warehouse, Namespace::from_path(namespace)?, below)?
            }
            [_, "transactions", "commit"] => Self::NotServed("multi-table transactions"),
            [_, "maintenance", ..] => Self::NotServed("table maintenance"),
            _ => Self::Unknown,
        })
    }

    fn below(warehouse: &str, namespace: Namespace, below: &[&str]) -> Result<Self, Refusal> {
        let warehouse = warehouse.to_owned();
        Ok(match *below {
            [] => Self::Namespace(warehouse, namespace),
            ["properties"] => Self::Properties(warehouse, namespace),
            ["tables"] => Self::Tables(warehouse, namespace),
            ["register"] => Self::Register(warehouse, namespace),
            ["views"] => Self::Views(warehouse, namespace),
            ["views", view] => Self::View(warehouse, Identifier::new(namespace, view)?),
            ["tables", table, ref below @ ..] => {
                let table = Identifier::new(namespace, table)?;
                let of = match *below {
                    [] => OfTable::Itself,
                    ["credentials"] => OfTable::Credentials,
                    ["metadata-location"] => OfTable::Location,
                    ["catalog", "export"] => OfTable::Export,
                    ["catalog", "diagnostics"] => OfTable::Diagnostics,
                    ["catalog", "recovery"] => OfTable::Recovery,
                    ["catalog", "rollback"] => OfTable::Rollback,
                    ["catalog", "import"] => OfTable::Import,
                    ["catalog", "external", ..] => {
                        return Ok(Self::NotServed("bridges to other catalogs"));
                    }
                    ["refs", ..] => return Ok(Self::NotServed("routes of snapshot references")),
                    ["maintenance", ..] => return Ok(Self::NotServed("table maintenance")),
                    ["plan", ..] | ["tasks"] => return Ok(Self::NotServed("scan planning")),
                    ["metrics"] => return Ok(Self::NotServed("reports of metrics")),
                    _ => return Ok(Self::Unknown),
                };
                Self::Table(warehouse, table, of)
            }
            _ => Self::Unknown,
        })
    }
}

/// Whether a request may change something.
pub fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// Names and values of a query. No parameter may stand in it twice.
///
/// # Errors
///
/// [`Class::Invalid`].
pub fn parameters(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let pairs = sigv4::query_pairs(query);
    for (at, (name, _)) in pairs.iter().enumerate() {
        if pairs[..at].iter().any(|(other, _)| other == name) {
            return Err(Class::Invalid.because(format!("parameter {name} is given twice")));
        }
    }
    Ok(pairs)
}

fn decoded(segment: &str) -> Result<String, Refusal> {
    // A segment is no query, but is decoded by the same rules; `&` and `=` never stand in a legal one.
    if segment.contains(['&', '=']) {
        return Err(Class::Invalid.because(format!("path segment {segment:?} names nothing")));
    }
    let mut pairs = sigv4::query_pairs(segment);
    Ok(pairs.pop().map(|(name, _)| name).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_prefixes_lead_to_the_same_routes() {
        let sales = Namespace::from_dotted("sales.eu").unwrap();
        let orders = Identifier::new(sales.clone(), "orders").unwrap();
        for prefix in PREFIXES {
            let route = |path: &str| Route::of(&format!("{prefix}/{path}")).unwrap();
            assert_eq!(route("config"), Route::Config);
            assert_eq!(route("buckets/lake1"), Route::Bucket("lake1".into()));
            assert_eq!(
                route("lake1/namespaces/sales%1Feu"),
                Route::Namespace("lake1".into(), sales.clone())
            );
            assert_eq!(
                route("lake1/namespaces/sales.eu/tables/orders/catalog/recovery"),
                Route::Table("lake1".into(), orders.clone(), OfTable::Recovery)
            );
            // A warehouse may be called like this.
            assert_eq!(route("buckets/catalog/migration"), Route::Migration("buckets".into()));
            assert_eq!(route("lake1/tables/rename"), Route::Rename("lake1".into()));
            for unknown in ["", "lake1", "lake1/other", "config/x", "lake1/namespaces/a/b/c"] {
                assert_eq!(route(unknown), Route::Unknown, "{unknown}");
            }
            for not_served in ["lake1/namespaces/a/tables/t/refs/main", "lake1/transactions/commit"]
            {
                assert!(matches!(route(not_served), Route::NotServed(_)), "{not_served}");
            }
            for bad in ["lake1/namespaces/Sales", "lake1/namespaces/a/tables/%2F", "x/namespaces/"]
            {
                let refused = Route::of(&format!("{prefix}/{bad}")).unwrap_err();
                assert_eq!(refused.class, Class::Invalid, "{bad}");
            }
        }
        assert_eq!(Route::of("/iceberg/v2/config").unwrap(), Route::Unknown);
    }

    #[test]
    fn a_parameter_stands_once() {
        assert!(parameters("a=1&b=2").is_ok());
        assert_eq!(parameters("a=1&a=1").unwrap_err().class, Class::Invalid);
    }
}

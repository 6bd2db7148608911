//! How the servers are reached, and who asks. Secrets come from the environment or files, never from the command line.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::runtime;

use crate::harness::operator::catalog::ask::By;
use crate::harness::operator::catalog::client;
use crate::harness::operator::catalog::client::Reach;
use crate::harness::operator::catalog::error::CatalogError;
use crate::harness::operator::catalog::orders::Orders;
use crate::harness::operator::catalog::orders::Rehearsal;
use crate::sigv4::Credentials;

/// Where the catalog is.
#[derive(Debug, Clone, Args)]
pub struct ReachArgs {
    /// A node, as http://HOST:PORT (again for each of them: what has to hold, has to hold on all)
    #[arg(long = "endpoint", value_name = "URL", required = true)]
    pub endpoints: Vec<String>,
    /// A warehouse: the name of a table bucket (again for each of them)
    #[arg(long = "warehouse", value_name = "NAME", required = true)]
    pub warehouses: Vec<String>,
    /// Below which path the catalog is served
    #[arg(long, value_name = "PATH", default_value = "/iceberg")]
    pub prefix: String,
    /// Which service name requests of the catalog are signed with
    #[arg(long, value_name = "s3|s3tables", default_value = "s3")]
    pub service: String,
    /// The region to sign for (default: the variable AWS_REGION, else us-east-1)
    #[arg(long)]
    pub region: Option<String>,
    /// A file with the lines AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=… (default: these variables)
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// How long an answer may take; a migration of many tables takes its time
    #[arg(long, default_value_t = 300_000)]
    pub timeout_ms: u64,
}

const KEY: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";

impl ReachArgs {
    /// How the servers are reached by the operator.
    pub fn reach(&self) -> Result<Reach, CatalogError> {
        let nodes = self.endpoints.iter().map(|it| client::address(it));
        let nodes = nodes.collect::<Result<Vec<_>, _>>().map_err(CatalogError::Usage)?;
        if !matches!(&*self.service, "s3" | "s3tables") {
            let words = format!("--service {} is neither s3 nor s3tables", self.service);
            return Err(CatalogError::Usage(words));
        }
        let operator = match &self.credentials {
            Some(file) => from_file(file)?,
            None => from_environment()?,
        };
        let region = self.region.clone().or_else(|| std::env::var("AWS_REGION").ok());
        Ok(Reach {
            nodes,
            service: self.service.clone(),
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
            timeout: Duration::from_millis(self.timeout_ms.max(1)),
            starting: Duration::from_secs(120),
            credentials: BTreeMap::from([(By::Operator, operator)]),
        })
    }

    /// Orders for these warehouses, which change nothing.
    pub fn orders(&self, rehearsal: Rehearsal) -> Result<Orders, CatalogError> {
        let prefix = match self.prefix.trim_end_matches('/') {
            "/iceberg" | "/iceberg/v1" => "/iceberg/v1",
            "/_iceberg" | "/_iceberg/v1" => "/_iceberg/v1",
            other => {
                let words = format!("--prefix {other} is neither /iceberg nor /_iceberg");
                return Err(CatalogError::Usage(words));
            }
        };
        Ok(Orders {
            rehearsal,
            run_id: uuid::Uuid::new_v4().hyphenated().to_string(),
            prefix: prefix.to_owned(),
            nodes: self.endpoints.len(),
            warehouses: self.warehouses.iter().cloned().collect(),
            execute: false,
            backup: None,
            table: None,
            writers: 8,
            iterations: 50,
            hooks: BTreeMap::new(),
            done: BTreeSet::new(),
            stop_before: None,
            has_principals: false,
            fresh_drives: Vec::new(),
            program: std::env::current_exe().ok(),
        })
    }
}

fn from_environment() -> Result<Credentials, CatalogError> {
    let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (read(KEY), read(SECRET)) {
        (Some(access_key), Some(secret_key)) => Ok(Credentials { access_key, secret_key }),
        _ => Err(CatalogError::Usage(format!(
            "there are no credentials: set {KEY} and {SECRET}, or name a file with --credentials"
        ))),
    }
}

/// Reads credentials from a file of lines NAME=VALUE.
pub fn from_file(path: &Path) -> Result<Credentials, CatalogError> {
    let text = fs::read_to_string(path).map_err(CatalogError::io("read", path))?;
    let find = |name: &str| {
        let mut pairs = text.lines().filter_map(|line| line.trim().split_once('='));
        let found = pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().trim_matches('"').to_owned())
    };
    match (find(KEY), find(SECRET)) {
        (Some(access_key), Some(secret_key)) => Ok(Credentials { access_key, secret_key }),
        _ => {
            let path = path.display();
            let words = format!("{path} does not have the lines {KEY}=… and {SECRET}=…");
            Err(CatalogError::Usage(words))
        }
    }
}

/// A runtime for waiting on sockets and commands.
pub fn runtime() -> Result<runtime::Runtime, CatalogError> {
    let built = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(CatalogError::io("start", Path::new("a runtime")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_from_lines_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, "# mine\naws_access_key_id = a\nAWS_SECRET_ACCESS_KEY=\"s=1\"\n").unwrap();
        let read = from_file(&path).unwrap();
        assert_eq!((read.access_key.as_str(), read.secret_key.as_str()), ("a", "s=1"));
        assert!(!format!("{read:?}").contains("s=1"));
        fs::write(&path, "AWS_ACCESS_KEY_ID=a\n").unwrap();
        assert!(from_file(&path).is_err());
    }
}

//! The metadata of a view: one document, and what can be asked of it.

use iceberg::spec::ViewMetadata;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use crate::iceberg::Trouble;
use crate::iceberg::kept;
use crate::iceberg::limits;
use crate::iceberg::shown;
use crate::iceberg::shown::read;

/// The metadata of a view that was found whole.
#[derive(Debug, Clone)]
pub struct View {
    pub(super) document: Map<String, Value>,
    /// The crate's view of it.
    pub(super) seen: ViewMetadata,
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document
    }
}

impl View {
    /// Reads the plain bytes of a metadata file.
    ///
    /// # Errors
    /// `Invalid` when it is too large, no JSON, or not whole; `Unsupported` for another format version than 1.
    pub fn parse(bytes: &[u8]) -> Result<Self, Trouble> {
        if bytes.len() > limits::METADATA_BYTES_MAX {
            return Err(Trouble::invalid("the view metadata is larger than 50 MiB"));
        }
        let document = serde_json::from_slice(bytes)
            .map_err(|error| Trouble::invalid(format!("the view metadata is no JSON: {error}")))?;
        Self::from_document(document)
    }

    /// Takes a document that was parsed already.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn from_document(document: Value) -> Result<Self, Trouble> {
        limits::ids_have_room(&document)?;
        let Value::Object(document) = document else {
            return Err(Trouble::invalid("the view metadata is no JSON object"));
        };
        match document.get("format-version").and_then(Value::as_i64) {
            Some(version) => served(version)?,
            None => return Err(Trouble::invalid("the view metadata has no format-version")),
        }
        let lists = [("schemas", "schema-id"), ("versions", "version-id")];
        kept::ids_are_unique(&document, &lists)?;
        let mut shown = document.clone();
        shown::mark(shown.get_mut("version-log"));
        let seen = read("the view metadata", Value::Object(shown))?;
        Ok(Self { document, seen })
    }

    /// The document, for an answer.
    pub fn document(&self) -> Value {
        Value::Object(self.document.clone())
    }

    /// The bytes of its file: the same document is always the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.document).unwrap_or_default()
    }

    /// The view's UUID.
    pub fn uuid(&self) -> Uuid {
        self.seen.uuid()
    }

    /// Where the view's files lie, without a slash at the end.
    pub fn location(&self) -> &str {
        self.seen.location().trim_end_matches('/')
    }

    /// The view's properties.
    pub fn properties(&self) -> Map<String, Value> {
        self.document.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    pub(super) fn list(&self, key: &str) -> &[Value] {
        self.document.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// Refuses a format version that is not served.
pub(super) fn served(version: i64) -> Result<(), Trouble> {
    if version == 1 {
        return Ok(());
    }
    let text = format!("format version {version} of Iceberg views is not served");
    Err(Trouble::unsupported(text))
}

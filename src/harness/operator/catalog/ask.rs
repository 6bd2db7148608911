//! One request as it is meant, and what came of it. Pure.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

/// Which node a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// The first one.
    Any,
    /// The one at this position of the endpoints.
    Node(usize),
}

/// In whose name it is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The operator's.
    Operator,
    /// That of a principal who may do everything inside the table, and nothing else.
    Inside,
    /// That of a principal who may do everything by S3, and nothing that belongs to a table.
    Outside,
    /// Nobody's: it is not signed.
    Nobody,
}

/// What a request carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Nothing.
    Empty,
    /// JSON.
    Json(Value),
    /// The contents of an object.
    Text(String),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The method, in capitals.
    pub method: String,
    /// The path, percent-encoded.
    pub path: String,
    /// Names and values of the query, not encoded.
    pub query: Vec<(String, String)>,
    /// Headers besides those that the signature adds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// What it carries.
    pub body: Body,
    /// Where it goes.
    pub to: To,
    /// Who asks.
    pub by: By,
    /// Whether it is sent again while nothing serves there yet.
    pub waits: bool,
}

impl Ask {
    /// A request of the operator's to the first node, without a body.
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self {
            method: method.to_owned(),
            path: path.into(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Body::Empty,
            to: To::Any,
            by: By::Operator,
            waits: false,
        }
    }

    /// The same with one more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn under(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// The same with a body.
    #[must_use]
    pub fn carrying(self, body: Value) -> Self {
        Self { body: Body::Json(body), ..self }
    }

    /// The same with contents.
    #[must_use]
    pub fn holding(self, text: &str) -> Self {
        Self { body: Body::Text(text.to_owned()), ..self }
    }

    /// The same to another node.
    #[must_use]
    pub fn to(self, node: usize) -> Self {
        Self { to: To::Node(node), ..self }
    }

    /// The same in another name.
    #[must_use]
    pub fn by(self, by: By) -> Self {
        Self { by, ..self }
    }

    /// The same, patient with a node that is just starting.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Whether it may change something.
    pub fn changes(&self) -> bool {
        !matches!(&*self.method, "GET" | "HEAD")
    }

    /// It in a few words: method, path and query.
    pub fn words(&self) -> String {
        let mut words = format!("{} {}", self.method, self.path);
        for (index, (name, value)) in self.query.iter().enumerate() {
            words += if index == 0 { "?" } else { "&" };
            words += &format!("{name}={value}");
        }
        words
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not done.
    Refused,
    /// Nobody can tell.
    Unknown,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The status; `None` when there was no whole answer.
    pub status: Option<u16>,
    /// The body: JSON, else a string, else null.
    pub body: Value,
    /// What it means.
    pub outcome: Outcome,
    /// Why there is no answer, or the server's own words about an error.
    pub words: String,
}

impl Told {
    /// A whole answer. Success is done; a status that a client of the catalog has to take for "commit state unknown"
    /// is unknown where the request may change something; anything else is refused.
    pub fn answered(ask: &Ask, status: u16, body: Value) -> Self {
        let outcome = match status {
            200..=299 => Outcome::Done,
            408 | 500 | 502 | 504 if ask.changes() => Outcome::Unknown,
            _ => Outcome::Refused,
        };
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let words = match outcome {
            Outcome::Done => String::new(),
            _ => match (text("/error/type"), text("/error/message"), text("/error")) {
                (Some(kind), Some(message), _) => format!("{kind}: {message}"),
                (_, Some(message), _) | (_, None, Some(message)) => message.to_owned(),
                _ => body.as_str().unwrap_or_default().chars().take(200).collect(),
            },
        };
        Self { status: Some(status), body, outcome, words }
    }

    /// No answer at all: the connection was refused, so that nothing was executed.
    pub fn nobody() -> Self {
        let words = "the connection was refused".to_owned();
        Self { status: None, body: Value::Null, outcome: Outcome::Refused, words }
    }

    /// No whole answer.
    pub fn lost(words: impl Into<String>) -> Self {
        Self { status: None, body: Value::Null, outcome: Outcome::Unknown, words: words.into() }
    }
}

/// A request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The request.
    pub ask: Ask,
    /// What came back.
    pub told: Told,
}

impl Heard {
    /// The status, 0 when there was no answer.
    pub fn status(&self) -> u16 {
        self.told.status.unwrap_or_default()
    }

    /// A text of the answer, by JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.told.body.pointer(pointer)?.as_str()
    }

    /// A number of the answer.
    pub fn number(&self, pointer: &str) -> Option<u64> {
        self.told.body.pointer(pointer)?.as_u64()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_means_what_a_client_of_the_catalog_takes_it_for() {
        let commit = Ask::new("POST", "/iceberg/v1/lake/namespaces/a/tables/t");
        let load = Ask::new("GET", "/iceberg/v1/lake/namespaces/a/tables/t");
        for (ask, status, outcome) in [
            (&commit, 200, Outcome::Done),
            (&commit, 204, Outcome::Done),
            (&commit, 400, Outcome::Refused),
            (&commit, 403, Outcome::Refused),
            (&commit, 409, Outcome::Refused),
            (&commit, 501, Outcome::Refused),
            (&commit, 503, Outcome::Refused),
            (&commit, 500, Outcome::Unknown),
            (&commit, 502, Outcome::Unknown),
            (&commit, 504, Outcome::Unknown),
            (&load, 500, Outcome::Refused),
        ] {
            assert_eq!(Told::answered(ask, status, Value::Null).outcome, outcome, "{status}");
        }
        assert_eq!(Told::nobody().outcome, Outcome::Refused);
        assert_eq!(Told::lost("").outcome, Outcome::Unknown);
    }

    #[test]
    fn a_servers_words_are_kept_in_either_of_its_forms() {
        let ask = Ask::new("GET", "/x").with("warehouse", "lake");
        let body =
            json!({"error": {"message": "no", "type": "CommitFailedException", "code": 409}});
        assert_eq!(Told::answered(&ask, 409, body).words, "CommitFailedException: no");
        assert_eq!(Told::answered(&ask, 404, json!({"error": "not known"})).words, "not known");
        assert_eq!(Told::answered(&ask, 403, json!("<Error/>")).words, "<Error/>");
        assert_eq!(ask.words(), "GET /x?warehouse=lake");
    }
}

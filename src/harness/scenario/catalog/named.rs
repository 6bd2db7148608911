//! Steps about things of a warehouse that have names of their own: namespaces and views.

use serde::Deserialize;
use serde::Serialize;

use super::Expected;

/// Something about one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnNamespace {
    /// The warehouse.
    pub warehouse: String,
    /// The namespace, with dots between its levels.
    pub namespace: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// What has to come of it.
    #[serde(default)]
    pub expect: Expected,
}

/// Something about one view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnView {
    /// The warehouse.
    pub warehouse: String,
    /// The view, `namespace.name`.
    pub view: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// What has to come of it.
    #[serde(default)]
    pub expect: Expected,
}

/// The levels of a namespace; `None` when one of them is empty.
pub fn split_namespace(namespace: &str) -> Option<Vec<String>> {
    let levels: Vec<String> = namespace.split('.').map(str::to_owned).collect();
    levels.iter().all(|level| !level.is_empty()).then_some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_level_of_a_namespace_is_empty() {
        assert_eq!(split_namespace("a.b"), Some(vec!["a".into(), "b".into()]));
        assert_eq!(split_namespace("a"), Some(vec!["a".into()]));
        for bad in ["", "a.", ".a", "a..b"] {
            assert_eq!(split_namespace(bad), None, "{bad}");
        }
    }
}

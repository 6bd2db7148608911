//! The one place that names serde_yaml: text in, values and their places out.
//!
//! Reading happens twice. A first pass over the parser's events refuses duplicate keys and documents
//! that unfold to more nodes than anybody writes by hand, and notes where each value stands. Then
//! serde reads the values, enums as maps of one key. Every error carries file, line and column.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use saphyr_parser::Event;
use saphyr_parser::Parser;
use saphyr_parser::Span;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of the largest file that is read at all.
const BYTES_MAX: usize = 256 << 10;
/// Nodes of the largest document, aliases unfolded.
const NODES_MAX: usize = 50_000;
/// Nesting of the deepest document.
const DEPTH_MAX: usize = 64;

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

/// Why a file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{}:{}: {message}", position.line, position.column)]
pub struct YamlError {
    /// The file, as the caller named it.
    pub file: String,
    /// Where.
    pub position: Position,
    /// What is wrong.
    pub message: String,
}

/// Where each value of a document stands, by paths such as `steps[2].inject.kill`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    file: String,
    positions: BTreeMap<String, Position>,
}

impl Places {
    /// An error at `path`, or at the closest value that encloses it.
    pub fn error(&self, path: &str, message: impl Into<String>) -> YamlError {
        let position = self.position(path);
        YamlError { file: self.file.clone(), position, message: message.into() }
    }

    /// Where `path`, or the closest value that encloses it, stands.
    pub fn position(&self, path: &str) -> Position {
        let mut path = path;
        loop {
            if let Some(position) = self.positions.get(path) {
                return *position;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return self.positions.get("").copied().unwrap_or(START),
            }
        }
    }
}

/// The beginning of a file.
const START: Position = Position { line: 1, column: 1 };

/// Reads the file at `path`.
///
/// # Errors
/// [`YamlError`], at the file's start when it cannot be read.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, YamlError> {
    let file = path.display().to_string();
    parse(&file, &text_of(path)?)
}

/// The text of the file at `path`.
///
/// # Errors
/// [`YamlError`], at the file's start, when it cannot be read or is larger than anybody writes.
pub fn text_of(path: &Path) -> Result<String, YamlError> {
    let file = path.display().to_string();
    let error = |message| YamlError { file: file.clone(), position: START, message };
    let size = fs::metadata(path).map_err(|cause| error(format!("cannot be read: {cause}")))?.len();
    if size > 64 << 20 {
        return Err(error(format!("is {size} bytes long, of at most {BYTES_MAX}")));
    }
    fs::read_to_string(path).map_err(|cause| error(format!("cannot be read: {cause}")))
}

/// Reads `text`, which errors call `file`.
///
/// # Errors
/// [`YamlError`], with the place of the value that is wrong.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, YamlError> {
    parse_with_places(file, text).map(|(value, _)| value)
}

/// Reads `text` and tells where each value stands, for checks that need several of them.
///
/// # Errors
/// As [`parse`].
pub fn parse_with_places<T: DeserializeOwned>(
    file: &str,
    text: &str,
) -> Result<(T, Places), YamlError> {
    let places = survey(file, text)?;
    let deserializer = serde_yaml::Deserializer::from_str(text);
    let value = serde_yaml::with::singleton_map_recursive::deserialize(deserializer);
    let value = value.map_err(|cause: serde_yaml::Error| {
        let position = cause.location().map_or(START, |location| Position {
            line: location.line().max(1),
            column: location.column().max(1),
        });
        let message = without_place(&cause.to_string());
        YamlError { file: file.to_owned(), position, message }
    })?;
    Ok((value, places))
}

/// Writes `value` as YAML, enums as maps of one key.
///
/// # Errors
/// A sentence, for values that YAML has no words for.
pub fn write<T: Serialize>(value: &T) -> Result<String, String> {
    let mut text = Vec::new();
    let mut serializer = serde_yaml::Serializer::new(&mut text);
    serde_yaml::with::singleton_map_recursive::serialize(value, &mut serializer)
        .map_err(|cause| cause.to_string())?;
    drop(serializer);
    String::from_utf8(text).map_err(|cause| cause.to_string())
}

/// The message without the ` at line L column C` that serde_yaml appends.
fn without_place(message: &str) -> String {
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message.to_owned(),
    }
}

/// One mapping or sequence that is open.
struct Open {
    path: String,
    /// For a mapping: the keys so far, and the key whose value comes next.
    keys: Option<(BTreeSet<String>, Option<String>)>,
    /// Values so far.
    count: usize,
    /// The anchor and the number of nodes before it.
    anchor: usize,
    nodes_before: usize,
}

/// The first pass: places, duplicate keys, and how much the document unfolds to.
fn survey(file: &str, text: &str) -> Result<Places, YamlError> {
    let mut places = Places { file: file.to_owned(), positions: BTreeMap::new() };
    let error = |position, message| Err(YamlError { file: file.to_owned(), position, message });
    if text.len() > BYTES_MAX {
        let mut position = START;
        for character in text[..text.floor_char_boundary(BYTES_MAX)].chars() {
            match character {
                '\n' => position = Position { line: position.line + 1, column: 1 },
                _ => position.column += 1,
            }
        }
        let message = format!("is {} bytes long, of at most {BYTES_MAX}", text.len());
        return error(position, message);
    }
    let mut open: Vec<Open> = Vec::new();
    let mut weights: BTreeMap<usize, usize> = BTreeMap::new();
    let mut nodes = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(cause) => {
                let marker = cause.marker();
                let position = Position { line: marker.line(), column: marker.col() + 1 };
                return error(position, cause.info().to_owned());
            }
        };
        let position = position_of(span);
        match event {
            Event::Scalar(value, _, anchor, _) => {
                nodes += 1;
                if anchor > 0 {
                    weights.insert(anchor, 1);
                }
                if let Some(duplicate) = enter(&mut open, &mut places, position, Some(&value)) {
                    return error(position, format!("duplicate key `{duplicate}`"));
                }
            }
            Event::Alias(anchor) => {
                nodes = nodes.saturating_add(weights.get(&anchor).copied().unwrap_or(1));
                enter(&mut open, &mut places, position, None);
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                let is_mapping = matches!(event, Event::MappingStart(..));
                let path = path_of_next(&open);
                enter(&mut open, &mut places, position, None);
                if open.len() >= DEPTH_MAX {
                    return error(position, format!("is nested more than {DEPTH_MAX} deep"));
                }
                let keys = is_mapping.then(|| (BTreeSet::new(), None));
                open.push(Open { path, keys, count: 0, anchor, nodes_before: nodes });
                nodes += 1;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(closed) = open.pop()
                    && closed.anchor > 0
                {
                    weights.insert(closed.anchor, nodes - closed.nodes_before);
                }
            }
            _ => {}
        }
        if nodes > NODES_MAX {
            return error(position, format!("unfolds to more than {NODES_MAX} values"));
        }
    }
    Ok(places)
}

/// Where an event begins.
fn position_of(span: Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

/// The path of the value that comes next.
fn path_of_next(open: &[Open]) -> String {
    let Some(parent) = open.last() else {
        return String::new();
    };
    match &parent.keys {
        None => format!("{}[{}]", parent.path, parent.count),
        Some((_, key)) => {
            let key = key.as_deref().unwrap_or("?");
            if parent.path.is_empty() { key.to_owned() } else { format!("{}.{key}", parent.path) }
        }
    }
}

/// Counts one value or key of the innermost open collection; answers a key that was there before.
fn enter(
    open: &mut [Open],
    places: &mut Places,
    position: Position,
    scalar: Option<&str>,
) -> Option<String> {
    let path = path_of_next(open);
    let Some(parent) = open.last_mut() else {
        places.positions.entry(path).or_insert(position);
        return None;
    };
    match &mut parent.keys {
        Some((keys, next @ None)) => {
            // A key. One that is a collection or an alias is left to serde, which refuses it.
            let key = scalar.unwrap_or("?").to_owned();
            let is_new = keys.insert(key.clone());
            *next = Some(key.clone());
            let path = path_of_next(open);
            places.positions.entry(path).or_insert(position);
            (!is_new && scalar.is_some()).then_some(key)
        }
        Some((_, next)) => {
            // The place of a value is that of its key, which a reader looks for.
            *next = None;
            parent.count += 1;
            None
        }
        None => {
            parent.count += 1;
            places.positions.entry(path).or_insert(position);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        size: u64,
        #[serde(default)]
        steps: Vec<Step>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Step {
        Kill(Kill),
        Check(Empty),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Kill {
        node: usize,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Empty {}

    fn sample(text: &str) -> Result<Sample, String> {
        parse("a.yaml", text).map_err(|error| error.to_string())
    }

    #[test]
    fn enums_are_maps_of_one_key() {
        let read = sample("size: 3\nsteps:\n  - kill: { node: 1 }\n  - check: {}\n").unwrap();
        assert_eq!(read.steps, [Step::Kill(Kill { node: 1 }), Step::Check(Empty {})]);
    }

    #[test]
    fn a_misspelt_key_is_refused_where_it_stands() {
        let error = sample("size: 3\nsteps:\n  - kill: { nod: 1 }\n").unwrap_err();
        assert!(error.starts_with("a.yaml:3:"), "{error}");
        assert!(error.contains("unknown field `nod`"), "{error}");
    }

    #[test]
    fn a_duplicate_key_is_refused_where_it_stands() {
        let error = sample("size: 3\nsteps: []\nsize: 4\n").unwrap_err();
        assert_eq!(error, "a.yaml:3:1: duplicate key `size`");
        let nested = sample("size: 3\nsteps:\n  - kill: { node: 1, node: 2 }\n").unwrap_err();
        assert!(nested.starts_with("a.yaml:3:22: duplicate key `node`"), "{nested}");
    }

    /// Goal: a few lines whose aliases unfold to billions of values cost neither memory nor time.
    #[test]
    fn aliases_are_unfolded_on_paper_only() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let before = level - 1;
            let list = vec![format!("*a{before}"); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        let error = sample(&text).unwrap_err();
        assert!(error.starts_with("a.yaml:5:"), "{error}");
        assert!(error.contains("unfolds to more than"), "{error}");
    }

    #[test]
    fn ten_megabytes_of_aliases_are_refused_with_a_place() {
        let text = format!("size: &a 1\nsteps: [{}]\n", "*a, ".repeat(10 << 18));
        let error = sample(&text).unwrap_err();
        assert!(error.starts_with("a.yaml:2:"), "{error}");
    }

    #[test]
    fn depth_is_bounded() {
        let error = sample(&"[".repeat(100)).unwrap_err();
        assert!(error.contains("nested"), "{error}");
    }

    #[test]
    fn places_are_found_by_path_and_by_what_encloses_it() {
        let text = "size: 3\nsteps:\n  - kill:\n      node: 1\n";
        let (_, places) = parse_with_places::<Sample>("a.yaml", text).unwrap();
        assert_eq!(places.position("steps[0].kill.node"), Position { line: 4, column: 7 });
        assert_eq!(places.position("steps[0].kill.drives"), Position { line: 3, column: 5 });
        assert_eq!(places.error("size", "no").to_string(), "a.yaml:1:1: no");
    }

    #[test]
    fn what_is_written_is_read_again() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Tree {
            Leaf(u64),
            Branch(Vec<Tree>),
        }
        let tree = Tree::Branch(vec![Tree::Leaf(1), Tree::Branch(Vec::new())]);
        let text = write(&tree).unwrap();
        assert!(!text.contains('!'), "tags are not for people: {text}");
        assert_eq!(parse::<Tree>("tree", &text).unwrap(), tree);
    }
}

//! Bucket policies: read, held against what can be judged, and judged.
//!
//! What a policy says and is not understood here is refused when it is set, so that no statement is passed over
//! when it matters.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Who;
use super::operator::Condition;
use super::operator::Operator;
use super::operator::matches;

/// The most bytes of a policy.
const BYTES_MAX: usize = 20 << 10;
const ARN: &str = "arn:aws:s3:::";

/// What a policy says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Nothing.
    Silent,
    /// It is allowed.
    Allow,
    /// It is denied, whatever else allows it.
    Deny,
}

/// Why a policy is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyFault {
    /// It is no policy of this bucket.
    Malformed(String),
    /// It asks for something that is not judged here.
    Unsupported(String),
}

/// A policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    statements: Vec<Statement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Statement {
    denies: bool,
    principals: Vec<String>,
    /// Whether it is about everybody but those.
    not_principals: bool,
    actions: Vec<String>,
    not_actions: bool,
    resources: Vec<String>,
    not_resources: bool,
    conditions: Vec<Condition>,
}

/// What a request asks for.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Who asks.
    pub who: Who<'a>,
    /// The action, `s3:GetObject`.
    pub action: &'a str,
    /// The bucket.
    pub bucket: &'a str,
    /// The key, when it is about an object.
    pub key: Option<&'a str>,
    /// What conditions can ask for, by their keys in lowercase.
    pub facts: BTreeMap<String, String>,
}

/// Prefixes of the condition keys that ask for an object's tags, in lowercase.
const EXISTING_TAG: &str = "s3:existingobjecttag/";
const REQUEST_TAG: &str = "s3:requestobjecttag/";
/// Condition keys that are answered, in lowercase.
const KEYS: [&str; 14] = [
    "aws:currenttime",
    "aws:epochtime",
    "aws:referer",
    "aws:sourceip",
    "aws:useragent",
    "aws:username",
    "aws:securetransport",
    "s3:prefix",
    "s3:delimiter",
    "s3:max-keys",
    "s3:versionid",
    "s3:if-match",
    "s3:if-none-match",
    "s3:signatureversion",
];

impl Policy {
    /// Reads a policy of `bucket`.
    ///
    /// # Errors
    ///
    /// [`PolicyFault`].
    pub fn parse(text: &str, bucket: &str) -> Result<Self, PolicyFault> {
        let malformed = |why: &str| PolicyFault::Malformed(why.to_owned());
        if text.len() > BYTES_MAX {
            return Err(malformed("it is longer than 20 KiB"));
        }
        let json: Value =
            serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
        let json = json.as_object().ok_or_else(|| malformed("it is no JSON object"))?;
        let version = json.get("Version").map_or(Some("2012-10-17"), Value::as_str);
        if !matches!(version, Some("2012-10-17" | "2008-10-17")) {
            return Err(malformed("its version is unknown"));
        }
        if json.keys().any(|key| !["Version", "Id", "Statement"].contains(&key.as_str())) {
            return Err(malformed("it has a field that policies do not have"));
        }
        let statements = match json.get("Statement") {
            Some(Value::Array(statements)) if !statements.is_empty() => statements.clone(),
            Some(one @ Value::Object(_)) => vec![one.clone()],
            _ => return Err(malformed("it has no statements")),
        };
        let statements = statements.iter().map(|one| Statement::parse(one, bucket));
        Ok(Self { statements: statements.collect::<Result<_, _>>()? })
    }

    /// What it says of a request: a denial outranks everything.
    pub fn judge(&self, ask: &Ask<'_>) -> Word {
        let mut word = Word::Silent;
        for statement in self.statements.iter().filter(|it| it.is_about(ask)) {
            if statement.denies {
                return Word::Deny;
            }
            word = Word::Allow;
        }
        word
    }

    /// Whether the tags that an object has matter.
    pub fn asks_for_tags(&self) -> bool {
        let mut conditions = self.statements.iter().flat_map(|it| &it.conditions);
        conditions.any(|condition| condition.key.starts_with(EXISTING_TAG))
    }

    /// Whether it allows something to everybody.
    pub fn is_public(&self) -> bool {
        self.statements.iter().any(|it| {
            !it.denies
                && !it.not_principals
                && it.principals.iter().any(|name| name == "*")
                && it.conditions.is_empty()
        })
    }
}

impl Statement {
    fn parse(json: &Value, bucket: &str) -> Result<Self, PolicyFault> {
        let malformed = |why: String| PolicyFault::Malformed(why);
        let json = json.as_object().ok_or_else(|| malformed("a statement is no object".into()))?;
        const FIELDS: [&str; 9] = [
            "Sid",
            "Effect",
            "Principal",
            "NotPrincipal",
            "Action",
            "NotAction",
            "Resource",
            "NotResource",
            "Condition",
        ];
        if let Some(key) = json.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            return Err(malformed(format!("statements have no field {key}")));
        }
        let denies = match json.get("Effect").and_then(Value::as_str) {
            Some("Allow") => false,
            Some("Deny") => true,
            _ => return Err(malformed("an effect is Allow or Deny".into())),
        };
        let either = |name: &str| match (json.get(name), json.get(&format!("Not{name}"))) {
            (Some(value), None) => Ok((value, false)),
            (None, Some(value)) => Ok((value, true)),
            _ => Err(malformed(format!("a statement has one {name}"))),
        };
        let (principals, not_principals) = either("Principal")?;
        let (actions, not_actions) = either("Action")?;
        let (resources, not_resources) = either("Resource")?;
        let principals = principals_of(principals)?;
        let actions = texts(actions)?;
        for action in &actions {
            let known =
                |one: &&str| matches(&action.to_ascii_lowercase(), &one.to_ascii_lowercase());
            if !ACTIONS.iter().any(known) {
                return Err(malformed(format!("the action {action} is unknown")));
            }
        }
        let resources = texts(resources)?;
        for resource in &resources {
            let place = resource.strip_prefix(ARN);
            let place = place.ok_or_else(|| malformed(format!("{resource} is no resource")))?;
            if !matches(place.split('/').next().unwrap_or_default(), bucket) {
                return Err(malformed(format!("{resource} is not about this bucket")));
            }
        }
        let conditions = match json.get("Condition") {
            None => Vec::new(),
            Some(conditions) => conditions_of(conditions)?,
        };
        Ok(Self {
            denies,
            principals,
            not_principals,
            actions,
            not_actions,
            resources,
            not_resources,
            conditions,
        })
    }

    fn is_about(&self, ask: &Ask<'_>) -> bool {
        let resource = match ask.key {
            Some(key) => format!("{ARN}{}/{key}", ask.bucket),
            None => format!("{ARN}{}", ask.bucket),
        };
        let action = ask.action.to_ascii_lowercase();
        let about = |found: bool, not: bool| found != not;
        about(self.principals.iter().any(|name| is_principal(name, ask.who)), self.not_principals)
            && about(
                self.actions.iter().any(|it| matches(&it.to_ascii_lowercase(), &action)),
                self.not_actions,
            )
            && about(self.resources.iter().any(|it| matches(it, &resource)), self.not_resources)
            && self.conditions.iter().all(|condition| condition.holds(&ask.facts))
    }
}

fn conditions_of(json: &Value) -> Result<Vec<Condition>, PolicyFault> {
    let malformed =
        || PolicyFault::Malformed("a condition is an operator with keys and values".into());
    let mut conditions = Vec::new();
    for (name, pairs) in json.as_object().ok_or_else(malformed)? {
        let operator = Operator::named(name)
            .ok_or_else(|| PolicyFault::Unsupported(format!("the operator {name}")))?;
        for (key, values) in pairs.as_object().ok_or_else(malformed)? {
            let key = match key.split_once('/') {
                // A tag's own key keeps its case.
                Some((kind, tag)) => format!("{}/{tag}", kind.to_ascii_lowercase()),
                None => key.to_ascii_lowercase(),
            };
            let answered = KEYS.contains(&key.as_str())
                || key.starts_with("s3:x-amz-")
                || key.starts_with(EXISTING_TAG)
                || key.starts_with(REQUEST_TAG);
            if !answered {
                return Err(PolicyFault::Unsupported(format!("the condition key {key}")));
            }
            let strange = |value| PolicyFault::Malformed(format!("{name} cannot take {value}"));
            conditions.push(Condition::new(operator, key, texts(values)?).map_err(strange)?);
        }
    }
    Ok(conditions)
}

fn principals_of(json: &Value) -> Result<Vec<String>, PolicyFault> {
    let malformed = || PolicyFault::Malformed("a principal is * or one of AWS".into());
    if json.as_str() == Some("*") {
        return Ok(vec!["*".to_owned()]);
    }
    let kinds = json.as_object().filter(|kinds| !kinds.is_empty()).ok_or_else(malformed)?;
    let mut principals = Vec::new();
    for (kind, names) in kinds {
        if !["AWS", "CanonicalUser"].contains(&kind.as_str()) {
            return Err(PolicyFault::Unsupported(format!("the principal {kind}")));
        }
        principals.extend(texts(names)?);
    }
    Ok(principals)
}

/// Whether a policy's principal is whoever asks: `*`, an account, `arn:aws:iam::ACCOUNT:root`, or
/// `arn:aws:iam::ACCOUNT:user/NAME`.
fn is_principal(named: &str, who: Who<'_>) -> bool {
    let Who::Principal { name, account } = who else { return named == "*" };
    let below = named.strip_prefix("arn:aws:iam::").and_then(|rest| rest.strip_prefix(account));
    named == "*"
        || named == account
        || below == Some(":root")
        || below.and_then(|rest| rest.strip_prefix(":user/")) == Some(name)
}

/// One text or a list of them.
fn texts(json: &Value) -> Result<Vec<String>, PolicyFault> {
    let text = |json: &Value| match json {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let texts = match json {
        Value::Array(list) if !list.is_empty() => list.iter().map(text).collect(),
        one => text(one).map(|text| vec![text]),
    };
    texts.ok_or_else(|| PolicyFault::Malformed("text was expected".into()))
}

/// Actions that a policy can name.
pub const ACTIONS: [&str; 33] = [
    "s3:AbortMultipartUpload",
    "s3:CreateBucket",
    "s3:DeleteBucket",
    "s3:DeleteBucketPolicy",
    "s3:DeleteObject",
    "s3:DeleteObjectTagging",
    "s3:DeleteObjectVersion",
    "s3:DeleteObjectVersionTagging",
    "s3:GetBucketAcl",
    "s3:GetBucketLocation",
    "s3:GetBucketPolicy",
    "s3:GetBucketPolicyStatus",
    "s3:GetBucketTagging",
    "s3:GetBucketVersioning",
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectAttributes",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionTagging",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListBucketVersions",
    "s3:ListMultipartUploadParts",
    "s3:PutBucketAcl",
    "s3:PutBucketPolicy",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutObject",
    "s3:PutObjectAcl",
    "s3:PutObjectTagging",
    "s3:PutObjectVersionTagging",
];

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;

//! Conditions of a policy: an operator, a key, and the values of which one has to fit.
//!
//! What is asked for arrives as text; an operator says what kind of text. A value of a policy that is not of its
//! operator's kind is refused when the policy is set. A fact that is not of that kind fits no value.

// Addresses are values; what opens sockets stays outside.
use core::net::IpAddr;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    operator: Operator,
    /// In lowercase, but for the key of a tag.
    pub(super) key: String,
    values: Vec<String>,
}

/// What a condition does with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operator {
    kind: Kind,
    /// Whether none may fit.
    is_negated: bool,
    /// Whether a fact that is not there will do.
    if_exists: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Equals,
    EqualsIgnoreCase,
    Like,
    Bool,
    Number(Relation),
    Date(Relation),
    Address,
    Null,
}

/// How a fact stands to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    /// The operator with this name; `None` when there is none that is judged here.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (plain, if_exists) = match name.strip_suffix("IfExists") {
            Some(plain) => (plain, true),
            None => (name, false),
        };
        let (kind, is_negated) = match plain {
            "StringEquals" => (Kind::Equals, false),
            "StringNotEquals" => (Kind::Equals, true),
            "StringEqualsIgnoreCase" => (Kind::EqualsIgnoreCase, false),
            "StringNotEqualsIgnoreCase" => (Kind::EqualsIgnoreCase, true),
            "StringLike" => (Kind::Like, false),
            "StringNotLike" => (Kind::Like, true),
            "Bool" => (Kind::Bool, false),
            "IpAddress" => (Kind::Address, false),
            "NotIpAddress" => (Kind::Address, true),
            // That it asks whether something exists is all it does.
            "Null" if !if_exists => (Kind::Null, false),
            _ => {
                let (kind, relation): (fn(Relation) -> Kind, _) = match plain {
                    _ if plain.starts_with("Numeric") => (Kind::Number, &plain[7..]),
                    _ if plain.starts_with("Date") => (Kind::Date, &plain[4..]),
                    _ => return None,
                };
                let (relation, is_negated) = match relation {
                    "Equals" => (Relation::Equal, false),
                    "NotEquals" => (Relation::Equal, true),
                    "LessThan" => (Relation::Less, false),
                    "LessThanEquals" => (Relation::LessOrEqual, false),
                    "GreaterThan" => (Relation::Greater, false),
                    "GreaterThanEquals" => (Relation::GreaterOrEqual, false),
                    _ => return None,
                };
                (kind(relation), is_negated)
            }
        };
        Some(Self { kind, is_negated, if_exists })
    }

    fn takes(self, value: &str) -> bool {
        match self.kind {
            Kind::Equals | Kind::EqualsIgnoreCase | Kind::Like => true,
            Kind::Bool | Kind::Null => matches!(value, "true" | "false"),
            Kind::Number(_) => number(value).is_some(),
            Kind::Date(_) => date(value).is_some(),
            Kind::Address => network(value).is_some(),
        }
    }

    fn fits(self, value: &str, fact: &str) -> bool {
        match self.kind {
            Kind::Equals => value == fact,
            Kind::EqualsIgnoreCase | Kind::Bool => value.eq_ignore_ascii_case(fact),
            Kind::Like => matches(value, fact),
            Kind::Number(relation) => {
                let pair = number(fact).zip(number(value));
                relation.holds(pair.and_then(|(fact, value)| fact.partial_cmp(&value)))
            }
            Kind::Date(relation) => {
                relation.holds(date(fact).zip(date(value)).map(|(fact, value)| fact.cmp(&value)))
            }
            Kind::Address => {
                let pair = network(value).zip(fact.parse::<IpAddr>().ok());
                pair.is_some_and(|((network, bits), fact)| lies_in(fact, network, bits))
            }
            Kind::Null => unreachable!("it is not about the fact's value"),
        }
    }
}

impl Relation {
    fn holds(self, order: Option<Ordering>) -> bool {
        order.is_some_and(|order| match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}

impl Condition {
    /// A condition; the first value that its operator cannot take is the error.
    pub(super) fn new(
        operator: Operator,
        key: String,
        values: Vec<String>,
    ) -> Result<Self, String> {
        match values.iter().find(|value| !operator.takes(value)) {
            Some(value) => Err(value.clone()),
            None => Ok(Self { operator, key, values }),
        }
    }

    /// Whether the facts fit.
    pub(super) fn holds(&self, facts: &BTreeMap<String, String>) -> bool {
        let fact = facts.get(&self.key);
        if self.operator.kind == Kind::Null {
            return self.values.iter().any(|wanted| (wanted == "true") == fact.is_none());
        }
        match fact {
            None => self.operator.if_exists || self.operator.is_negated,
            Some(fact) => {
                let fits = self.values.iter().any(|value| self.operator.fits(value, fact));
                fits != self.operator.is_negated
            }
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Unix seconds and nanoseconds of a time, of the beginning of a day in UTC, or of seconds as such.
fn date(text: &str) -> Option<(i64, i32)> {
    let day = || {
        let day: jiff::civil::Date = text.parse().ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(day.at(0, 0, 0, 0)).ok()
    };
    let seconds = || jiff::Timestamp::from_second(text.parse().ok()?).ok();
    let time = text.parse::<jiff::Timestamp>().ok().or_else(seconds).or_else(day)?;
    Some((time.as_second(), time.subsec_nanosecond()))
}

/// An address, or a network with the length of its prefix.
fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

fn lies_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address.to_canonical(), network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// Whether a pattern with `*` and `?` covers a text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut here, mut star) = (0, 0, None);
    while here < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, here));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[here] => {
                at += 1;
                here += 1;
            }
            _ => match star {
                Some((from, taken)) => {
                    star = Some((from, taken + 1));
                    (at, here) = (from + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a condition holds of a fact, and whether it does without one; `None` when it is refused.
    fn judged(name: &str, value: &str, fact: &str) -> Option<(bool, bool)> {
        let operator = Operator::named(name).expect("a known operator");
        let condition = Condition::new(operator, "k".to_owned(), vec![value.to_owned()]).ok()?;
        let facts = BTreeMap::from([("k".to_owned(), fact.to_owned())]);
        Some((condition.holds(&facts), condition.holds(&BTreeMap::new())))
    }

    #[test]
    fn operators_hold_what_they_say() {
        for (name, value, fact, holds) in [
            ("Bool", "true", "True", true),
            ("Bool", "true", "false", false),
            ("NumericEquals", "10", "10.0", true),
            ("NumericEquals", "10", "ten", false),
            ("NumericLessThan", "10", "9", true),
            ("NumericLessThan", "10", "10", false),
            ("NumericLessThanEquals", "10", "10", true),
            ("NumericGreaterThan", "-1", "0", true),
            ("NumericGreaterThanEquals", "10", "9.5", false),
            ("DateLessThan", "2026-01-01T00:00:00Z", "2025-12-31T23:59:59.9Z", true),
            ("DateGreaterThan", "2026-01-01", "2026-01-01T00:00:00Z", false),
            ("DateGreaterThanEquals", "2026-01-01", "1767225600", true),
            ("DateEquals", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z", true),
            ("IpAddress", "10.1.0.0/16", "10.1.255.3", true),
            ("IpAddress", "10.1.0.0/16", "10.2.0.1", false),
            ("IpAddress", "10.1.2.3", "::ffff:10.1.2.3", true),
            ("IpAddress", "0.0.0.0/0", "192.0.2.1", true),
            ("IpAddress", "2001:db8::/33", "2001:db8:7fff::1", true),
            ("IpAddress", "2001:db8::/33", "2001:db8:8000::1", false),
            ("IpAddress", "::/0", "192.0.2.1", false),
        ] {
            assert_eq!(judged(name, value, fact), Some((holds, false)), "{name} {value} {fact}");
        }
        for (name, value, fact, holds) in [
            ("NumericNotEquals", "10", "10", false),
            ("NumericNotEquals", "10", "x", true),
            ("DateNotEquals", "2026-01-01", "2026-01-02T00:00:00Z", true),
            ("NotIpAddress", "10.0.0.0/8", "10.9.9.9", false),
            ("NumericLessThanIfExists", "5", "6", false),
            ("IpAddressIfExists", "10.0.0.0/8", "10.9.9.9", true),
        ] {
            assert_eq!(judged(name, value, fact), Some((holds, true)), "{name} {value} {fact}");
        }
    }

    #[test]
    fn values_of_another_kind_and_unknown_operators_are_refused() {
        for (name, value) in [
            ("NumericEquals", "ten"),
            ("NumericEquals", "NaN"),
            ("DateLessThan", "tomorrow"),
            ("IpAddress", "10.0.0.0/33"),
            ("IpAddress", "10.0.0/8"),
            ("Bool", "yes"),
            ("Null", ""),
        ] {
            assert_eq!(judged(name, value, ""), None, "{name} {value}");
        }
        for name in [
            "NumericLike",
            "Numeric",
            "DateThan",
            "NullIfExists",
            "ArnLike",
            "ForAnyValue:StringLike",
        ] {
            assert_eq!(Operator::named(name), None, "{name}");
        }
    }
}

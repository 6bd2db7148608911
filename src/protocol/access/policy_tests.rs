//! What policies say, and what they may not say.

use super::*;

const OTHER: Who<'_> = Who::Principal { name: "o", account: "other" };

fn policy(statement: &str) -> Result<Policy, PolicyFault> {
    Policy::parse(&format!(r#"{{"Version":"2012-10-17","Statement":[{statement}]}}"#), "bkt")
}

fn judged(
    statements: &str,
    who: Who<'_>,
    action: &str,
    key: Option<&str>,
    facts: &[(&str, &str)],
) -> Word {
    let facts = facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let ask = Ask { who, action, bucket: "bkt", key, facts };
    policy(statements).expect("a sound policy").judge(&ask)
}

const READ: &str = r#"{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bkt/open/*"}"#;

#[test]
fn a_statement_is_about_its_principals_actions_and_resources() {
    for (who, action, key, word) in [
        (Who::Anyone, "s3:GetObject", Some("open/k"), Word::Allow),
        (OTHER, "s3:GetObject", Some("open/"), Word::Allow),
        (OTHER, "s3:GetObject", Some("shut/k"), Word::Silent),
        (OTHER, "s3:GetObjectTagging", Some("open/k"), Word::Silent),
        (OTHER, "s3:ListBucket", None, Word::Silent),
    ] {
        assert_eq!(judged(READ, who, action, key, &[]), word, "{who:?} {action} {key:?}");
    }
    for (principal, word) in [
        (r#"{"AWS":"arn:aws:iam::other:root"}"#, Word::Allow),
        (r#"{"AWS":["arn:aws:iam::x:root","arn:aws:iam::other:user/o"]}"#, Word::Allow),
        (r#"{"AWS":"arn:aws:iam::other:user/p"}"#, Word::Silent),
        (r#"{"AWS":"arn:aws:iam::oth:root"}"#, Word::Silent),
        (r#"{"CanonicalUser":"other"}"#, Word::Allow),
    ] {
        let statement = READ.replace(r#""*","Action""#, &format!(r#"{principal},"Action""#));
        assert_eq!(
            judged(&statement, OTHER, "s3:GetObject", Some("open/k"), &[]),
            word,
            "{principal}"
        );
        assert_eq!(
            judged(&statement, Who::Anyone, "s3:GetObject", Some("open/k"), &[]),
            Word::Silent
        );
    }
}

#[test]
fn a_denial_outranks_everything() {
    let deny =
        r#"{"Effect":"Deny","Principal":"*","NotAction":"s3:List*","Resource":"arn:aws:s3:::*"}"#;
    for both in [format!("{READ},{deny}"), format!("{deny},{READ}")] {
        assert_eq!(judged(&both, OTHER, "s3:GetObject", Some("open/k"), &[]), Word::Deny);
        assert_eq!(judged(&both, OTHER, "s3:ListBucket", None, &[]), Word::Silent);
    }
}

#[test]
fn conditions_are_held_against_facts() {
    let judge = |condition: &str, facts: &[(&str, &str)]| {
        let statement = READ.replace("/open/*\"", &format!("/*\",\"Condition\":{{{condition}}}"));
        judged(&statement, OTHER, "s3:GetObject", Some("k"), facts) == Word::Allow
    };
    let tag = ("s3:existingobjecttag/Level", "public");
    let is_public = r#""StringEquals":{"s3:ExistingObjectTag/Level":"public"}"#;
    assert!(judge(is_public, &[tag]));
    assert!(!judge(is_public, &[("s3:existingobjecttag/Level", "private")]));
    assert!(
        !judge(is_public, &[("s3:existingobjecttag/level", "public")]),
        "a tag's key has a case"
    );
    assert!(!judge(is_public, &[]));
    let prefix = ("s3:prefix", "a/b");
    for (condition, holds, without) in [
        (r#""StringLike":{"s3:prefix":["x","a/*"]}"#, true, false),
        (r#""StringNotLike":{"s3:prefix":"a/*"}"#, false, true),
        (r#""StringNotEquals":{"s3:prefix":"a/b"}"#, false, true),
        (r#""StringEqualsIgnoreCase":{"s3:prefix":"A/B"}"#, true, false),
        (r#""StringLikeIfExists":{"s3:prefix":"z*"}"#, false, true),
        (r#""Null":{"s3:prefix":"true"}"#, false, true),
        (r#""Null":{"s3:prefix":"false"}"#, true, false),
        (r#""Bool":{"s3:prefix":true}"#, false, false),
        (r#""NumericLessThanIfExists":{"s3:max-keys":9}"#, true, true),
        (r#""IpAddress":{"aws:SourceIp":["10.0.0.0/8","::1"]}"#, false, false),
        (r#""NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}"#, true, true),
        (r#""DateLessThan":{"aws:CurrentTime":"2026-01-01"}"#, false, false),
    ] {
        assert_eq!(judge(condition, &[prefix]), holds, "{condition}");
        assert_eq!(judge(condition, &[]), without, "{condition} without");
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    for (from, to) in [
        ("Allow", "Perhaps"),
        ("s3:GetObject", "s3:NoSuchThing"),
        ("s3:GetObject", "ec2:Run"),
        ("bkt/open/*", "other/*"),
        ("arn:aws:s3:::", ""),
        (r#""Principal":"*","#, ""),
        (r#""Effect""#, r#""Affect":"x","Effect""#),
        ("open/*\"", "open/*\",\"Condition\":\"x\""),
        ("open/*\"", "open/*\",\"Condition\":{\"NumericEquals\":{\"s3:max-keys\":\"x\"}}"),
    ] {
        let refused = policy(&READ.replace(from, to));
        assert!(matches!(refused, Err(PolicyFault::Malformed(_))), "{to}: {refused:?}");
    }
    for condition in [r#""ArnLike":{"aws:username":"9"}"#, r#""StringLike":{"aws:SourceVpc":"x"}"#]
    {
        let refused = policy(&READ.replace("/*\"", &format!("/*\",\"Condition\":{{{condition}}}")));
        assert!(matches!(refused, Err(PolicyFault::Unsupported(_))), "{condition}: {refused:?}");
    }
    for text in ["", "{", "[]", r#"{"Statement":[]}"#, r#"{"Version":"1","Statement":[]}"#] {
        assert!(Policy::parse(text, "bkt").is_err(), "{text}");
    }
    assert!(Policy::parse(&" ".repeat(21 << 10), "bkt").is_err());
}

#[test]
fn patterns_cover_what_they_say() {
    for (pattern, text, covers) in [
        ("*", "", true),
        ("a*c", "abbc", true),
        ("a*c", "abcd", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("*b*b*", "abab", true),
        ("", "a", false),
        ("ü*", "üb", true),
    ] {
        assert_eq!(matches(pattern, text), covers, "{pattern} {text}");
    }
    let open = policy(READ).expect("a sound policy");
    assert!(open.is_public() && !open.asks_for_tags());
}

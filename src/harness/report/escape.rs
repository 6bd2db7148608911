//! Keys, messages and logs are hostile text: what is done to them before a person sees them.
//!
//! HTML is escaped by its templates; everything goes through [`visible`] first.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` with everything that moves a cursor, reverses its direction or hides made visible, such as
/// `\u{1b}`: safe on a terminal and in XML. Line ends stay only where the caller splits them first.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, line and paragraph separators, marks of direction, and what has no width.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{fffe}'
                | '\u{ffff}'
        )
}

/// The parts of a sentence of ours, with whether a part stood between backticks. A backtick without its
/// fellow stays in the text.
pub fn spans(text: &str) -> Vec<(bool, &str)> {
    let mut spans = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('`') {
        let Some(length) = rest[open + 1..].find('`') else {
            break;
        };
        spans.push((false, &rest[..open]));
        spans.push((true, &rest[open + 1..open + 1 + length]));
        rest = &rest[open + length + 2..];
    }
    spans.push((false, rest));
    spans
}

/// A sentence of ours as Markdown: what stands between backticks is code.
pub fn markdown_prose(text: &str) -> String {
    let part = |(is_code, part)| if is_code { markdown_code(part) } else { markdown(part) };
    spans(text).into_iter().map(part).collect()
}

/// `text` for a paragraph or a table cell of Markdown, where it shows as it stands.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in visible(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            // An `@` would call a user of a forge.
            '@' => escaped.push_str("&#64;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// `text` as code of Markdown, in a cell too. A span of backticks would end at the first one in it.
pub fn markdown_code(text: &str) -> String {
    let mut escaped = String::from("<code>");
    for c in visible(text).chars() {
        if c.is_alphanumeric() || " -./,:=+()".contains(c) {
            escaped.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "&#{};", u32::from(c));
        }
    }
    escaped.push_str("</code>");
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_reversed_text_are_made_visible() {
        assert_eq!(visible("plain é <b>"), "plain é <b>");
        assert_eq!(visible("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(visible("a\rb\n\u{202e}c\u{9b}"), "a\\u{d}b\\u{a}\\u{202e}c\\u{9b}");
    }

    #[test]
    fn hostile_keys_end_no_cell_and_begin_no_tag() {
        let key = "<script>&|`*_\n@me";
        let cell = markdown(key);
        assert_eq!(cell, "&lt;script&gt;&amp;\\|\\`\\*\\_\\\\u{a}&#64;me");
        let code = markdown_code(key);
        for c in ['|', '`', '*', '_', '\n', '@'] {
            assert!(!code.contains(c), "{c:?} in {code}");
        }
        assert_eq!(code.matches('<').count(), 2, "only the element's own tags: {code}");
    }
}

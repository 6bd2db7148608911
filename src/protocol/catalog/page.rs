//! Pages of a listing, and the tokens that lead from one to the next.
//!
//! # Sources
//!
//! Specification of the catalog §2.1 rule 9, §1.3 (limits), F49.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Backing;
use crate::value::Digest;

/// The largest page, and the page of whoever gives a token only.
pub const PAGE_SIZE_MAX: usize = 1000;
/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Which listing a token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing<'a> {
    /// `namespaces`, `tables` or `views`.
    pub resource: &'a str,
    /// The warehouse.
    pub warehouse: &'a str,
    /// The namespace (of namespaces: their parent), with dots; empty for the root.
    pub namespace: &'a str,
    /// The backing that lists.
    pub backing: Backing,
}

/// Which part of a listing is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The most entries.
    pub size: usize,
    /// The entry after which it begins, as [`Listing::token`] was given it.
    pub after: Option<String>,
}

/// A token, before it is coded.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    version: u32,
    context: String,
    cursor: String,
}

impl Listing<'_> {
    /// The page that the two parameters ask for; `None` when neither is there, for the whole listing.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`]: no positive integer, or a token that is not of this listing and backing.
    pub fn page(&self, size: Option<&str>, token: Option<&str>) -> Result<Option<Page>, Refusal> {
        if size.is_none() && token.is_none() {
            return Ok(None);
        }
        let size = match size.map(str::parse::<u64>) {
            None => PAGE_SIZE_MAX,
            Some(Ok(size)) if size > 0 => {
                usize::try_from(size).unwrap_or(PAGE_SIZE_MAX).min(PAGE_SIZE_MAX)
            }
            Some(_) => return Err(Class::Invalid.because("the page size is no positive integer")),
        };
        let after = match token {
            None | Some("") => None,
            Some(token) => Some(self.cursor(token)?),
        };
        Ok(Some(Page { size, after }))
    }

    /// The token of the page after `last`, the last entry that was given.
    pub fn token(&self, last: &str) -> String {
        let cursor = format!("{}{last}", self.tag());
        let token = Token { version: 1, context: self.context(), cursor };
        URL_SAFE_NO_PAD.encode(compact(&token))
    }

    fn cursor(&self, token: &str) -> Result<String, Refusal> {
        let refuse = || Class::Invalid.because("the page token is not of this listing");
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refuse());
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refuse())?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
        if token.version != 1 || token.context != self.context() {
            return Err(refuse());
        }
        token.cursor.strip_prefix(self.tag()).map(str::to_owned).ok_or_else(refuse)
    }

    fn context(&self) -> String {
        let text = [self.resource, self.warehouse, self.namespace].join("\0");
        Digest::of(text.as_bytes()).to_string()
    }

    fn tag(&self) -> &'static str {
        match self.backing {
            Backing::Object => "object:",
            Backing::DurableStrong => "strong:",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: Listing<'_> = Listing {
        resource: "tables",
        warehouse: "lake1",
        namespace: "sales",
        backing: Backing::Object,
    };

    #[test]
    fn a_token_is_that_of_released_servers() {
        let key = "s3tables/catalog/table-buckets/3f90a0d00762aa65f05bf571ffee392f782c48f0c8cfc2f463d1a9fef42e2b77/namespaces/sales/tables/events/table-entry.json";
        let theirs = "eyJ2ZXJzaW9uIjoxLCJjb250ZXh0IjoiOGQ1OWZkM2IxNmQyZDU2NjQ5NTdiZTM4ODJhMDVmMDM3ODc5YzA2MTVjNzVmYTJiZTc5MzQ3MTFkMTA5Y2E1YiIsImN1cnNvciI6Im9iamVjdDpzM3RhYmxlcy9jYXRhbG9nL3RhYmxlLWJ1Y2tldHMvM2Y5MGEwZDAwNzYyYWE2NWYwNWJmNTcxZmZlZTM5MmY3ODJjNDhmMGM4Y2ZjMmY0NjNkMWE5ZmVmNDJlMmI3Ny9uYW1lc3BhY2VzL3NhbGVzL3RhYmxlcy9ldmVudHMvdGFibGUtZW50cnkuanNvbiJ9";
        assert_eq!(TABLES.token(key), theirs);
        let page = TABLES.page(Some("1"), Some(theirs)).unwrap().unwrap();
        assert_eq!(page, Page { size: 1, after: Some(key.to_owned()) });
    }

    #[test]
    fn f49_a_token_leads_nowhere_else_than_in_its_listing_and_backing() {
        let token = TABLES.token("x");
        for other in [
            Listing { resource: "views", ..TABLES },
            Listing { warehouse: "lake2", ..TABLES },
            Listing { namespace: "hr", ..TABLES },
            Listing { backing: Backing::DurableStrong, ..TABLES },
        ] {
            assert_eq!(other.page(None, Some(&token)).unwrap_err().class, Class::Invalid);
        }
        assert!(TABLES.page(None, Some("!")).is_err());
        assert!(TABLES.page(None, Some(&"A".repeat(TOKEN_BYTES_MAX + 1))).is_err());
    }

    #[test]
    fn sizes_are_positive_and_capped() {
        assert_eq!(TABLES.page(None, None).unwrap(), None);
        let size = |text: &str| TABLES.page(Some(text), None).map(|page| page.unwrap().size);
        assert_eq!(size("7").unwrap(), 7);
        assert_eq!(size("99999999999999999999").unwrap_err().class, Class::Invalid);
        assert_eq!(size("5000").unwrap(), 1000);
        assert!(size("0").is_err() && size("-1").is_err() && size("x").is_err());
        assert_eq!(TABLES.page(None, Some("")).unwrap().unwrap().after, None);
    }
}

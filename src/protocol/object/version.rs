//! One entry of a key's stack of versions, and the total order of such entries.
//!
//! An entry is what the header of a version says; contents and metadata are elsewhere. The order is
//! total: two different entries are never equal in it, so that every drive and every node, and the
//! same node after a restart, lists them alike.

use std::cmp::Ordering;

use crate::value::VersionId;

/// What a version is. The numbers are the format's, and they order versions of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An object with contents.
    Object = 1,
    /// A delete marker, or a free version.
    Marker = 2,
    /// An object in a form that is only read, never written.
    Legacy = 3,
}

/// One entry of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// Its id; [`VersionId::NULL`] for the null version.
    pub version: VersionId,
    /// Unix nanoseconds; decides the order.
    pub modtime_ns: i64,
    /// Four bytes that depend on everything in the body but the shard number.
    pub signature: [u8; 4],
    /// Object or marker.
    pub kind: Kind,
    /// [`Header::FREE`], [`Header::USES_DATA_DIR`], [`Header::INLINE`].
    pub flags: u8,
    /// Parity shards; 0 for a marker.
    pub parity: u8,
    /// Data shards; 0 for a marker.
    pub data: u8,
}

impl Header {
    /// A free version: invisible, kept until a remote copy is gone.
    pub const FREE: u8 = 1;
    /// Contents that were brought back from a remote tier.
    pub const USES_DATA_DIR: u8 = 2;
    /// The contents lie in the metadata file itself.
    pub const INLINE: u8 = 4;

    /// Whether it is a free version, which no listing shows.
    pub fn is_free(&self) -> bool {
        self.flags & Self::FREE != 0
    }

    /// Whether it is a delete marker that a listing shows.
    pub fn is_delete_marker(&self) -> bool {
        self.kind == Kind::Marker && !self.is_free()
    }

    /// Whether the contents lie in the metadata file itself.
    pub fn is_inline(&self) -> bool {
        self.flags & Self::INLINE != 0
    }

    /// The total order: `Less` when `self` is newer and so stands before `other`.
    pub fn newest_first(&self, other: &Self) -> Ordering {
        other
            .modtime_ns
            .cmp(&self.modtime_ns)
            .then((self.kind as u8).cmp(&(other.kind as u8)))
            .then(other.signature.cmp(&self.signature))
            .then(other.version.cmp(&self.version))
            .then(other.flags.cmp(&self.flags))
    }

    /// Whether two drives mean the same version by these entries, though one may lag in metadata.
    pub fn names_the_same(&self, other: &Self) -> bool {
        self.version == other.version
            && self.kind == other.kind
            && (self.data, self.parity) == (other.data, other.parity)
            && (!self.version.is_null() || self.modtime_ns == other.modtime_ns)
    }
}

/// The latest entry of a stack that is in order: the first that is not free.
pub fn latest(stack: &[Header]) -> Option<&Header> {
    stack.iter().find(|header| !header.is_free())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of two values in each field that orders.
    fn all() -> Vec<Header> {
        let mut headers = Vec::new();
        for bits in 0..32_u8 {
            let bit = |position: u8| bits >> position & 1;
            headers.push(Header {
                version: VersionId([bit(0); 16]),
                modtime_ns: i64::from(bit(1)) - 1,
                signature: [bit(2), 0, 0, 0],
                kind: if bit(3) == 0 { Kind::Object } else { Kind::Marker },
                flags: bit(4),
                parity: 0,
                data: 0,
            });
        }
        headers
    }

    #[test]
    fn the_order_is_total_and_transitive() {
        let headers = all();
        for one in &headers {
            for other in &headers {
                assert_eq!(one.newest_first(other), other.newest_first(one).reverse());
                assert_eq!(one.newest_first(other) == Ordering::Equal, one == other);
                for third in &headers {
                    if one.newest_first(other).is_lt() && other.newest_first(third).is_lt() {
                        assert!(one.newest_first(third).is_lt());
                    }
                }
            }
        }
    }

    #[test]
    fn fields_decide_in_the_order_of_the_format() {
        let base = all()[0];
        let newer = Header { modtime_ns: 5, ..base };
        let marker = Header { kind: Kind::Marker, ..base };
        let signed = Header { signature: [0, 0, 0, 1], ..base };
        let named = Header { version: VersionId([9; 16]), ..base };
        let flagged = Header { flags: 4, ..base };
        for (first, second) in [
            (Header { kind: Kind::Marker, ..newer }, Header { signature: [9; 4], ..base }),
            (base, Header { signature: [9; 4], ..marker }),
            (signed, Header { flags: 4, ..named }),
            (named, flagged),
            (flagged, base),
        ] {
            assert_eq!(first.newest_first(&second), Ordering::Less);
        }
    }

    #[test]
    fn the_latest_version_is_never_a_free_one() {
        let base = all()[0];
        let free = Header { flags: Header::FREE, kind: Kind::Marker, modtime_ns: 9, ..base };
        assert_eq!(latest(&[free, base]), Some(&base));
        assert_eq!(latest(&[free]), None);
        assert!(!free.is_delete_marker());
    }
}

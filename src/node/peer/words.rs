//! What nodes say to each other, in MessagePack.
//!
//! | path below `/firedrill/v1/peer/` | body | answer |
//! |---|---|---|
//! | `state` | empty | [`PeerState`] |
//! | `lock` | `LockCall` | `LockAnswer` |
//! | `replacement` | empty | `Snapshot` of its own drives |
//! | `drive/<slot>` | `DriveRequest` | `Result<DriveReply, DriveError>` |

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::disk::drive::BULK_BYTES_MAX;
use crate::disk::drive::WHOLE_BYTES_MAX;
use crate::node::drives::Seen;
use crate::protocol::admin::DriveCondition;

/// Where peers are asked.
pub const PREFIX: &str = "/firedrill/v1/peer/";
/// Bytes of the largest request, and of most answers: bulk bytes with everything around them.
pub const BODY_BYTES_MAX: usize = 2 * BULK_BYTES_MAX;
/// Bytes of the largest answer: a file that is read whole, `xl.meta` with very many versions, with everything
/// around it.
pub const ANSWER_BYTES_MAX: usize = BODY_BYTES_MAX + WHOLE_BYTES_MAX as usize;

/// No word is nested half as deep; what is nested deeper would be followed until the stack ends.
const DEPTH_MAX: usize = 64;

/// How a node stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerState {
    /// Another one after each of its starts.
    pub life: Uuid,
    /// The deployment, once it knows.
    pub deployment: Option<Uuid>,
    /// Its drives in slot order.
    pub drives: Vec<PeerDriveState>,
}

/// How one of its drives stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerDriveState {
    /// Its condition.
    pub condition: DriveCondition,
    /// Why, when it is not online.
    pub reason: String,
    /// What it is.
    pub seen: Seen,
}

/// Encodes a word.
pub fn encode<T: Serialize>(word: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(word).expect("the words are plain data")
}

/// Decodes a word.
///
/// # Errors
/// In words, when it is none.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut decoder).map_err(|error| error.to_string())
}

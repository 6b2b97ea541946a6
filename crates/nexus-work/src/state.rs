//! Progress of the work in a workspace, in a type of its owner.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Progress of the work in a workspace: a type of the owner, stored in the field `state` of `status.json`. The owner decides
/// which state may follow which.
///
/// The serialized form must parse to an equal value, because a status that is equal to the old one is not written. Fields of
/// the state that the type does not know are lost on a write.
///
/// ```
/// use nexus_work::WorkspaceState;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// #[serde(tag = "name", rename_all = "snake_case")]
/// enum TaskState {
///     Active { step: u32 },
///     Complete,
///     Blocked { reason: String },
/// }
///
/// impl WorkspaceState for TaskState {
///     const KIND: &'static str = "task";
///
///     fn is_final(&self) -> bool {
///         !matches!(self, Self::Active { .. })
///     }
/// }
/// ```
pub trait WorkspaceState: Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned {
    /// The owner's kind of such a workspace, `kind` in `status.json`. It distinguishes the workspaces of one
    /// owner from those of another below the same folder, and never changes.
    const KIND: &'static str;

    /// Returns true if the work does not continue by itself.
    fn is_final(&self) -> bool;
}

/// State of any owner, as its JSON text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AnyState(String);

impl Serialize for AnyState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AnyState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.get().to_owned()))
    }
}

//! Names that must not be swapped for one another.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text as it is; nothing is trimmed or folded.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id! {
    /// Names one backend in logs, in errors, and in `nexus.yaml`.
    BackendId
}
text_id! {
    /// Names the company behind a backend. Two backends of one vendor count once in a panel's spread.
    VendorId
}
text_id! {
    /// Names a model, in the words of the backend that runs it.
    ModelId
}
text_id! {
    /// Pairs a tool call with its result. Unique within a turn.
    CallId
}
text_id! {
    /// Names one participant: whoever acts in a session, such as `reviewer-2`.
    ParticipantId
}
text_id! {
    /// Names one message of the model. Unique within a turn.
    MessageId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_plain_text_on_the_wire() {
        let id = BackendId::new("alpha");
        assert_eq!(serde_json::to_value(&id).unwrap(), serde_json::json!("alpha"));
        assert_eq!(id.to_string(), "alpha");
        assert_eq!(format!("{id:?}"), "BackendId(\"alpha\")");
    }
}

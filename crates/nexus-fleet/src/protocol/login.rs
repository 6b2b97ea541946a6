//! Messages that lend an access token of a shared login.
//!
//! Sealed parts use the `xkey` of NATS: x25519 with both keys, so that opening a part proves its sender. A seal
//! covers only its content: the content names the question it answers, its login and its expiry.

use std::fmt;

use nexus_core::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Request of a machine to the owner of a login. Everything except the sealed part is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginRequest {
    pub(crate) version: u32,
    /// Public key of the borrower.
    pub(crate) key: String,
    /// A [`LoginQuestion`], sealed to the owner: base64.
    pub(crate) sealed: String,
}

/// Question inside the seal of a [`LoginRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginQuestion {
    /// Random id of the question. The reply repeats it.
    pub(crate) request: String,
    /// Name of the login.
    pub(crate) login: String,
    /// Minimum remaining life of the token, in seconds.
    pub(crate) life: u64,
    /// SHA-256, in lowercase hexadecimal digits, of a token that the vendor refused. The reply must have another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instead_of: Option<String>,
    /// Time of sending, by the borrower's clock, in milliseconds since 1970.
    pub(crate) sent_at: u64,
}

/// The owner's answer. Everything except the sealed part is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginAnswer {
    /// A [`LoginReply`], sealed to the borrower: base64.
    Sealed(String),
    /// The owner could not open or accept the question. This answer is not sealed, so its sender is unproven.
    Refused(LoginRefusal),
}

/// Reason why the owner did not answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginRefusal {
    /// The request has a later version.
    Version,
    /// The configuration of the owner shares nothing with this key.
    NotShared,
    /// The seal is of another key than the request names, or for another recipient.
    Seal,
    /// This key already has the maximum number of running questions.
    Busy,
}

/// Reply of the owner, inside the seal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginReply {
    /// Id of the question.
    pub(crate) request: String,
    /// Name of the login.
    pub(crate) login: String,
    pub(crate) outcome: LoginOutcome,
}

/// Result of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginOutcome {
    /// The owner lends this token.
    Lent(LentToken),
    /// The refused token is the only one.
    NoOther,
    /// No token can be lent.
    Failed(LoginFailure),
}

/// A token that is lent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LentToken {
    /// The access token.
    #[serde(serialize_with = "expose", deserialize_with = "enclose")]
    pub(crate) token: Secret,
    /// Account of the token, if the vendor's requests must name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    /// Expiry, in milliseconds since 1970, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
}

/// Reason why the owner cannot lend a token, from its [`CredentialError`](nexus_core::CredentialError).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginFailure {
    pub(crate) kind: LoginFailureKind,
    /// Location of the login on its owner's machine.
    pub(crate) place: String,
    /// The fault. Empty if the login is missing.
    #[serde(default)]
    pub(crate) reason: String,
    /// Command that fixes the fault on the owner's machine. Empty if the reason names it.
    #[serde(default)]
    pub(crate) remedy: String,
}

/// The kinds of [`LoginFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginFailureKind {
    Missing,
    Unreadable,
    Refused,
    Unreachable,
    Malformed,
}

impl fmt::Display for LoginRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "it speaks an earlier version of the protocol: update the owner's Nexus first",
            Self::NotShared => "its configuration does not list the key of this machine under `shared_with`",
            Self::Seal => {
                "it could not open the question: `key` under `login_owner` is not the key that `nexus fleet key` prints there"
            }
            Self::Busy => "this machine has too many questions under way",
        })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's own shape")]
fn expose<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

fn enclose<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

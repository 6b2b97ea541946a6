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
    /// The public key of the machine that asks.
    pub(crate) key: String,
    /// A [`LoginQuestion`], sealed to the owner: base64.
    pub(crate) sealed: String,
}

/// The sealed question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginQuestion {
    /// Names the question: random. The reply has it.
    pub(crate) request: String,
    /// The login.
    pub(crate) login: String,
    /// Life that the token must have, in seconds.
    pub(crate) life: u64,
    /// SHA-256, as lowercase hexadecimal, of a token that the vendor refused: another one is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instead_of: Option<String>,
    /// Time of sending, by the borrower's clock, in milliseconds since 1970.
    pub(crate) sent_at: u64,
}

/// The owner's answer. Everything except the sealed part is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginAnswer {
    /// A [`LoginReply`], sealed to the machine that asked: base64.
    Sealed(String),
    /// The question was not opened, or not accepted. This answer is not sealed, so its sender is unproven.
    Refused(LoginRefusal),
}

/// Why a question was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginRefusal {
    /// The request is of a later version.
    Version,
    /// The configuration of the owner shares nothing with this key.
    NotShared,
    /// It is sealed by another key than it names, or to another one.
    Seal,
    /// This key has as many questions under way as are taken at once.
    Busy,
}

/// The owner's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginReply {
    /// The question that it answers.
    pub(crate) request: String,
    /// The login.
    pub(crate) login: String,
    pub(crate) outcome: LoginOutcome,
}

/// Result of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginOutcome {
    /// A token.
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
    /// The account that it belongs to, where the vendor wants it named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
    /// Expiry, in milliseconds since 1970, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
}

/// Why the owner has none to lend: a [`CredentialError`](nexus_core::CredentialError) of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginFailure {
    pub(crate) kind: LoginFailureKind,
    /// Location of the login on its owner's machine.
    pub(crate) place: String,
    /// The fault. Empty if the login is missing.
    #[serde(default)]
    pub(crate) reason: String,
    /// Command that fixes it there. Empty if the reason names it.
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

//! The messages by which an access token of a shared login is lent.
//!
//! What is sealed is so by the `xkey` of NATS: x25519, with both keys, so that whoever opens it knows who sealed it. A seal binds nothing
//! outside of itself: what it answers, which login it is of and when it ends stand inside.

use std::fmt;

use nexus_core::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a machine asks the owner of a login. Everybody can read it but for what is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginRequest {
    pub(crate) version: u32,
    /// The public key of the machine that asks.
    pub(crate) key: String,
    /// A [`LoginQuestion`], sealed to the owner: base64.
    pub(crate) sealed: String,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginQuestion {
    /// Names the question: random. The reply has it.
    pub(crate) request: String,
    /// The login.
    pub(crate) login: String,
    /// How long the token is to live, in seconds.
    pub(crate) life: u64,
    /// SHA-256, as lowercase hexadecimal, of a token that the vendor refused: another one is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instead_of: Option<String>,
    /// When it was sent, by the clock of the machine that asks, in milliseconds since 1970.
    pub(crate) sent_at: u64,
}

/// What the owner answers. Everybody can read it but for what is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginAnswer {
    /// A [`LoginReply`], sealed to the machine that asked: base64.
    Sealed(String),
    /// The question was not opened, or not taken. Nobody vouches for this.
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

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginOutcome {
    /// A token.
    Lent(LentToken),
    /// There is no other token than the refused one.
    NoOther,
    /// There is none to lend.
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
    /// When it stops being accepted, in milliseconds since 1970, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
}

/// Why the owner has none to lend: a [`CredentialError`](nexus_core::CredentialError) of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginFailure {
    pub(crate) kind: LoginFailureKind,
    /// Where the login is, on the machine of its owner.
    pub(crate) place: String,
    /// What is wrong. Empty where there is no login.
    #[serde(default)]
    pub(crate) reason: String,
    /// What mends it there. Empty where the reason says so.
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

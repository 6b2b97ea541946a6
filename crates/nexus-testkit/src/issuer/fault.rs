//! Faults of a request to the issuer.

use std::time::Duration;

/// A way to fail. "Spent" means that the issuer performed the request before it failed: it redeemed a code, or rotated a
/// refresh token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An answer with this status and body; nothing is spent.
    Status {
        /// The HTTP status.
        status: u16,
        /// The whole body, as `text/plain`.
        body: String,
    },
    /// An error of the protocol, in the format of the requested path; nothing is spent.
    Refusal {
        /// The HTTP status.
        status: u16,
        /// The code, such as `invalid_grant`.
        code: String,
    },
    /// A page of HTML with status 200, as a captive portal gives it; nothing is spent.
    Html200,
    /// A redirect; nothing is spent.
    Redirect {
        /// Target of the redirect.
        location: String,
    },
    /// The request is read and never answered; nothing is spent.
    Hang,
    /// The connection is closed without an answer; nothing is spent.
    CutBefore,
    /// The connection is closed without an answer; the request is performed, and its result lost.
    CutAfter,
    /// The connection is closed in the middle of the answer's body; the request is performed.
    CutInside,
    /// The request is performed, and never answered.
    HangAfter,
    /// The answer is good, but late.
    Slow(Duration),
    /// The request is performed; the answer is this many spaces, followed by valid JSON.
    HugeBody {
        /// Number of spaces.
        bytes: u64,
    },
    /// The request is performed; the answer's JSON lacks `access_token`.
    NoAccessToken,
    /// The request is performed; every member of the answer has a wrong type.
    WrongTypes,
    /// The request is performed; the answer's JSON ends too early.
    TornJson,
    /// The answer is good, but contains no refresh token. A presented refresh token stays good.
    NoRefreshToken,
    /// The answer is good, but repeats the presented refresh token, which stays good.
    NoRotation,
    /// The answer is good, but does not contain the lifetime of the access token.
    NoExpiry,
    /// The answer is good, but its access token is opaque, not a JWT, and the id token is missing.
    OpaqueTokens,
    /// The answer is good, but its JWTs have `alg: none` and no signature.
    UnsignedTokens,
    /// The answer is good, but its JWTs are signed with a key that is not the issuer's.
    ForgedTokens,
    /// The answer is good, but its id token does not repeat the nonce.
    NoNonce,
}

impl Fault {
    /// A status with a short text.
    pub fn status(status: u16) -> Self {
        Self::Status { status, body: "something went wrong".into() }
    }

    /// `invalid_grant`, with status 400.
    pub fn invalid_grant() -> Self {
        Self::Refusal { status: 400, code: "invalid_grant".into() }
    }
}

//! What can go wrong with a request to the issuer.

use std::time::Duration;

/// One way to fail. "Spent" is whether the issuer did what was asked before it failed: a code redeemed, a refresh token
/// rotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This status and body; nothing is spent.
    Status {
        /// The HTTP status.
        status: u16,
        /// The whole body, as `text/plain`.
        body: String,
    },
    /// An error of the protocol, in the shape of the path it was asked at; nothing is spent.
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
        /// Where to.
        location: String,
    },
    /// The request is read and never answered; nothing is spent.
    Hang,
    /// The connection is closed without an answer; nothing is spent.
    CutBefore,
    /// The connection is closed without an answer; what was asked is done, and its result lost.
    CutAfter,
    /// The connection is closed in the middle of the answer's body; what was asked is done.
    CutInside,
    /// What was asked is done, and never answered.
    HangAfter,
    /// The answer comes late, and well.
    Slow(Duration),
    /// What was asked is done; the answer is valid JSON in front of this many bytes of blanks.
    HugeBody {
        /// How many.
        bytes: u64,
    },
    /// What was asked is done; the answer's JSON lacks `access_token`.
    NoAccessToken,
    /// What was asked is done; every member of the answer has a type it should not have.
    WrongTypes,
    /// What was asked is done; the answer's JSON ends too early.
    TornJson,
    /// The answer is good, and hands out no refresh token. One that was presented stays good.
    NoRefreshToken,
    /// The answer is good, and repeats the refresh token that was presented, which stays good.
    NoRotation,
    /// The answer is good, and does not say how long the access token lives.
    NoExpiry,
    /// The answer is good, and its access token is no JWT; there is no id token.
    OpaqueTokens,
    /// The answer is good, and its JWTs say `alg: none` and bear no signature.
    UnsignedTokens,
    /// The answer is good, and its JWTs bear a signature of a key that is not the issuer's.
    ForgedTokens,
    /// The answer is good, and its id token does not repeat the nonce.
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

//! Tables of the vendors' error names. Each row has the source of its word.

use nexus_core::ErrorKind;

use super::body::{ErrorBody, Form};
use crate::vendor_words;

/// Meaning of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A missing or rejected credential.
    Unauthenticated,
    /// A valid credential without the permission for this request.
    Forbidden,
    /// A rate limit was exceeded.
    RateLimited,
    /// The plan or the budget is exhausted.
    UsageLimit,
    /// The server is out of capacity.
    Overloaded,
    /// The model does not exist, or not for this account.
    ModelUnavailable,
    /// The conversation is too long.
    ContextExceeded,
    /// A filter rejected the request.
    Refused,
    /// The request is invalid.
    InvalidRequest,
    /// The server timed out.
    TimedOut,
    /// The response is not an answer of the API.
    Unreadable,
    /// The server failed without a more specific reason.
    VendorFailure,
}

impl Meaning {
    /// Converts the meaning into an error kind.
    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            Self::Unauthenticated => ErrorKind::Unauthenticated,
            Self::Forbidden => ErrorKind::Forbidden,
            Self::RateLimited => ErrorKind::RateLimited,
            Self::UsageLimit => ErrorKind::UsageLimit,
            Self::Overloaded => ErrorKind::Overloaded,
            Self::ModelUnavailable => ErrorKind::ModelUnavailable,
            Self::ContextExceeded => ErrorKind::ContextExceeded,
            Self::Refused => ErrorKind::Refused,
            Self::InvalidRequest => ErrorKind::InvalidRequest,
            Self::TimedOut => ErrorKind::Transport,
            // Another program answers in place of the server. A program that only detects a missing event reports the
            // same.
            Self::Unreadable => ErrorKind::Transport,
            Self::VendorFailure => ErrorKind::VendorFailure,
        }
    }
}

/// Error codes, in the field `code` or `type`. General codes such as `server_error` or `invalid_request_error` are
/// omitted, because the status is more specific.
///
/// Sources: *recorded*: codes that a vendor's own program distinguishes, and streams that it accepted; *reference*: the
/// error codes of the public API reference; *llama.cpp*: the error types of its server; *moonshot*: Moonshot's;
/// *messages*: the Messages API, whose errors gateways pass on; *gemini*: the Gemini API; *aws*: the API references of Amazon
/// Bedrock and of the services of Amazon in general ("Common Errors"). Their `ValidationException` is omitted, because
/// its words tell more.
const CODES: [(&str, Meaning); 43] = [
    ("context_length_exceeded", Meaning::ContextExceeded), // recorded
    ("exceed_context_size_error", Meaning::ContextExceeded), // llama.cpp
    ("insufficient_quota", Meaning::UsageLimit),           // recorded
    ("usage_limit_reached", Meaning::UsageLimit),          // recorded
    ("usage_not_included", Meaning::UsageLimit),           // recorded
    ("billing_hard_limit_reached", Meaning::UsageLimit),   // reference
    ("rate_limit_exceeded", Meaning::RateLimited),         // recorded
    ("rate_limit_error", Meaning::RateLimited),            // messages
    ("insufficient_credits", Meaning::UsageLimit),         // gateways
    ("billing_error", Meaning::UsageLimit),                // messages
    ("timeout_error", Meaning::TimedOut),                  // messages
    ("server_is_overloaded", Meaning::Overloaded),         // recorded
    ("slow_down", Meaning::Overloaded),                    // recorded
    ("overloaded", Meaning::Overloaded),                   // messages
    ("overloaded_error", Meaning::Overloaded),             // messages
    ("unavailable_error", Meaning::Overloaded),            // llama.cpp, while it loads a model
    ("invalid_prompt", Meaning::Refused),                  // recorded
    ("cyber_policy", Meaning::Refused),                    // recorded
    ("content_policy_violation", Meaning::Refused),        // reference
    ("content_filter", Meaning::Refused),                  // reference
    ("model_not_found", Meaning::ModelUnavailable),        // reference
    ("invalid_api_key", Meaning::Unauthenticated),         // reference
    ("authentication_error", Meaning::Unauthenticated),    // llama.cpp
    ("permission_error", Meaning::Forbidden),              // llama.cpp
    ("exceeded_current_quota_error", Meaning::UsageLimit), // moonshot
    ("api_key_invalid", Meaning::Unauthenticated),         // gemini, under the status 400
    ("resource_exhausted", Meaning::RateLimited),          // gemini
    ("deadline_exceeded", Meaning::TimedOut),              // gemini
    ("throttlingException", Meaning::RateLimited),         // aws
    ("modelNotReadyException", Meaning::Overloaded),       // aws
    ("serviceUnavailableException", Meaning::Overloaded),  // aws
    ("modelTimeoutException", Meaning::TimedOut),          // aws
    ("modelStreamErrorException", Meaning::VendorFailure), // aws, under the status 424
    ("modelErrorException", Meaning::VendorFailure),       // aws, under the status 424
    ("internalServerException", Meaning::VendorFailure),   // aws
    ("serviceQuotaExceededException", Meaning::UsageLimit), // aws
    ("accessDeniedException", Meaning::Forbidden),         // aws
    ("resourceNotFoundException", Meaning::ModelUnavailable), // aws
    ("unrecognizedClientException", Meaning::Unauthenticated), // aws
    ("expiredTokenException", Meaning::Unauthenticated),   // aws
    ("missingAuthenticationTokenException", Meaning::Unauthenticated), // aws
    ("invalidSignatureException", Meaning::Unauthenticated), // aws
    ("signatureDoesNotMatch", Meaning::Unauthenticated),   // aws
];

/// Texts about a model that does not exist, in lower case. They count after the word "model", unless they contain it.
const MISSING_MODEL: [&str; 8] = [
    "does not exist",        // reference, vLLM
    "not found",             // Ollama
    "is not available",      // gateways
    "is not a valid model",  // OpenRouter
    "invalid model name",    // LiteLLM
    "no longer available",   // reference, for a model that was withdrawn
    "identifier is invalid", // aws
    "on-demand throughput",  // aws, for a model that only an inference profile has
];

/// Returns the meaning of the code, otherwise of the type.
pub(super) fn of_code(body: &ErrorBody) -> Option<Meaning> {
    let meaning = |word: &Option<String>| {
        let word = word.as_deref()?;
        CODES.iter().find(|(code, _)| word.eq_ignore_ascii_case(code)).map(|(_, meaning)| *meaning)
    };
    meaning(&body.code).or_else(|| meaning(&body.kind))
}

/// Codes of a signature that the server computes otherwise. Source: *aws*.
const WRONG_SIGNATURES: [&str; 2] = ["invalidSignatureException", "signatureDoesNotMatch"];

/// Returns advice on an error with a code.
pub(super) fn advice(body: &ErrorBody) -> Option<&'static str> {
    let code = body.code.as_deref().or(body.kind.as_deref())?;
    WRONG_SIGNATURES.iter().any(|known| code.eq_ignore_ascii_case(known)).then_some(
        "check the clock of this machine, the secret key, and `region`; a proxy that changes requests has the same effect",
    )
}

/// Returns true if the error is about a conversation that is too long.
pub(super) fn speaks_of_length(body: &ErrorBody) -> bool {
    let fields = [Some(body.words()), body.code.as_deref(), body.param.as_deref()];
    body.form == Form::Json && fields.into_iter().flatten().any(vendor_words::speaks_of_length)
}

/// Returns true if the error is about the model's name.
pub(super) fn speaks_of_missing_model(body: &ErrorBody) -> bool {
    if body.form != Form::Json {
        return false;
    }
    if let Some(param) = &body.param {
        return param == "model";
    }
    let Some(message) = &body.message else { return false };
    let message = message.to_lowercase();
    let Some((_, after)) = message.split_once("model") else { return false };
    MISSING_MODEL
        .iter()
        .any(|words| after.contains(words) || (words.contains("model") && message.contains(words)))
}

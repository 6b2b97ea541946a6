//! Maps failures of the model to errors of the seam.

use std::time::{Duration, SystemTime};

use nexus_core::{ErrorKind, Retry, harness::Failure};

use crate::sim::{Finish, StatusFault};

/// A refusal by status.
pub(super) fn refusal(fault: &StatusFault) -> Failure {
    let message = fault.message.clone().unwrap_or_else(|| format!("status {}", fault.status));
    let failure = |kind| Failure::new(kind, message.clone());
    if fault.overloaded {
        return failure(ErrorKind::Overloaded).with_named_retry(None);
    }
    if let Some(limit) = &fault.limit {
        let reset = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(limit.resets_at));
        return failure(ErrorKind::UsageLimit).with_named_retry(reset.map(Retry::At));
    }
    match fault.status {
        401 => failure(ErrorKind::Unauthenticated),
        403 => failure(ErrorKind::Forbidden),
        404 => failure(ErrorKind::ModelUnavailable),
        429 => {
            let wait = fault.retry_after.map(|seconds| Retry::After(Duration::from_secs(seconds)));
            failure(ErrorKind::RateLimited).with_named_retry(wait)
        }
        400..=499 => failure(ErrorKind::InvalidRequest),
        _ => failure(ErrorKind::VendorFailure).with_named_retry(None),
    }
}

/// Returns the failure for a finish reason that makes the answer unusable.
pub(super) fn bad_end(finish: Finish) -> Option<Failure> {
    let (kind, message) = match finish {
        Finish::End | Finish::Pause => return None,
        Finish::MaxTokens => (ErrorKind::Incomplete, "the answer reached the bound on output"),
        Finish::Refusal => (ErrorKind::Refused, "the model refused"),
        Finish::ContentFilter => (ErrorKind::Refused, "a filter stopped the answer"),
        Finish::ContextExceeded => (ErrorKind::ContextExceeded, "the window is full"),
    };
    Some(Failure::new(kind, message))
}

//! End of a turn whose files could not travel back.

use nexus_core::{BackendId, Effects, Partial, Retry, TurnError, TurnResult, harness::Failure};

/// Returns the outcome of a turn of `backend` that ended, but whose files then failed with `failure`. The partial result has
/// its output. The work was done, so no other backend repeats it.
pub(crate) fn spoiled(
    outcome: Result<TurnResult, TurnError>,
    backend: &BackendId,
    failure: Failure,
) -> TurnError {
    let message = failure.message.clone().unwrap_or_default();
    match outcome {
        Ok(result) => {
            let mut partial = Partial::default();
            (partial.text, partial.messages, partial.tool_calls) =
                (result.text, result.messages, result.tool_calls);
            (partial.usage, partial.cost) = (result.usage, result.cost);
            partial.effects = result.effects.and(Effects::Wrote);
            (partial.resume, partial.provenance) = (result.resume, Some(result.provenance));
            failure.into_error(backend.clone()).with_retry(Retry::Never).with_partial(partial)
        }
        Err(mut error) => {
            let effects = error.partial().effects.and(Effects::Wrote);
            error.partial_mut().effects = effects;
            let words = match error.message() {
                Some(before) => format!("{before}; {message}"),
                None => message,
            };
            error.with_message(words)
        }
    }
}

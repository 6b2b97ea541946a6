//! Ends a turn whose answer a terminal tool submitted.

use serde_json::Value;

use super::Failure;
use crate::{FinishReason, Session, TurnRequest};

/// Splits the calls of one reply into batches. The calls of one batch may run concurrently; a batch starts
/// after all calls of the previous one are answered. A call that may submit the answer has a batch of its own,
/// so that no other call runs when it submits. Later calls are then denied.
pub fn batches<T>(calls: Vec<T>, is_terminal: impl Fn(&T) -> bool) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut may_join = false;
    for call in calls {
        let is_alone = is_terminal(&call);
        match batches.last_mut() {
            Some(batch) if may_join && !is_alone => batch.push(call),
            _ => batches.push(vec![call]),
        }
        may_join = !is_alone;
    }
    batches
}

/// Returns true if the turn of `session` is over because a tool submitted its answer. With an output schema
/// the turn is not over, because its answer must still come as text.
pub fn is_submitted(session: &Session, request: &TurnRequest) -> bool {
    session.is_handed_in() && request.output.is_none()
}

/// Returns the end of a turn. A turn with a submitted answer succeeds, even after a later failure.
pub fn with_submission(
    outcome: Result<(FinishReason, Option<Value>), Failure>,
    is_submitted: bool,
) -> Result<(FinishReason, Option<Value>), Failure> {
    if !is_submitted {
        return outcome;
    }
    // The caller has the answer. A failure after it, such as a lost connection, must not cause a second turn.
    if let Err(failure) = outcome {
        tracing::info!(kind = ?failure.kind, "the turn failed after its answer was submitted");
    }
    Ok((FinishReason::Submitted, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_call_is_alone_and_the_order_stays() {
        let in_batches = |calls: &str| batches(calls.chars().collect(), |call| *call == 's');
        let wanted =
            |batches: &[&str]| batches.iter().map(|one| one.chars().collect()).collect::<Vec<Vec<_>>>();
        assert_eq!(in_batches(""), wanted(&[]));
        assert_eq!(in_batches("abc"), wanted(&["abc"]));
        assert_eq!(in_batches("absscd"), wanted(&["ab", "s", "s", "cd"]));
        assert_eq!(in_batches("sa"), wanted(&["s", "a"]));
    }
}

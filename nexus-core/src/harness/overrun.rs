//! Ends the turn of a model that keeps calling tools beyond its budget, or whose submissions are refused too often.

use crate::{ErrorKind, Limit, Session};

use super::Failure;

/// Decides when calls beyond the budget of a session end the turn.
///
/// The session denies every call beyond the budget. The first reply with such calls does not end the turn: the model learns
/// that no calls remain, and can submit its answer. The turn ends if the model has no tool for submitting, or makes such
/// calls again. It also ends after as many refused submissions as the session allows, because nothing can be submitted any
/// more.
#[derive(Debug, Default)]
pub struct Overrun {
    /// Number of denials that the model has read.
    told: u32,
}

impl Overrun {
    /// Records that the model has read all denials so far. Call it when the calls of a reply are answered. A turn that must
    /// already end stays so, so the order of this call and [`Overrun::check`] does not matter.
    pub fn told(&mut self, session: &Session) {
        if self.check(session).is_none() {
            self.told = session.over_budget_calls();
        }
    }

    /// Returns the failure that ends the turn: [`ErrorKind::LimitReached`] with [`Limit::ToolCalls`]. The model made calls
    /// beyond the budget although it knew of it or has no terminal tool, or too many submissions were refused.
    pub fn check(&self, session: &Session) -> Option<Failure> {
        if session.is_out_of_submissions() {
            let reason =
                format!("{} submissions were rejected, which is the limit", session.refused_submissions());
            return Some(Failure::new(ErrorKind::LimitReached(Limit::ToolCalls), reason));
        }
        let is_over = session.over_budget_calls() > self.told;
        // With `told` at 0 the model has read no denial yet, so it made its calls in good faith.
        let may_hand_in = self.told == 0 && session.has_terminal_tools();
        if !is_over || may_hand_in {
            return None;
        }
        let reason = format!("{} calls were made, which is the limit", session.calls_made());
        Some(Failure::new(ErrorKind::LimitReached(Limit::ToolCalls), reason))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Limits, Tool, Toolbox, TurnHost, TurnRequest, TurnSession};
    use serde_json::json;

    use super::*;

    fn session(tools: Toolbox) -> TurnSession {
        let request = TurnRequest::new("x").with_limits(Limits::new().with_tool_calls(1));
        TurnHost::new().with_tools(Arc::new(tools)).open_turn(&request)
    }

    fn look(session: &Session) {
        let _ = session.authorize(session.token(), "look", &json!({}));
    }

    fn tools() -> Toolbox {
        Toolbox::new().with(Tool::without_arguments("look", "", || async {}))
    }

    #[test]
    fn who_can_hand_in_is_told_once() {
        let session = session(tools().with(Tool::without_arguments("submit", "", || async {}).terminal()));
        let mut overrun = Overrun::default();
        look(&session);
        assert!(overrun.check(&session).is_none());
        // Two calls of one reply, of which neither knows of the other.
        look(&session);
        look(&session);
        assert!(overrun.check(&session).is_none());
        overrun.told(&session);
        assert!(overrun.check(&session).is_none());
        look(&session);
        let failure = overrun.check(&session).unwrap();
        assert_eq!(failure.kind, ErrorKind::LimitReached(Limit::ToolCalls));
    }

    #[test]
    fn who_was_answered_before_anybody_looked_is_stopped_all_the_same() {
        let session = session(tools());
        let mut overrun = Overrun::default();
        look(&session);
        look(&session);
        overrun.told(&session);
        assert!(overrun.check(&session).is_some());
    }

    #[test]
    fn who_cannot_is_stopped() {
        let session = session(tools());
        let overrun = Overrun::default();
        look(&session);
        assert!(overrun.check(&session).is_none());
        look(&session);
        assert!(overrun.check(&session).is_some());
    }
}

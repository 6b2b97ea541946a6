//! Fill of the context, cost, and end of a session.

use nexus_core::{Cost, CostSource, Usd, turn::Unrecognized};
use serde_json::{Value, json};

use super::{AcpTranslator, Asked, Stage};
use crate::acp::context_usage::{context_usage, session_cost};
use crate::cli::Step;

impl AcpTranslator {
    /// Reports the fill of the context, and updates the cost.
    pub(super) fn usage_updated(&mut self, update: &Value, step: &mut Step) {
        self.cost(update, step);
        match context_usage(update) {
            Some(context) if self.context != Some(context) => {
                self.context = Some(context);
                step.event(context);
            }
            Some(_) => {}
            None => step.event(Unrecognized::new(Some("usage_update".to_owned()), update.clone()).harmless()),
        }
    }

    /// Updates the cost of the turn from the cost of the session, without the cost before this turn.
    pub(super) fn cost(&mut self, update: &Value, step: &mut Step) {
        let Some(amount) = session_cost(update) else { return };
        if matches!(self.stage, Stage::Opening | Stage::Connecting) {
            // A loaded session repeats the costs of its earlier turns; the last one is the cost before this turn.
            if self.script.resume.is_some() {
                self.cost_before = Some(amount);
            }
            return;
        }
        let usd = Usd((amount - self.cost_before.unwrap_or_default()).max(0.0));
        step.cost = Some(Cost { usd, source: CostSource::Estimated });
    }

    /// Writes the last requests of a session. Returns true if the agent should answer them.
    pub(super) fn end_session(&mut self, step: &mut Step) -> bool {
        let Some(session) = self.session.clone() else { return false };
        let is_stored = self.script.session.is_some();
        let offered = self.agent.agent_capabilities.session_capabilities.clone();
        let params = json!({ "sessionId": session });
        let is_left = !is_stored && self.script.leaves_session && offered.delete.is_some();
        if offered.close.is_some() && (is_stored || is_left) {
            self.ask(Asked::Farewell, "session/close", &params, step);
        }
        if is_left {
            self.ask(Asked::Farewell, "session/delete", &params, step);
        }
        self.asked.values().any(|asked| *asked == Asked::Farewell)
    }
}

//! Rules for files that agents write: reviews and handoffs.

use super::{
    super::{frontmatter::AgentHandoff, handoff, review, rule::Rule},
    CheckContext,
};

impl CheckContext<'_> {
    pub(super) fn review(&mut self) {
        let text = self.artifact.text();
        match review::verify(text.as_bytes()) {
            Err((at, message)) => self.fault(at, Rule::ReviewChain, message),
            Ok(state) if state.unsealed_bytes > 0 => {
                let message = format!(
                    "{} bytes have no seal; the next entry seals them, `nexus artifact append --seal` does it now",
                    state.unsealed_bytes
                );
                self.fault(text.len() - state.unsealed_bytes, Rule::ReviewTail, message);
            }
            Ok(_) => {}
        }
    }

    /// Checks a handoff against its file name.
    pub(super) fn handoff(&mut self, name: &str) {
        let Ok(handoff) = self.artifact.read::<AgentHandoff>() else { return };
        if let Some((key, message)) = handoff::name_fault(&handoff, name) {
            let values = self.artifact.values();
            let at = key.and_then(|key| values.get(key)).map_or(0, |range| range.start);
            self.fault(at, Rule::HandoffName, message);
        }
    }
}

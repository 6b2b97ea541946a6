//! Room in the model's context: the decision when and how far a conversation is compacted.

use nexus_core::{EventSink, harness::Failure, turn::ConversationCompacted};

use super::compaction::{CompactionDemand, CompactionPlan};
use super::context_fill::ContextFill;
use super::setup::TurnSetup;
use super::summarizer::SummaryRoom;
use super::transcript::Transcript;
use super::turn_loop::TurnLoop;

/// Part of the context, in percent, from which a conversation is compacted. Source: our own choice; the answer and the
/// next results must still fit.
const NEARLY_FULL_PERCENT: u64 = 85;

/// Part of the context, in percent, that a compacted conversation may use.
const COMPACTED_PERCENT: u64 = 50;

/// Part of the dropped items that their summary may have.
const SHARE_OF_ITEMS: usize = 2;

fn is_nearly_full(tokens: u64, window: u64) -> bool {
    u128::from(tokens) * 100 >= u128::from(window) * u128::from(NEARLY_FULL_PERCENT)
}

/// Returns the number of bytes that a request of `bytes` bytes and `tokens` tokens has too many for half of `window`.
fn surplus(bytes: usize, tokens: u64, window: u64) -> usize {
    let target_tokens = u128::from(window) * u128::from(COMPACTED_PERCENT) / 100;
    let target_bytes = bytes as u128 * target_tokens / u128::from(tokens.max(1));
    bytes.saturating_sub(usize::try_from(target_bytes).unwrap_or(usize::MAX))
}

impl TurnLoop<'_> {
    /// Returns the size of the model's context in tokens, if it is known.
    pub(super) fn context_window(&self, setup: &TurnSetup) -> Option<u64> {
        self.backend.context_window.or(setup.plan.context_window).filter(|window| *window > 0)
    }

    /// Compacts the conversation if the next request would nearly fill the model's context.
    pub(super) async fn make_room(
        &mut self,
        setup: &mut TurnSetup,
        conversation: &mut dyn Transcript,
        events: &mut dyn EventSink,
    ) -> Result<(), Failure> {
        let Some(window) = self.context_window(setup).filter(|_| !self.has_full_context) else {
            return Ok(());
        };
        let bytes = conversation.request_bytes();
        let tokens = ContextFill::tokens_of(self.context_fill, bytes);
        if !is_nearly_full(tokens, window) {
            return Ok(());
        }
        let surplus_bytes = surplus(bytes, tokens, window);
        let demand = CompactionDemand { surplus_bytes, may_shorten_all: false };
        let plan = conversation.plan_compaction(demand);
        self.compact(setup, conversation, plan, usize::MAX, events).await?;
        // The part that must stay nearly fills the context. Another compaction in each round would leave the model without its
        // last steps, so only a refusal causes one from now on.
        let tokens = ContextFill::tokens_of(self.context_fill, conversation.request_bytes());
        self.has_full_context = is_nearly_full(tokens, window);
        Ok(())
    }

    /// Compacts the conversation after the server rejected it as too long. Returns true if the request is smaller now.
    pub(super) async fn make_room_after_refusal(
        &mut self,
        setup: &mut TurnSetup,
        conversation: &mut dyn Transcript,
        events: &mut dyn EventSink,
    ) -> Result<bool, Failure> {
        let bytes = conversation.request_bytes();
        let half = bytes / 2;
        let tokens = ContextFill::tokens_of(self.context_fill, bytes);
        let beyond_window = self.context_window(setup).map_or(0, |window| surplus(bytes, tokens, window));
        let surplus_bytes = half.max(beyond_window);
        // Drop more by the length of a summary, because the server would reject a request with one that is too long. But shorten
        // the results that the model has not read only for the request itself.
        let summary_bytes = self.reserved_for_summary(bytes.saturating_sub(surplus_bytes));
        let with_summary = surplus_bytes.saturating_add(summary_bytes);
        let demand = CompactionDemand { surplus_bytes: with_summary, may_shorten_all: false };
        let mut plan = conversation.plan_compaction(demand);
        if plan.dropped.bytes < surplus_bytes {
            plan = conversation.plan_compaction(CompactionDemand { surplus_bytes, may_shorten_all: true });
        }
        let spare_bytes = plan.dropped.bytes.saturating_sub(surplus_bytes);
        self.compact(setup, conversation, plan, spare_bytes, events).await
    }

    /// Carries out `plan`. Its summary has at most `max_summary_bytes`. Returns true if anything was dropped.
    async fn compact(
        &mut self,
        setup: &mut TurnSetup,
        conversation: &mut dyn Transcript,
        plan: CompactionPlan,
        max_summary_bytes: usize,
        events: &mut dyn EventSink,
    ) -> Result<bool, Failure> {
        let dropped = plan.dropped;
        if dropped.results == 0 && dropped.items == 0 {
            return Ok(false);
        }
        let mut summary = None;
        // Only a note about dropped items can contain a summary.
        if plan.note.is_some() {
            let items = plan.dropped_of(conversation.items());
            let room = SummaryRoom {
                request_bytes: conversation.request_bytes().saturating_sub(dropped.bytes),
                // A summary must be much shorter than the items that it replaces.
                max_bytes: max_summary_bytes.min(plan.item_bytes / SHARE_OF_ITEMS),
            };
            // Box this large future, which few turns need.
            summary = Box::pin(self.summary(setup, &items, room, events)).await?;
        }
        let is_summarized = summary.is_some();
        conversation.compact(plan, summary);
        let compacted = ConversationCompacted::new()
            .with_results(Some(dropped.results))
            .with_items(Some(dropped.items))
            .with_bytes(Some(dropped.bytes as u64))
            .with_summary(is_summarized);
        self.context.log.event(compacted);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compacted_request_uses_half_of_the_window() {
        assert_eq!(surplus(8_000, 2_000, 2_000), 4_000);
        assert_eq!(surplus(8_000, 500, 2_000), 0);
        assert_eq!(surplus(usize::MAX, u64::MAX, 1), usize::MAX);
    }
}

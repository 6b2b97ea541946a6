//! State of a session: its decisions, its number of calls, and its end.

use std::{
    collections::VecDeque,
    iter,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::Value;

use super::{Decision, DecisionOutcome, Denial, decision::Fingerprint};
use crate::{
    approval::NotApproved,
    id::ParticipantId,
    tool::ToolDefinition,
    turn::{Effects, ToolOrigin},
};

/// Maximum number of stored decisions. Beyond it the oldest are dropped. Source: our own bound.
const MAX_KEPT: usize = 65_536;

/// Largest estimated memory of the decisions, in bytes. Beyond it the oldest are dropped. Source: our own bound.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Maximum number of recorded calls with a wrong token, so that such calls never displace those of the participant. Source: our own bound.
const MAX_STRANGERS: u64 = 1_000;

/// State of one session. It also updates the sessions above it.
///
/// One lock covers counting a call and recording its decision. So the decisions are in the order in which the calls used the budget,
/// and a closed session allows nothing.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    kept: Mutex<DecisionLedger>,
    above: Option<Arc<AuditLog>>,
}

/// Counters and retained decisions of a session.
#[derive(Debug, Default)]
struct DecisionLedger {
    limit: Option<u32>,
    spent: u32,
    over_budget: u32,
    /// Number of refused submissions that ends the session.
    submission_limit: Option<u32>,
    refused_submissions: u32,
    /// True if the caller's session accepts no more submissions.
    is_refused_elsewhere: bool,
    /// True if the session's owner closed it.
    is_closed: bool,
    /// True if the session ended because the answer was submitted.
    is_handed_in: bool,
    decisions: VecDeque<RetainedDecision>,
    bytes: usize,
    strangers: u64,
    forgotten: u64,
    /// Greatest effects of the allowed calls, including calls whose decisions were dropped.
    effects: Effects,
}

/// Decision on a call, with the outcome of the call.
#[derive(Clone, Debug)]
struct RetainedDecision {
    decision: Arc<Decision>,
    /// `None` for a call with a wrong token, so that it equals no other call.
    fingerprint: Option<Fingerprint>,
    outcome: ToolOutcome,
    bytes: usize,
}

/// A call that awaits a decision.
#[derive(Debug)]
pub(super) struct UndecidedCall {
    decision: Decision,
    fingerprint: Option<Fingerprint>,
    outcome: ToolOutcome,
    counts: Counts,
    effects: Effects,
}

impl UndecidedCall {
    /// Creates a call of `tool`, which may have these effects if it is allowed.
    pub(super) fn new(
        participant: ParticipantId,
        (tool, arguments): (&str, &Value),
        counts: Counts,
        effects: Effects,
    ) -> Self {
        let fingerprint = (counts != Counts::Stranger).then(|| Fingerprint::of(tool, arguments));
        let decision = Decision::new(participant, tool, arguments);
        Self { decision, fingerprint, outcome: ToolOutcome::default(), counts, effects }
    }

    /// Creates a call of the program's own tool, which does not use the budget.
    pub(super) fn of_harness(participant: ParticipantId, call: (&str, &Value)) -> Self {
        let mut asked = Self::new(participant, call, Counts::Never, Effects::None).awaiting_approval();
        asked.decision.origin = ToolOrigin::Harness;
        // Without a fingerprint it equals no call of a caller's tool.
        asked.fingerprint = None;
        asked
    }

    /// Marks the call as allowed only once the host has approved it.
    pub(super) fn awaiting_approval(mut self) -> Self {
        self.outcome = ToolOutcome::awaiting(AwaitedVerdict::Approval);
        self
    }

    /// Marks the call as allowed until the caller's session decides on it. With `needs_approval`, the caller's host also has to
    /// approve it.
    pub(super) fn awaiting_other_side(mut self, needs_approval: bool) -> Self {
        self.outcome = ToolOutcome::awaiting(AwaitedVerdict::OtherSide { needs_approval });
        self.left_to_other_side()
    }

    /// Leaves the decision to the caller's session. This session then applies no budget, and does not deny the call because of a
    /// submitted answer, so that the caller's session issues that denial too.
    pub(super) fn left_to_other_side(mut self) -> Self {
        self.counts = Counts::Elsewhere;
        self
    }

    /// Returns the handle that reports the end of the call.
    pub(super) fn outcome(&self) -> ToolOutcome {
        self.outcome.clone()
    }
}

/// Snapshot of a session's counts and effects, for a later reset: see [`Session::mark`](super::Session::mark).
#[derive(Clone, Debug)]
pub struct SessionMark {
    spent: u32,
    over_budget: u32,
    refused_submissions: u32,
    effects: Effects,
    is_handed_in: bool,
}

/// Receives the end of an allowed call.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolOutcome(Arc<LaterOutcome>);

#[derive(Debug, Default)]
struct LaterOutcome {
    has_succeeded: AtomicBool,
    /// Further verdict that the call waits for.
    awaited: AwaitedVerdict,
    /// The further verdict, once it is known.
    verdict: OnceLock<Result<(), Denial>>,
}

/// A verdict that follows the session's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AwaitedVerdict {
    /// The call waits for no further verdict.
    #[default]
    Nothing,
    /// The host's approval. The call does not run before it.
    Approval,
    /// The decision of the caller's session. The call may run before it is known.
    OtherSide {
        /// True if the caller's host also has to approve the call.
        needs_approval: bool,
    },
}

impl ToolOutcome {
    fn awaiting(awaited: AwaitedVerdict) -> Self {
        Self(Arc::new(LaterOutcome { awaited, ..LaterOutcome::default() }))
    }

    /// Records that the tool answered without an error.
    pub(super) fn succeeded(&self) {
        self.0.has_succeeded.store(true, Ordering::Relaxed);
    }

    fn has_succeeded(&self) -> bool {
        self.0.has_succeeded.load(Ordering::Relaxed)
    }
}

impl RetainedDecision {
    fn is_allowed(&self) -> bool {
        let verdict = self.outcome.0.verdict.get();
        let is_let_through =
            verdict.map_or(self.outcome.0.awaited != AwaitedVerdict::Approval, Result::is_ok);
        self.decision.outcome == DecisionOutcome::Allowed && is_let_through
    }

    /// Returns the decision, updated with the later verdict.
    fn decision(&self) -> Decision {
        let mut decision = Decision::clone(&self.decision);
        match (self.outcome.0.verdict.get(), self.outcome.0.awaited) {
            (None, AwaitedVerdict::Approval) if decision.outcome == DecisionOutcome::Allowed => {
                let denial = Denial::not_approved(&decision.tool, NotApproved::Unanswered);
                decision.outcome = DecisionOutcome::Denied(denial);
            }
            (None, _) => {}
            (Some(Ok(())), awaited) => {
                decision.approved = matches!(
                    awaited,
                    AwaitedVerdict::Approval | AwaitedVerdict::OtherSide { needs_approval: true }
                );
            }
            (Some(Err(denial)), _) => decision.outcome = DecisionOutcome::Denied(denial.clone()),
        }
        decision
    }
}

/// Counting rule of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// Counts as one call.
    Once,
    /// Counts as one refused submission, unless it submits the answer.
    Submission,
    /// Does not count, because it is a call of the program's own tools.
    Never,
    /// Does not count, because its token is wrong.
    Stranger,
    /// Counts in [`AuditLog::settle_elsewhere`], after the caller's session has decided.
    Elsewhere,
}

impl Counts {
    /// Returns the rule for a call of `tool`, or of an unknown tool.
    pub(super) fn of(tool: Option<&ToolDefinition>) -> Self {
        if tool.is_some_and(|tool| tool.terminal) { Self::Submission } else { Self::Once }
    }
}

/// State of the session when a call arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallAdmission {
    /// The session admits calls.
    Open,
    /// The session is over.
    Closed,
    /// The budget, this number of calls, is used up.
    OverBudget(u32),
}

impl AuditLog {
    /// Creates the log of a top session with at most `limit` calls.
    pub(super) fn of(limit: Option<u32>) -> Self {
        Self { kept: Mutex::new(DecisionLedger { limit, ..DecisionLedger::default() }), above: None }
    }

    /// Sets the number of refused submissions that ends the session.
    pub(super) fn refusing_submissions(self, limit: u32) -> Self {
        let mut kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        kept.submission_limit = Some(limit);
        Self { kept: Mutex::new(kept), above: self.above }
    }

    /// Creates the log of a session below another one. Entries are also made in the log above.
    pub(super) fn below(above: &Arc<Self>, limit: Option<u32>) -> Self {
        Self { above: Some(Arc::clone(above)), ..Self::of(limit) }
    }

    /// Counts a call, and records its decision with the verdict of `decide`.
    pub(super) fn settle<T>(
        &self,
        asked: UndecidedCall,
        decide: impl FnOnce(CallAdmission) -> Result<T, Denial>,
    ) -> Result<T, Denial> {
        let UndecidedCall { mut decision, fingerprint, outcome, counts, effects } = asked;
        // Lock the whole chain, so that no concurrent turn uses up a budget above between the check and the
        // count.
        let mut chain: Vec<_> = self.chain().map(Self::lock).collect();
        let is_over = chain.iter().any(|kept| kept.is_over());
        let is_closed = chain.iter().any(|kept| kept.is_closed);
        let used_up = chain.iter().find_map(|kept| kept.limit.filter(|limit| kept.spent >= *limit));
        let standing = match (counts, used_up) {
            // The verdict on a wrong token does not depend on the state of the session.
            (Counts::Stranger, _) => CallAdmission::Open,
            // After a submitted answer, the caller's session denies and records later calls.
            (Counts::Elsewhere, _) if !is_closed => CallAdmission::Open,
            _ if is_over => CallAdmission::Closed,
            (Counts::Once, Some(limit)) => {
                chain.iter_mut().for_each(|kept| kept.over_budget = kept.over_budget.saturating_add(1));
                CallAdmission::OverBudget(limit)
            }
            (Counts::Once, None) => {
                chain.iter_mut().for_each(|kept| kept.count(counts));
                CallAdmission::Open
            }
            (Counts::Submission | Counts::Never | Counts::Elsewhere, _) => CallAdmission::Open,
        };
        // Decide under the locks, so that decisions are recorded in the order in which calls use the budget.
        let decided = decide(standing);
        // A closed session denies any submission, so that denial does not count.
        if counts == Counts::Submission && standing == CallAdmission::Open && decided.is_err() {
            chain.iter_mut().for_each(|kept| kept.refuse_submission());
        }
        match &decided {
            Ok(_) => chain.iter_mut().for_each(|kept| kept.effects = kept.effects.and(effects)),
            Err(denial) => decision.outcome = DecisionOutcome::Denied(denial.clone()),
        }
        // A later denial needs memory too, because it replaces the outcome.
        let may_be_denied =
            decision.outcome != DecisionOutcome::Allowed || outcome.0.awaited != AwaitedVerdict::Nothing;
        let bytes = weight(&decision, may_be_denied);
        let entry = RetainedDecision { decision: Arc::new(decision), fingerprint, outcome, bytes };
        chain.iter_mut().for_each(|kept| kept.add(entry.clone(), counts));
        decided
    }

    /// Records the host's verdict on a call that needs approval. An approved call may have `effects`. If the session was closed
    /// meanwhile, the call is denied.
    pub(super) fn settle_approval(
        &self,
        outcome: &ToolOutcome,
        answer: Result<(), Denial>,
        effects: Effects,
    ) -> Result<(), Denial> {
        let mut chain: Vec<_> = self.chain().map(Self::lock).collect();
        let is_over = chain.iter().any(|kept| kept.is_over());
        // A denial by the host stays the reason. Only an approval that comes too late turns into `Closed`.
        let settled = if is_over { answer.and(Err(Denial::Closed)) } else { answer };
        if settled.is_ok() {
            chain.iter_mut().for_each(|kept| kept.effects = kept.effects.and(effects));
        }
        // The first verdict is final.
        outcome.0.verdict.get_or_init(|| settled.clone());
        settled
    }

    /// Records the decision of the caller's session on a call, and counts the call as that session does. `counts` is the rule for its
    /// tool. `effects` are its possible effects if it was allowed.
    pub(super) fn settle_elsewhere(
        &self,
        outcome: &ToolOutcome,
        verdict: Result<(), Denial>,
        (counts, effects): (Counts, Effects),
    ) {
        let mut chain: Vec<_> = self.chain().map(Self::lock).collect();
        for kept in &mut chain {
            match &verdict {
                Err(Denial::OverBudget { .. }) => kept.over_budget = kept.over_budget.saturating_add(1),
                // The caller's session does not report its limit on submissions. This denial after refused submissions is its only
                // sign.
                Err(Denial::Closed) if counts == Counts::Submission && !kept.is_handed_in => {
                    kept.is_refused_elsewhere |= kept.refused_submissions > 0;
                }
                // The caller's session did not count these calls, so this session does not either.
                Err(Denial::Closed | Denial::WrongToken) => {}
                Err(_) if counts == Counts::Submission => kept.refuse_submission(),
                _ => kept.count(counts),
            }
            if verdict.is_ok() {
                kept.effects = kept.effects.and(effects);
            }
        }
        outcome.0.verdict.get_or_init(|| verdict);
    }

    /// Counts a call that the caller's session was to decide on but whose answer is no longer awaited. The call may have run.
    pub(super) fn give_up_elsewhere(&self, (counts, effects): (Counts, Effects)) {
        let mut chain: Vec<_> = self.chain().map(Self::lock).collect();
        for kept in &mut chain {
            kept.count(counts);
            kept.effects = kept.effects.and(effects);
        }
    }

    /// Returns the number of calls that counted.
    pub(super) fn spent(&self) -> u32 {
        self.lock().spent
    }

    /// Returns the number of calls beyond the budget.
    pub(super) fn over_budget(&self) -> u32 {
        self.lock().over_budget
    }

    /// Counts an allowed submission that the tool answered with an error.
    pub(super) fn refuse_submission(&self) {
        let mut chain: Vec<_> = self.chain().map(Self::lock).collect();
        chain.iter_mut().for_each(|kept| kept.refuse_submission());
    }

    /// Returns the number of refused submissions here and in sessions below.
    pub(super) fn refused_submissions(&self) -> u32 {
        self.lock().refused_submissions
    }

    /// Returns true if this session, or a session above it, ended because too many submissions were refused.
    pub(super) fn is_out_of_submissions(&self) -> bool {
        self.chain().any(|audit_log| audit_log.lock().is_out_of_submissions())
    }

    /// Closes the session: every later call is denied.
    pub(super) fn close(&self) {
        // Sessions below see the flag through their chain.
        self.lock().is_closed = true;
    }

    /// Closes this session and those above it because the answer was submitted. Returns false if one of them was already closed: the
    /// answer is then too late.
    pub(super) fn hand_in(&self) -> bool {
        let mut chain: Vec<_> = self.chain().map(Self::lock).collect();
        if chain.iter().any(|kept| kept.is_over()) {
            return false;
        }
        chain.iter_mut().for_each(|kept| kept.is_handed_in = true);
        true
    }

    /// Returns true if the answer was submitted here or in a session below.
    pub(super) fn is_handed_in(&self) -> bool {
        self.lock().is_handed_in
    }

    /// Returns true if this session or a session above it was closed, for any reason.
    pub(super) fn is_closed(&self) -> bool {
        self.chain().any(|audit_log| audit_log.lock().is_over())
    }

    /// Returns the decisions, oldest first.
    pub(super) fn decisions(&self) -> Vec<Decision> {
        // Build the decisions after the lock ends, because each one copies the arguments of its call.
        let entries: Vec<RetainedDecision> = self.lock().decisions.iter().cloned().collect();
        entries.iter().map(RetainedDecision::decision).collect()
    }

    /// Returns true if a call with this fingerprint was denied, and every allowed one has succeeded.
    pub(super) fn was_denied(&self, call: Fingerprint) -> bool {
        let kept = self.lock();
        let alike = kept.decisions.iter().filter(|entry| entry.fingerprint == Some(call));
        let (allowed, denied): (Vec<_>, Vec<_>) = alike.partition(|entry| entry.is_allowed());
        !denied.is_empty() && allowed.iter().all(|entry| entry.outcome.has_succeeded())
    }

    /// Returns the greatest effects of the allowed calls.
    pub(super) fn effects(&self) -> Effects {
        self.lock().effects
    }

    /// Returns a mark with the present counts and effects.
    pub(super) fn mark(&self) -> SessionMark {
        let DecisionLedger { spent, over_budget, refused_submissions, effects, is_handed_in, .. } =
            *self.lock();
        SessionMark { spent, over_budget, refused_submissions, effects, is_handed_in }
    }

    /// Resets counts and effects to a mark, and reopens a session that a submitted answer had closed since. Decisions stay.
    pub(super) fn rewind(&self, mark: &SessionMark) {
        let mut kept = self.lock();
        // An answer that was submitted before the mark stays submitted.
        kept.is_handed_in &= mark.is_handed_in;
        (kept.spent, kept.over_budget, kept.effects) = (mark.spent, mark.over_budget, mark.effects);
        kept.refused_submissions = mark.refused_submissions;
    }

    /// Returns the number of dropped decisions.
    pub(super) fn forgotten(&self) -> u64 {
        self.lock().forgotten
    }

    /// Returns this log and those above it, in the order in which all code locks them.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |audit_log| audit_log.above.as_deref())
    }

    fn lock(&self) -> MutexGuard<'_, DecisionLedger> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DecisionLedger {
    fn is_over(&self) -> bool {
        self.is_closed || self.is_handed_in || self.is_out_of_submissions()
    }

    fn is_out_of_submissions(&self) -> bool {
        let is_used_up = self.submission_limit.is_some_and(|limit| self.refused_submissions >= limit);
        is_used_up || self.is_refused_elsewhere
    }

    fn refuse_submission(&mut self) {
        self.refused_submissions = self.refused_submissions.saturating_add(1);
    }

    fn count(&mut self, counts: Counts) {
        if counts == Counts::Once {
            self.spent = self.spent.saturating_add(1);
        }
    }

    fn add(&mut self, entry: RetainedDecision, counts: Counts) {
        if counts == Counts::Stranger {
            self.strangers += 1;
            if self.strangers > MAX_STRANGERS {
                self.forgotten += 1;
                return;
            }
        }
        self.bytes += entry.bytes;
        self.decisions.push_back(entry);
        // Dropped decisions still count in `spent` and `effects`.
        while self.decisions.len() > MAX_KEPT || self.bytes > MAX_KEPT_BYTES {
            let Some(oldest) = self.decisions.pop_front() else { return };
            self.bytes -= oldest.bytes;
            self.forgotten += 1;
        }
    }
}

/// Returns the estimated memory of a decision, in bytes.
fn weight(decision: &Decision, may_be_denied: bool) -> usize {
    /// Bound on the memory of any denial.
    const DENIAL: usize = 4 << 10;
    let denial = if may_be_denied { DENIAL } else { 0 };
    size_of::<Decision>() + decision.tool.len() + weight_of(&decision.arguments) + denial
}

fn weight_of(value: &Value) -> usize {
    /// Memory of a map entry in addition to its key and value.
    const ENTRY: usize = 64;
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight_of).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| ENTRY + name.len() + weight_of(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(counts: Counts, arguments: &Value) -> UndecidedCall {
        UndecidedCall::new("clerk".into(), ("look", arguments), counts, Effects::Read)
    }

    fn settle(audit_log: &AuditLog, counts: Counts) -> Result<(), Denial> {
        audit_log.settle(asked(counts, &json!({})), |standing| match standing {
            CallAdmission::Open => Ok(()),
            CallAdmission::Closed => Err(Denial::Closed),
            CallAdmission::OverBudget(budget) => Err(Denial::OverBudget { budget, terminal: Vec::new() }),
        })
    }

    fn over(budget: u32) -> Result<(), Denial> {
        Err(Denial::OverBudget { budget, terminal: Vec::new() })
    }

    #[test]
    fn an_audit_log_below_another_takes_from_both_budgets() {
        let whole = Arc::new(AuditLog::of(Some(3)));
        let first = AuditLog::below(&whole, Some(2));
        assert_eq!([0; 3].map(|_| settle(&first, Counts::Once)), [Ok(()), Ok(()), over(2)]);
        let second = AuditLog::below(&whole, None);
        assert_eq!([0; 2].map(|_| settle(&second, Counts::Once)), [Ok(()), over(3)]);
        assert_eq!((whole.spent(), first.spent(), second.spent()), (3, 2, 1));
        assert_eq!((whole.over_budget(), first.over_budget(), second.over_budget()), (2, 1, 1));
        assert_eq!(settle(&first, Counts::Never), Ok(()));
        assert_eq!((whole.decisions().len(), first.decisions().len()), (6, 4));
    }

    #[test]
    fn what_is_closed_above_is_closed_below_and_counts_nothing() {
        let whole = Arc::new(AuditLog::of(None));
        let below = AuditLog::below(&whole, None);
        whole.close();
        assert!(below.is_closed());
        assert_eq!(settle(&below, Counts::Once), Err(Denial::Closed));
        assert_eq!((below.spent(), whole.decisions().len()), (0, 1));
    }

    #[test]
    fn what_was_handed_in_and_put_back_can_be_handed_in_again() {
        let whole = Arc::new(AuditLog::of(None));
        let (first, second) = (AuditLog::below(&whole, None), AuditLog::below(&whole, None));
        let mark = whole.mark();
        assert!(first.hand_in() && whole.is_handed_in() && !second.is_handed_in());
        assert!(!second.hand_in(), "the first one counts");
        assert_eq!(settle(&second, Counts::Never), Err(Denial::Closed));
        whole.rewind(&mark);
        assert!(!whole.is_handed_in() && !whole.is_closed());
        assert!(AuditLog::below(&whole, None).hand_in());
        // What its owner closed stays closed.
        let closed = AuditLog::of(None);
        let mark = closed.mark();
        closed.close();
        closed.rewind(&mark);
        assert!(closed.is_closed() && !closed.hand_in());
        let both = AuditLog::of(None);
        let mark = both.mark();
        assert!(both.hand_in());
        both.close();
        both.rewind(&mark);
        assert!(both.is_closed() && !both.is_handed_in());
    }

    #[test]
    fn of_too_many_decisions_the_oldest_are_forgotten() {
        let audit_log = AuditLog::of(None);
        for number in 0..MAX_KEPT + 3 {
            audit_log.settle(asked(Counts::Once, &json!(number)), |_| Ok(())).unwrap();
        }
        assert_eq!((audit_log.decisions().len(), audit_log.forgotten()), (MAX_KEPT, 3));
        assert_eq!(audit_log.decisions()[0].arguments, json!(3));
    }

    #[test]
    fn large_arguments_are_forgotten_sooner() {
        let audit_log = AuditLog::of(None);
        let zeros = json!(vec![0; 7_000]);
        for _ in 0..1_000 {
            audit_log.settle(asked(Counts::Once, &zeros), |_| Ok(())).unwrap();
        }
        assert!(audit_log.lock().bytes <= MAX_KEPT_BYTES);
        assert_eq!(audit_log.decisions().len() as u64 + audit_log.forgotten(), 1_000);
        let fitting = MAX_KEPT_BYTES / (7_000 * size_of::<Value>());
        let kept = audit_log.decisions().len();
        assert!((fitting / 2..=fitting).contains(&kept), "{kept} of {fitting}");
    }

    #[test]
    fn strangers_displace_nothing() {
        let audit_log = AuditLog::of(Some(1));
        settle(&audit_log, Counts::Once).unwrap();
        for _ in 0..100_000 {
            let wrong =
                audit_log.settle(asked(Counts::Stranger, &Value::Null), |_| Err::<(), _>(Denial::WrongToken));
            assert_eq!(wrong, Err(Denial::WrongToken));
        }
        let decisions = audit_log.decisions();
        assert_eq!(
            (decisions.len() as u64, audit_log.forgotten()),
            (1 + MAX_STRANGERS, 100_000 - MAX_STRANGERS)
        );
        assert_eq!((&decisions[0].outcome, audit_log.spent()), (&DecisionOutcome::Allowed, 1));
        assert!(
            !audit_log.was_denied(Fingerprint::of("look", &Value::Null)),
            "they are taken for the participant"
        );
    }

    #[test]
    fn effects_are_those_of_calls_that_were_let_through_and_outlive_their_decisions() {
        let whole = Arc::new(AuditLog::of(Some(1)));
        let audit_log = AuditLog::below(&whole, None);
        let wrote = UndecidedCall::new("clerk".into(), ("pay", &json!({})), Counts::Once, Effects::Wrote);
        assert_eq!(audit_log.effects(), Effects::None);
        audit_log.settle(wrote, |_| Ok(())).unwrap();
        let unknown = UndecidedCall::new("clerk".into(), ("pay", &json!({})), Counts::Once, Effects::Unknown);
        audit_log.settle(unknown, |_| Err::<(), _>(Denial::Closed)).unwrap_err();
        for number in 0..MAX_KEPT + 3 {
            let call =
                UndecidedCall::new("clerk".into(), ("look", &json!(number)), Counts::Never, Effects::Read);
            audit_log.settle(call, |_| Ok(())).unwrap();
        }
        assert!(audit_log.forgotten() > 0);
        assert_eq!((audit_log.effects(), whole.effects()), (Effects::Wrote, Effects::Wrote));
    }

    #[test]
    fn a_record_that_is_set_back_counts_anew_and_keeps_its_decisions() {
        let audit_log = AuditLog::of(Some(2));
        settle(&audit_log, Counts::Once).unwrap();
        let mark = audit_log.mark();
        let wrote = || UndecidedCall::new("clerk".into(), ("pay", &json!({})), Counts::Once, Effects::Wrote);
        audit_log.settle(wrote(), |_| Ok(())).unwrap();
        assert_eq!(settle(&audit_log, Counts::Once), over(2));
        audit_log.rewind(&mark);
        assert_eq!((audit_log.spent(), audit_log.over_budget()), (1, 0));
        assert_eq!((audit_log.effects(), audit_log.decisions().len()), (Effects::Read, 3));
        assert_eq!(settle(&audit_log, Counts::Once), Ok(()));
        assert_eq!(settle(&audit_log, Counts::Once), over(2), "only what was put back is free again");
    }

    #[test]
    fn of_calls_that_are_alike_one_was_denied_only_if_those_let_through_succeeded() {
        let audit_log = AuditLog::of(Some(1));
        let call = asked(Counts::Once, &json!({}));
        let (outcome, alike) = (call.outcome(), Fingerprint::of("look", &json!({})));
        assert!(!audit_log.was_denied(alike));
        audit_log.settle(call, |_| Ok(())).unwrap();
        assert!(!audit_log.was_denied(alike));
        settle(&audit_log, Counts::Once).unwrap_err();
        assert!(!audit_log.was_denied(alike), "it may be the first that is asked for");
        outcome.succeeded();
        assert!(audit_log.was_denied(alike));
        assert!(!audit_log.was_denied(Fingerprint::of("look", &json!({ "at": 1 }))));
    }
}

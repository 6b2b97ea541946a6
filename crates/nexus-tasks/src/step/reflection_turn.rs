//! Turn of the reflector, which answers a verdict that does not advance.

use std::sync::Arc;

use nexus_core::{BeforeRetry, FileTools, Submission, Tool, ToolAccess, TurnRequest};
use nexus_router::{Router, WorkKind};
use nexus_work::{AgentRoute, Assignment};

use super::{
    agent_evidence::{AgentEvidence, TestNumbers},
    agents::is_bound,
    attempt::StepAttempt,
    earlier::{shown_handoffs, shown_verdict_at_hand, shown_work},
    tools::{NowFiles, toolbox},
    units::FailureText,
    watcher::StepRole,
    work::StepWork,
};
use crate::{
    agent::{AgentPhase, briefing},
    evidence::StepEvidence,
    problem_brief::PlanStep,
    review::{Reflection, ReviewVerdict},
};

/// Type of the agent, and its work-kind.
const REFLECTOR: &str = "reflector";

impl StepAttempt<'_> {
    /// Runs the reflector on a verdict. Returns its answer and its evidence, or `None` if no reflector is bound.
    pub(super) async fn reflect(
        &self,
        router: &Router,
        step: &PlanStep<'_>,
        work: &StepWork,
        verdict: &ReviewVerdict,
    ) -> Option<(Result<Reflection, String>, StepEvidence)> {
        let kind = WorkKind::from(REFLECTOR);
        if !is_bound(router, &kind) {
            return None;
        }
        let evidence = AgentEvidence::new(
            verdict.basis().evidence.clone(),
            TestNumbers::after(&verdict.basis().evidence),
        );
        let reflection = self.reflection(router, kind, step, work, verdict, &evidence).await;
        Some((reflection.map_err(|failure| failure.in_full()), evidence.runs()))
    }

    async fn reflection(
        &self,
        router: &Router,
        kind: WorkKind,
        step: &PlanStep<'_>,
        work: &StepWork,
        verdict: &ReviewVerdict,
        evidence: &AgentEvidence,
    ) -> Result<Reflection, FailureText> {
        let unknown = |error| FailureText::new(format!("the type {REFLECTOR:?} is not registered"), &error);
        let phase = AgentPhase::of(REFLECTOR, self.types).map_err(unknown)?;
        let names = AgentPhase::tools_of(REFLECTOR, self.types).map_err(unknown)?;
        let agent = self.agent(step.first(), StepRole::Reflector, REFLECTOR, phase);
        let (scope, diff) = self.reviewable(work, &names).await?;

        let criteria: Vec<String> = verdict.basis().criteria.iter().cloned().collect();
        let hints: Vec<&str> = self.hints.iter().map(String::as_str).collect();
        let briefing = briefing(self.brief, step.work(), &criteria, &hints);
        let handoffs = shown_handoffs(&self.settled, self.cursor.entry)
            + &shown_work(&work.handoffs)
            + &shown_verdict_at_hand(verdict);
        let now = NowFiles::Commit(work.commit.clone());
        let place = self.tool_place(now, evidence.clone(), briefing.clone(), handoffs, Arc::new(diff.text()));

        let submission = {
            let (brief, types, folder) = (self.brief.clone(), self.types.clone(), self.review_folder());
            Submission::new().checked_by(move |reflection: &Reflection| {
                reflection.check(&brief, &types, &folder).map_err(|error| error.to_string())
            })
        };
        let submit = Tool::submit(
            "submit_reflection",
            "Submits your decision on the failed step, and ends your work. \
                Give exactly one of re_brief, re_dispatch and accept_terminal.",
            &submission,
        );
        let tools = toolbox(&names, &Arc::new(place), &FileTools::new(scope.files()), &submit);
        // The next backend starts without the submission and the evidence of the failed one. A reflector changes no
        // files.
        let hook = {
            let (submission, evidence) = (submission.clone(), evidence.clone());
            BeforeRetry::new(move |_attempt| {
                submission.take();
                evidence.take_back();
                async { Ok::<(), std::convert::Infallible>(()) }
            })
        };
        let of_the_type = self.types.find(REFLECTOR).ok().and_then(|found| found.prompt.as_deref());
        let request = TurnRequest::new(briefing)
            .with_system(self.prompts.system_with(phase, of_the_type))
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(self.limits(1));
        let assignment = Assignment {
            route: AgentRoute::Kind(kind),
            request,
            participant: REFLECTOR.into(),
            scope,
            tools: Arc::new(tools),
            tool_calls: phase.tool_calls(),
            refused_submissions: self.settings.max_refused_submissions,
            host: self.host().with_before_retry(hook),
            record: self.record_of(&agent),
            answer: Box::new(move || submission.take()),
        };
        let report = self.run_agent(router, &agent, &assignment).await;
        report.answer.map_err(|failure| FailureText::new("the reflector gave no answer", &failure))
    }
}

//! Verdicts from a milestone's artifacts: on its research, and on its result.

use std::{fmt::Write as _, path::PathBuf};

use nexus_project::ProjectError;
use serde::Serialize;

use super::{
    document::NONE,
    frontmatter::{MilestoneStatus, Research, ResearchVerdict, WorkStatus},
    id::{MilestoneId, SliceId},
    kind::Kind,
    research::{self, Reconciled, Reconciliation},
    status::{self, CriterionResult},
    tree::Artifacts,
};

/// Verdict on a milestone's research: ready for planning or not.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Gate {
    /// The milestone.
    pub milestone: MilestoneId,
    /// The verdict.
    pub verdict: ResearchVerdict,
    /// Number of reconciled outputs.
    pub k: usize,
    /// Agreement of the outputs, from 0 to 1.
    pub agreement_score: f64,
    /// Number of decisions without a majority.
    pub contested_count: usize,
    /// Number of contested decisions without a `Pick` or `Discard` in RESEARCH.
    pub unresolved: usize,
    /// Texts of the contested decisions. Empty without the researchers' outputs.
    pub contested: Vec<String>,
}

/// Overview of a milestone and its slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct MilestoneReport {
    /// The milestone.
    pub milestone: MilestoneId,
    /// Status that follows from its verification. `None` without a verification.
    pub status: Option<MilestoneStatus>,
    /// Success criteria of the verification.
    pub criteria: Vec<CriterionResult>,
    /// Slices, with the number of tasks in each status.
    pub slices: Vec<SliceReport>,
}

/// Number of a slice's tasks in each status, in the order of [`WorkStatus::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SliceReport {
    /// The slice.
    pub slice: SliceId,
    /// The statuses that occur, with the number of tasks.
    pub tasks: Vec<(WorkStatus, usize)>,
}

impl Artifacts {
    /// Reconciles the outputs of a milestone's researchers.
    ///
    /// # Errors
    ///
    /// As [`research::reconcile`]; [`Unknown`](nexus_project::ProjectErrorKind::Unknown) if the milestone does not exist;
    /// errors of the file system.
    pub fn reconcile(&self, milestone: MilestoneId) -> Result<Reconciliation, ProjectError> {
        self.require_milestone(milestone)?;
        research::reconcile(&self.researcher_outputs(milestone)?)
    }

    /// Writes the reconciled outputs of the researchers as the milestone's RESEARCH. A contested decision is unresolved
    /// there until RESEARCH has `Pick …` or `Discard …` for it.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::reconcile`]; [`WrongState`](nexus_project::ProjectErrorKind::WrongState) if a RESEARCH exists.
    pub fn write_research(&self, milestone: MilestoneId) -> Result<PathBuf, ProjectError> {
        let _lock = self.lock()?;
        // Reconcile under the lock, so that no other writer of Nexus replaces RESEARCH in between.
        let reconciliation = self.reconcile(milestone)?;
        let path = self.milestone_file(milestone, Kind::Research);
        if self.read(&path, Kind::Research)?.is_some() {
            let message = format!("{path:?} is there");
            return Err(ProjectError::wrong_status(message, "move it away, then repeat the call"));
        }
        self.write(&path, &render(milestone, &reconciliation))?;
        Ok(path)
    }

    /// Decides if a milestone's research is ready for planning, from the researchers' outputs and the contested decisions in
    /// RESEARCH. Without outputs, the numbers of RESEARCH count.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::reconcile`], if RESEARCH does not exist either.
    pub fn gate(&self, milestone: MilestoneId) -> Result<Gate, ProjectError> {
        self.require_milestone(milestone)?;
        let outputs = self.researcher_outputs(milestone)?;
        let path = self.milestone_file(milestone, Kind::Research);
        let research = self.read(&path, Kind::Research)?;
        let unresolved = research.as_ref().map_or(0, research::unresolved);
        let (k, agreement_score, contested_count, contested) = match &research {
            Some(research) if outputs.is_empty() => {
                let said = research.read::<Research>()?;
                let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                (count(said.k), said.agreement_score, count(said.contested_count), Vec::new())
            }
            _ => {
                let found = research::reconcile(&outputs)?;
                let contested = found.contested.into_iter().map(|one| one.text).collect();
                (found.k, found.agreement_score, found.contested_count, contested)
            }
        };
        let verdict = research::verdict(agreement_score, contested_count as u64, unresolved);
        Ok(Gate { milestone, verdict, k, agreement_score, contested_count, unresolved, contested })
    }

    /// Returns the result of a milestone and the progress of its slices.
    ///
    /// # Errors
    ///
    /// [`Unknown`](nexus_project::ProjectErrorKind::Unknown) for a missing milestone; those of
    /// [`Self::task_list`].
    pub fn report(&self, milestone: MilestoneId) -> Result<MilestoneReport, ProjectError> {
        self.require_milestone(milestone)?;
        let verification =
            self.read(&self.milestone_file(milestone, Kind::Verification), Kind::Verification)?;
        let criteria = verification.as_ref().map(status::criteria);
        let mut slices = Vec::new();
        for slice in self.slices(milestone)? {
            let tasks = self.task_list(slice)?;
            let count = |status: WorkStatus| tasks.iter().filter(|task| task.status == status).count();
            let counts = WorkStatus::ALL.iter().map(|status| (*status, count(*status)));
            slices.push(SliceReport { slice, tasks: counts.filter(|(_, count)| *count > 0).collect() });
        }
        let status = criteria.as_deref().map(status::follows);
        Ok(MilestoneReport { milestone, status, criteria: criteria.unwrap_or_default(), slices })
    }
}

fn render(milestone: MilestoneId, found: &Reconciliation) -> String {
    let Reconciliation { k, agreement_score, contested_count, .. } = found;
    // A new RESEARCH resolves nothing yet, so every contested decision counts as unresolved.
    let verdict = found.verdict(*contested_count);
    let mut text = format!(
        "---\nschema_version: 2\nmilestone: \"{milestone}\"\ntype: research\nagent: nexus\nk: {k}\nagreement_score: {agreement_score}\ncontested_count: {contested_count}\nreconciler_verdict: {verdict}\n"
    );
    let counts = [
        ("decision", &found.decisions),
        ("risk", &found.risks),
        ("pattern", &found.patterns),
        ("open_question", &found.open_questions),
        ("source", &found.sources),
    ];
    for (name, entries) in counts {
        let _ = writeln!(text, "{name}_count: {}", entries.len());
    }
    let _ = write!(
        text,
        "---\n\n# {milestone} — Research\n\n## Reconciler Summary\n\n{k} outputs agree on {} decisions and contest {contested_count}; agreement {agreement_score}.\n",
        found.decisions.len()
    );
    section(&mut text, "Final Decisions", "D", &found.decisions, |text, one| {
        let _ = write!(
            text,
            "- **Reconciled-from:** {}\n- **Reasoning-Trace-Agreement:** {}\n",
            from(one),
            one.agreement.as_str()
        );
        reasoning(text, one);
    });
    section(&mut text, "Contested Decisions", "CD", &found.contested, |text, one| {
        let _ = writeln!(text, "- **Reconciled-from:** {}", from(one));
        reasoning(text, one);
        text.push_str("- **Reconciler verdict:** Unresolved\n");
    });
    section(&mut text, "Final Risks", "R", &found.risks, reasoning);
    section(&mut text, "Final Patterns", "P", &found.patterns, reasoning);
    section(&mut text, "Final Open Questions", "Q", &found.open_questions, |_, _| {});
    section(&mut text, "Sources", "S", &found.sources, |_, _| {});
    text
}

fn section(
    text: &mut String,
    name: &str,
    prefix: &str,
    entries: &[Reconciled],
    write: impl Fn(&mut String, &Reconciled),
) {
    let _ = write!(text, "\n## {name}\n");
    if entries.is_empty() {
        let _ = write!(text, "\n{NONE}\n");
    }
    for (entry, number) in entries.iter().zip(1..) {
        let _ = write!(text, "\n### {prefix}-{number}: {}\n", entry.text);
        write(text, entry);
    }
}

fn from(one: &Reconciled) -> String {
    one.from.iter().map(|index| format!("spawn-{index}")).collect::<Vec<_>>().join(", ")
}

fn reasoning(text: &mut String, one: &Reconciled) {
    let said = if one.reasoning.is_empty() { "unknown".to_owned() } else { one.reasoning.join(" / ") };
    let _ = writeln!(text, "- **Reasoning:** {said}");
}

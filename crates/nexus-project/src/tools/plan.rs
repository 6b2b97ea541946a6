//! Planning: issues to decide, and decisions.

use nexus_mcp::page::{MOST_BYTES, fitted, page};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::argument::{MOST_NUMBERS, checked_text, checked_title, numbers};
use crate::{
    error::ProjectError,
    folder::{ProjectFolder, new_id},
    state::{Issue, IssueStatus, PlanDecision, ProjectPlan},
    time::Time,
};

/// Arguments of `plan_start`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanStartRequest {
    /// Topic of the plan: one line.
    pub topic: String,
    /// Issues to decide: one line each.
    #[serde(default)]
    pub issues: Vec<String>,
    /// Findings of research.
    #[serde(default)]
    pub research_summary: Option<String>,
}

/// Result of `plan_start`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanStarted {
    /// Topic of the plan.
    pub topic: String,
    /// Issues to decide.
    pub issues: Vec<IssueView>,
    /// The plan that was there before, and is in the history now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<PlanArchived>,
}

/// A plan that went to the history.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanArchived {
    /// The cycle that it is in.
    pub cycle: String,
    /// Topic of the plan.
    pub topic: String,
}

/// An issue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct IssueView {
    /// Its number.
    pub id: u32,
    /// Question to decide.
    pub title: String,
    /// Its progress.
    pub status: IssueStatus,
    /// The decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
}

impl From<&Issue> for IssueView {
    fn from(issue: &Issue) -> Self {
        Self {
            id: issue.id,
            title: issue.title.clone(),
            status: issue.status(),
            decision: issue.decision.as_ref().map(|decision| decision.text.clone()),
        }
    }
}

/// Arguments of `plan_status`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanStatusRequest {
    /// The first issue to show, counted from 0: `next_offset` of the page before.
    #[serde(default)]
    pub offset: Option<u64>,
}

/// Result of `plan_status`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PlanView {
    /// True if the project has a plan.
    pub active: bool,
    /// State of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PlanState>,
    /// Topic of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Findings of research; cut if they are long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub research_summary: Option<String>,
    /// The numbers of the issues that are to be decided; the first 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Vec<u32>>,
    /// The numbers of the issues that are decided; the first 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Vec<u32>>,
    /// The issues of this page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issues: Option<Vec<IssueView>>,
    /// Offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// State of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Something is to be decided.
    Active,
    /// All issues are decided, or the plan has no issues. `task_close` closes the plan.
    Decided,
}

impl PlanState {
    /// Returns the state of a plan with this number of undecided issues.
    pub(super) fn of_pending(pending: usize) -> Self {
        if pending == 0 { Self::Decided } else { Self::Active }
    }
}

/// Arguments of `plan_update`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanUpdateRequest {
    /// Change to make to an issue.
    pub action: PlanAction,
    /// The issue's number: needed for all but `add`.
    #[serde(default)]
    pub issue: Option<u32>,
    /// Question to decide: needed for `add` and `edit`, one line.
    #[serde(default)]
    pub title: Option<String>,
}

/// Change to an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanAction {
    /// Adds an issue.
    Add,
    /// Removes a pending issue.
    Remove,
    /// Changes the title of a pending issue.
    Edit,
    /// Makes a decided issue pending again. The plan keeps the earlier decision.
    Reopen,
}

/// Result of `plan_update`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanUpdated {
    /// The issue as it is now, or as it was when it was removed.
    pub issue: IssueView,
    /// The numbers of the issues that are to be decided; the first 300.
    pub pending: Vec<u32>,
}

/// Arguments of `plan_decide`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDecideRequest {
    /// The issue's number.
    pub issue: u32,
    /// The decision and its reason.
    pub decision: String,
}

/// Result of `plan_decide`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanDecided {
    /// The issue.
    pub issue: IssueView,
    /// The numbers of the issues that are still to be decided; the first 300.
    pub pending: Vec<u32>,
    /// Present state of the plan.
    pub state: PlanState,
}

impl ProjectFolder {
    /// Begins a planning session. An existing plan is moved to the history first.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn plan_start(&self, request: PlanStartRequest) -> Result<PlanStarted, ProjectError> {
        let topic = checked_title("topic", &request.topic)?;
        let titles: Result<Vec<_>, _> =
            request.issues.iter().map(|title| checked_title("issues", title)).collect();
        let plan = ProjectPlan::new(
            new_id()?,
            topic,
            checked_text("research_summary", request.research_summary)?,
            titles?,
        );
        self.locked(|| {
            let archived = match self.plan()? {
                None => {
                    self.write_plan(&plan)?;
                    None
                }
                Some(old) => {
                    let topic = old.topic.clone();
                    let cycle = self.archive(Some(old), None, Some(plan.clone()))?;
                    Some(PlanArchived { cycle: cycle.id, topic })
                }
            };
            let issues = plan.issues.iter().map(IssueView::from);
            let (issues, _) = page(issues, 0, MOST_BYTES - 2_000);
            Ok(PlanStarted { topic: plan.topic.clone(), issues, archived })
        })
    }

    /// Returns the pending and the decided issues.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn plan_status(&self, request: &PlanStatusRequest) -> Result<PlanView, ProjectError> {
        let Some(plan) = self.looked(|| self.plan())? else { return Ok(PlanView::default()) };
        let offset = request.offset.unwrap_or_default();
        Ok(fitted(|most| {
            let cut = |text: &String| nexus_mcp::page::cut(text, most);
            let views = plan.issues.iter().map(|issue| {
                let mut view = IssueView::from(issue);
                view.decision = view.decision.as_ref().map(cut);
                view
            });
            let (issues, next_offset) = page(views, offset, MOST_BYTES / 2);
            PlanView {
                active: true,
                state: Some(state_of(&plan)),
                topic: Some(plan.topic.clone()),
                research_summary: plan.research_summary.as_ref().map(cut),
                pending: Some(pending_of(&plan)),
                decided: Some(
                    plan.issues
                        .iter()
                        .filter(|issue| issue.decision.is_some())
                        .map(|issue| issue.id)
                        .take(MOST_NUMBERS)
                        .collect(),
                ),
                issues: Some(issues),
                next_offset,
            }
        }))
    }

    /// Adds, removes, edits or reopens an issue.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn plan_update(&self, request: &PlanUpdateRequest) -> Result<PlanUpdated, ProjectError> {
        let title = |title: &Option<String>| match title {
            Some(title) => checked_title("title", title),
            None => {
                Err(ProjectError::invalid("`title` is missing", "write the question that must be decided"))
            }
        };
        self.locked(|| {
            let mut plan = self.plan()?.ok_or_else(no_plan)?;
            let issue = match request.action {
                PlanAction::Add => {
                    if request.issue.is_some() {
                        let instead = "leave it out: the number of a new issue is in the result";
                        return Err(ProjectError::invalid("`issue` is not taken with `add`", instead));
                    }
                    let title = title(&request.title)?;
                    plan.last_issue = plan.last_issue.saturating_add(1);
                    plan.issues.push(Issue::new(plan.last_issue, title));
                    IssueView::from(&plan.issues[plan.issues.len() - 1])
                }
                PlanAction::Remove => {
                    let place = place_of(&plan, request.issue)?;
                    refuse_decided(&plan.issues[place], "removed")?;
                    IssueView::from(&plan.issues.remove(place))
                }
                PlanAction::Edit => {
                    let place = place_of(&plan, request.issue)?;
                    refuse_decided(&plan.issues[place], "edited")?;
                    plan.issues[place].title = title(&request.title)?;
                    IssueView::from(&plan.issues[place])
                }
                PlanAction::Reopen => {
                    let place = place_of(&plan, request.issue)?;
                    let issue = &mut plan.issues[place];
                    match issue.decision.take() {
                        Some(decision) => issue.earlier_decisions.push(decision),
                        None => {
                            let message = format!("issue {} is not decided", issue.id);
                            return Err(ProjectError::wrong_status(
                                message,
                                "first decide the issue with \
                                plan_decide",
                            ));
                        }
                    }
                    IssueView::from(&*issue)
                }
            };
            self.write_plan(&plan)?;
            Ok(PlanUpdated { issue, pending: pending_of(&plan) })
        })
    }

    /// Records a decision.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn plan_decide(&self, request: PlanDecideRequest) -> Result<PlanDecided, ProjectError> {
        let Some(text) = checked_text("decision", Some(request.decision))? else {
            return Err(ProjectError::invalid("`decision` is empty", "write the decision and its reason"));
        };
        self.locked(|| {
            let mut plan = self.plan()?.ok_or_else(no_plan)?;
            let place = place_of(&plan, Some(request.issue))?;
            let issue = &mut plan.issues[place];
            match &issue.decision {
                // The call is a repetition: the first answer may have been lost.
                Some(decision) if decision.text == text => {}
                Some(_) => {
                    let message = format!("issue {} is already decided", issue.id);
                    let instead = "reopen it with plan_update (`reopen`), then decide it";
                    return Err(ProjectError::wrong_status(message, instead));
                }
                None => issue.decision = Some(PlanDecision { text, at: Time::now() }),
            }
            let view = IssueView::from(&*issue);
            self.write_plan(&plan)?;
            Ok(fitted(|most| {
                let decision = view.decision.as_ref().map(|text| nexus_mcp::page::cut(text, most.min(2_000)));
                let issue = IssueView { decision, ..view.clone() };
                PlanDecided { issue, pending: pending_of(&plan), state: state_of(&plan) }
            }))
        })
    }
}

/// Returns the numbers of the pending issues, limited for an answer.
fn pending_of(plan: &ProjectPlan) -> Vec<u32> {
    plan.pending().map(|issue| issue.id).take(MOST_NUMBERS).collect()
}

fn state_of(plan: &ProjectPlan) -> PlanState {
    PlanState::of_pending(plan.pending().count())
}

fn no_plan() -> ProjectError {
    ProjectError::wrong_status("there is no plan", "first create a plan with plan_start")
}

fn place_of(plan: &ProjectPlan, issue: Option<u32>) -> Result<usize, ProjectError> {
    let there_are =
        || format!("write one of these numbers: {}", numbers(plan.issues.iter().map(|issue| issue.id)));
    let Some(id) = issue else {
        return Err(ProjectError::invalid("`issue` is missing", there_are()));
    };
    let place = plan.issues.iter().position(|issue| issue.id == id);
    place.ok_or_else(|| ProjectError::unknown(format!("issue {id} does not exist"), there_are()))
}

fn refuse_decided(issue: &Issue, what: &str) -> Result<(), ProjectError> {
    if issue.decision.is_none() {
        return Ok(());
    }
    let message = format!("issue {} is already decided, and cannot be {what}", issue.id);
    Err(ProjectError::wrong_status(message, "first reopen it with plan_update (`reopen`)"))
}

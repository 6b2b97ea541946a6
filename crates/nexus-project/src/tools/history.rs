//! Decisions and tasks of earlier cycles.

use nexus_mcp::page::{MOST_BYTES, cut, cut_list, fitted, page};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    error::ProjectError,
    folder::ProjectFolder,
    state::{Cycle, History},
    time::Time,
};

/// Maximum length of a text of a cycle in output for people, in bytes.
const MOST_SHOWN: usize = 4_000;

/// Arguments of `history_search`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistorySearchRequest {
    /// Words that all have to be in a cycle, in capitals or not: in its topic, decisions, tasks, files or branch. Left out, every cycle is
    /// shown.
    #[serde(default)]
    pub query: Option<String>,
    /// Number of found cycles to skip: `next_offset` of the page before.
    #[serde(default)]
    pub offset: Option<u64>,
}

/// Result of `history_search`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryPage {
    /// Number of found cycles.
    pub found: usize,
    /// Cycles of this page, newest first.
    pub cycles: Vec<CycleView>,
    /// Offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// A cycle. Long texts are cut, and say so.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CycleView {
    /// Names it.
    pub id: String,
    /// Time of its end.
    pub closed_at: Time,
    /// The branch that was checked out then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Topic of its plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Its decisions.
    pub decisions: Vec<DecisionView>,
    /// The titles of its tasks.
    pub tasks: Vec<String>,
}

/// A decision.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DecisionView {
    /// Question that was decided.
    pub issue: String,
    /// The decision.
    pub decision: String,
}

impl ProjectFolder {
    /// Returns cycles by text, newest first.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn history_search(&self, request: &HistorySearchRequest) -> Result<HistoryPage, ProjectError> {
        let history = self.looked(|| self.history())?;
        let found = found_in(&history, request.query.as_deref().unwrap_or_default());
        let offset = request.offset.unwrap_or_default();
        Ok(fitted(|most| {
            let views = found.iter().map(|cycle| view(cycle, most));
            let (cycles, next_offset) = page(views, offset, MOST_BYTES * 3 / 4);
            HistoryPage { found: found.len(), cycles, next_offset }
        }))
    }

    /// Returns all cycles that contain these words, without pages, for programs and people.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn all_cycles(&self, query: &str) -> Result<HistoryPage, ProjectError> {
        let history = self.looked(|| self.history())?;
        let found = found_in(&history, query);
        let cycles = found.iter().map(|cycle| view(cycle, MOST_SHOWN)).collect();
        Ok(HistoryPage { found: found.len(), cycles, next_offset: None })
    }
}

/// Returns the cycles that contain all words of a query, newest first.
fn found_in<'h>(history: &'h History, query: &str) -> Vec<&'h Cycle> {
    let query = query.to_lowercase();
    let words: Vec<_> = query.split_whitespace().collect();
    history.cycles.iter().rev().filter(|cycle| has_all(cycle, &words)).collect()
}

fn has_all(cycle: &Cycle, words: &[&str]) -> bool {
    if words.is_empty() {
        return true;
    }
    let texts: Vec<_> = cycle.texts().map(str::to_lowercase).collect();
    words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
}

fn view(cycle: &Cycle, most: usize) -> CycleView {
    let decisions = cycle.plan.iter().flat_map(|plan| &plan.issues).filter_map(|issue| {
        let decision = issue.decision.as_ref()?;
        Some(DecisionView { issue: cut(&issue.title, most), decision: cut(&decision.text, most) })
    });
    let titles = cycle.tasks.iter().flat_map(|tasks| &tasks.tasks).map(|task| task.title.as_str());
    CycleView {
        id: cycle.id.clone(),
        closed_at: cycle.closed_at,
        branch: cycle.branch.as_deref().map(|branch| cut(branch, 200)),
        topic: cycle.plan.as_ref().map(|plan| plan.topic.clone()),
        decisions: decisions.take(nexus_mcp::page::most_of(50, most)).collect(),
        tasks: cut_list(titles, most),
    }
}

//! Summaries of the plan and the tasks, for hooks: their answers then cost the same for ten tasks and for ten thousand.
//!
//! A summary is a file beside its document, with the document's stamp. It is valid while the document has that stamp, so an edit by a
//! person makes it outdated. It is only a copy: without it, the document is read.

use std::{fs, io, path::Path, time::SystemTime};

use nexus_files::FileStamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    document::Document,
    plan::ProjectPlan,
    tasks::{ProjectTaskStatus, ProjectTasks},
};
use crate::{error::ProjectError, file};

/// Version of the format of summaries. A summary of another version is ignored.
const FORMAT: u32 = 1;
/// Maximum size of a summary that is written or read, in bytes. Source: our own bound; a summary has at most 9 KB of decisions, or 20
/// titles.
const MOST_SUMMARY: usize = 64 << 10;
/// Number of listed tasks that can begin.
const MOST_READY: usize = 100;
/// Number of listed open tasks.
const MOST_OPEN: usize = 20;
/// Maximum length of a listed title, in bytes. Source: our own bound, above that of the tools; a person may write a longer one.
const MOST_TITLE: usize = 500;
/// Number of listed decisions.
const MOST_DECISIONS: usize = 50;
/// Maximum size of the decisions as JSON, in bytes. Source: the part of an answer that clients pass on, without branch, tasks and skill.
const MOST_DECISION_BYTES: usize = 7_000;

/// A document with a summary of bounded size.
pub(crate) trait Summarized: Document {
    /// The summary.
    type Summary: Serialize + DeserializeOwned;

    /// File name of the summary.
    const SUMMARY: &'static str;

    /// Returns the summary.
    fn summary(&self) -> Self::Summary;
}

/// Summary of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanSummary {
    pub(crate) topic: String,
    /// Number of undecided issues.
    pub(crate) pending: usize,
    /// The first decisions. Long texts are cut.
    pub(crate) decisions: Vec<SummarizedDecision>,
    /// Number of all decisions.
    pub(crate) decided: usize,
}

/// A decision of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SummarizedDecision {
    pub(crate) issue: String,
    pub(crate) decision: String,
}

/// Summary of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TasksSummary {
    /// Number of all tasks.
    pub(crate) total: usize,
    /// Number of tasks in each status.
    pub(crate) pending: usize,
    pub(crate) in_progress: usize,
    pub(crate) completed: usize,
    /// Numbers of the first tasks that can begin.
    pub(crate) ready: Vec<u32>,
    /// The first tasks that are not completed.
    pub(crate) open: Vec<SummarizedTask>,
}

/// A task that is not completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SummarizedTask {
    pub(crate) id: u32,
    pub(crate) status: ProjectTaskStatus,
    pub(crate) title: String,
}

/// File of a summary.
#[derive(Debug, Serialize, Deserialize)]
struct SummaryFile<S> {
    version: u32,
    /// Stamp of the document.
    stamp: FileStamp,
    summary: S,
}

impl Summarized for ProjectPlan {
    type Summary = PlanSummary;

    const SUMMARY: &'static str = ".plan-summary.json";

    fn summary(&self) -> PlanSummary {
        let decided =
            || self.issues.iter().filter_map(|issue| Some((&*issue.title, &*issue.decision.as_ref()?.text)));
        let decisions = nexus_mcp::page::fitted_within(MOST_DECISION_BYTES, |most| {
            let cut = |text| nexus_mcp::page::cut(text, most);
            let first = decided().take(nexus_mcp::page::most_of(MOST_DECISIONS, most));
            first
                .map(|(issue, decision)| SummarizedDecision { issue: cut(issue), decision: cut(decision) })
                .collect::<Vec<_>>()
        });
        PlanSummary {
            topic: nexus_mcp::page::cut(&self.topic, MOST_TITLE),
            pending: self.pending().count(),
            decisions,
            decided: decided().count(),
        }
    }
}

impl Summarized for ProjectTasks {
    type Summary = TasksSummary;

    const SUMMARY: &'static str = ".tasks-summary.json";

    fn summary(&self) -> TasksSummary {
        let counts = self.counts();
        let count = |status| counts.get(&status).copied().unwrap_or_default();
        let open = self.open().take(MOST_OPEN).map(|task| SummarizedTask {
            id: task.id,
            status: task.status,
            title: nexus_mcp::page::cut(&task.title, MOST_TITLE),
        });
        TasksSummary {
            total: self.tasks.len(),
            pending: count(ProjectTaskStatus::Pending),
            in_progress: count(ProjectTaskStatus::InProgress),
            completed: count(ProjectTaskStatus::Completed),
            ready: self.ready().map(|task| task.id).take(MOST_READY).collect(),
            open: open.collect(),
        }
    }
}

/// Returns the summary of the document in the folder of the state. `None` if the document does not exist. Reads the document only if its
/// stored summary is missing or outdated, and stores a new one then. A failure to store it is ignored.
///
/// # Errors
///
/// Errors of [`Document::read`].
pub(crate) fn summary_of<D: Summarized>(state: &Path) -> Result<Option<D::Summary>, ProjectError> {
    let path = state.join(D::NAME);
    // Take the time before the stamp: a later change then gives the file another stamp.
    let now = SystemTime::now();
    let stamp = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.ok().as_ref().and_then(FileStamp::of),
    };
    if let Some(stamp) = stamp
        && let Some(summary) = stored::<D>(state, stamp)
    {
        return Ok(Some(summary));
    }
    let Some(document) = D::read(&path)? else { return Ok(None) };
    if let Some(stamp) = stamp.filter(|stamp| stamp.is_settled(now)) {
        store(state, &document, stamp);
    }
    Ok(Some(document.summary()))
}

/// Replaces a document in the folder of the state, and its summary.
///
/// # Errors
///
/// Errors of [`Document::write`].
pub(crate) fn write_summarized<D: Summarized>(state: &Path, document: &D) -> Result<(), ProjectError> {
    let path = state.join(D::NAME);
    let stamp = file::replace_stamped(&path, document.text(&path)?.as_bytes())?;
    // The file has a time to the nanosecond, which no other writer gives it. So its stamp is reliable at once.
    if let Some(stamp) = stamp.filter(FileStamp::has_fine_time) {
        store(state, document, stamp);
    }
    Ok(())
}

fn stored<D: Summarized>(state: &Path, stamp: FileStamp) -> Option<D::Summary> {
    let bytes = nexus_files::read_bounded(&state.join(D::SUMMARY), MOST_SUMMARY as u64).ok()??;
    let file: SummaryFile<D::Summary> = serde_json::from_slice(&bytes).ok()?;
    (file.version == FORMAT && file.stamp == stamp).then_some(file.summary)
}

fn store<D: Summarized>(state: &Path, document: &D, stamp: FileStamp) {
    let file = SummaryFile { version: FORMAT, stamp, summary: document.summary() };
    if let Ok(text) = serde_json::to_vec(&file)
        && text.len() <= MOST_SUMMARY
    {
        // Without the file, the document is read again.
        let _ = file::replace_copy(&state.join(D::SUMMARY), &text);
    }
}

//! The tools of a step's agents, beside those for files.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_core::{
    CancelToken, Effects, FileTools, IntoToolResult, Submission, Tool, ToolFault, ToolPattern, Toolbox,
};
use nexus_trees::{CommitId, CommitIntent, Tree, TreeError, TreeErrorKind, TreeId};
use nexus_work::{PageRequest, Quote, TextPage, bounded_answer};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{StepWatcher, agent_evidence::AgentEvidence, blocking::on_tree};
use crate::{
    checks::{CheckError, Checks, ProbeDraft, ProbeFile, ProbeSides, shown_probe, shown_test_run},
    evidence::{EvidenceId, StepEvidence},
    handoff::HandoffDraft,
};

/// What a terminal tool answers that took what was handed in.
const TAKEN: &str = "It is handed in, and your work is done.";

/// What the tools of one agent work on.
pub(super) struct ToolPlace {
    pub(super) tree: Tree,
    pub(super) checks: Checks,
    pub(super) task_base: CommitId,
    pub(super) step_base: CommitId,
    pub(super) now: NowFiles,
    pub(super) evidence: AgentEvidence,
    /// What was run in the task before: of these the probes may be run again.
    pub(super) known: StepEvidence,
    pub(super) briefing: String,
    pub(super) handoffs: String,
    /// What `read_diff` shows. Empty for those who have no such tool.
    pub(super) diff: Arc<String>,
    pub(super) history: ShownHistory,
    pub(super) cancel: CancelToken,
    pub(super) watcher: Arc<dyn StepWatcher>,
}

/// The files as they are now.
#[derive(Debug)]
pub(super) enum NowFiles {
    /// An agent is at work on them in this folder.
    Folder(PathBuf),
    /// They are those of a commit.
    Commit(CommitId),
}

/// History that `read_history` shows.
#[derive(Debug, Default)]
pub(super) struct ShownHistory {
    pub(super) text: String,
    /// Attempts with the files before their step, and those that were reviewed.
    pub(super) attempts: Vec<(u32, CommitId, CommitId)>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryRequest {
    /// The number of an attempt, to read its diff. Leave it out to read how all attempts ended.
    #[serde(default)]
    attempt: Option<u32>,
    /// Where to begin, in bytes from the start: what the last answer said to go on with.
    #[serde(default)]
    offset: Option<usize>,
}

/// A probe, or the id of one that is to be run again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProbeRequest {
    /// Files to lay into a copy of each tree. None of them may be there already.
    #[serde(default)]
    files: Vec<ProbeFile>,
    /// The program and its arguments, run in the root of the copy: `["python3", "probe.py"]`. No shell reads it.
    #[serde(default)]
    argv: Vec<String>,
    /// What the program reads from its standard input: it is run once for each. Without any, once with empty input.
    #[serde(default)]
    inputs: Vec<String>,
    /// In place of all of these: the id of a probe that was run before, such as `probe-2`, to run it again.
    #[serde(default)]
    again: Option<EvidenceId>,
}

/// The id of a probe that is to be run again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoredProbeRequest {
    /// The id of a probe that was run before, such as `probe-2`.
    again: EvidenceId,
}

/// Those of these tools that are named, in the order of the names. `submit` is the one that hands something in.
pub(super) fn toolbox(names: &[&str], place: &Arc<ToolPlace>, files: &FileTools, submit: &Tool) -> Toolbox {
    let only_stored = names.contains(&"submit_reflection");
    let of_files: Vec<Tool> = files.reading().into_iter().chain(files.writing()).collect();
    let tool = |name: &&str| match *name {
        "read_my_brief" => Some(ToolPlace::read_my_brief(place)),
        "read_handoffs" => Some(ToolPlace::read_handoffs(place)),
        "read_diff" => Some(ToolPlace::read_diff(place)),
        "read_history" => Some(ToolPlace::read_history(place)),
        "run_tests" => Some(ToolPlace::run_tests(place)),
        "run_probe" if only_stored => Some(ToolPlace::run_stored_probe(place)),
        "run_probe" => Some(ToolPlace::run_probe(place)),
        name if name == submit.definition().name => Some(submit.clone()),
        name => of_files.iter().find(|tool| tool.definition().name == name).cloned(),
    };
    names.iter().filter_map(tool).fold(Toolbox::new(), Toolbox::with)
}

/// The names of tools as a scope allows them.
pub(super) fn patterns(names: &[&str]) -> Vec<ToolPattern> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// The tool that hands in the work. What its claims cite may be lines that were changed.
pub(super) fn submit_handoff(place: &Arc<ToolPlace>, submission: &Submission<HandoffDraft>) -> Tool {
    let (place, submission) = (Arc::clone(place), submission.clone());
    let handler = move |draft: HandoffDraft| {
        let (place, submission) = (Arc::clone(&place), submission.clone());
        async move {
            if draft.claims.iter().flat_map(|claim| &claim.evidence).any(EvidenceId::is_diff) {
                place.note_changes().await?;
            }
            submission.hand_in(draft).map(|()| TAKEN).map_err(ToolFault::new)
        }
    };
    let description = "Hands in what you did or found, and ends your work.";
    Tool::new("submit_handoff", description, handler).with_effects(Effects::None).terminal()
}

impl ToolPlace {
    fn read_my_brief(this: &Arc<Self>) -> Tool {
        let description = "What this step is to reach, and what bounds it.";
        Self::paged(this, "read_my_brief", description, |place| &place.briefing)
    }

    fn read_handoffs(this: &Arc<Self>) -> Tool {
        let description =
            "What was handed in before: in earlier steps, and in this one with the verdicts on it.";
        Self::paged(this, "read_handoffs", description, |place| &place.handoffs)
    }

    /// A tool that shows a text of quotations.
    fn paged(this: &Arc<Self>, name: &str, description: &str, text: fn(&Self) -> &str) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: PageRequest| {
            let answer = match text(&place) {
                "" => "Nothing was handed in yet.".to_owned(),
                text => TextPage::of_quotes(text, asked.offset),
            };
            async move { answer }
        };
        Tool::new(name, description, handler).read_only()
    }

    fn read_diff(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: PageRequest| {
            let answer = shown_diff("the diff of this step", &place.diff, asked.offset);
            async move { answer }
        };
        Tool::new("read_diff", "Every byte that this step changes, as a patch.", handler).read_only()
    }

    fn read_history(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: HistoryRequest| {
            let place = Arc::clone(&place);
            async move { place.history(&asked).await }
        };
        let description = "How earlier attempts ended, with the verdicts on them, and the diff of each.";
        Tool::new("read_history", description, handler).read_only()
    }

    fn run_tests(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move || {
            let place = Arc::clone(&place);
            async move {
                let now = place.now().await?;
                let run = match place.now {
                    // What its own runs built is there for the agent that is at work, and for nobody who judges that.
                    NowFiles::Folder(_) => place.checks.run_tests_at_work(&now, &place.cancel).await,
                    NowFiles::Commit(_) => place.checks.run_tests(&now, &place.cancel).await,
                };
                let run = run.map_err(|error| place.fault(error))?;
                let id = place.evidence.add_test();
                Ok::<_, ToolFault>(bounded_answer(shown_test_run(&id, &run)))
            }
        };
        let description = "Runs the project's tests on a copy of the files as they are now, and the base's own tests beside them \
                           where test or build files differ. The id in the answer is what to cite.";
        Tool::without_arguments("run_tests", description, handler).read_only()
    }

    fn run_probe(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: ProbeRequest| {
            let place = Arc::clone(&place);
            async move { place.probe(asked).await }
        };
        let description = "Runs a program of yours on copies of three trees: task_base, the files before the task; step_base, the \
                           files before this step; now, the files as they are now. Let it print what it observes: it is run twice \
                           on each, and the answer says between which trees it differs. The id in the answer is what to cite.";
        Tool::new("run_probe", description, handler).read_only()
    }

    fn run_stored_probe(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: StoredProbeRequest| {
            let place = Arc::clone(&place);
            async move { place.probe_again(&asked.again).await }
        };
        let description = "Runs a probe again that was run before, on the files as they are now.";
        Tool::new("run_probe", description, handler).read_only()
    }

    async fn probe(&self, asked: ProbeRequest) -> Result<impl IntoToolResult + use<>, ToolFault> {
        let ProbeRequest { files, argv, inputs, again } = asked;
        let Some(id) = again else {
            let sides = self.sides().await?;
            let draft = ProbeDraft { files, argv, inputs };
            let record = self
                .checks
                .run_probe(draft, &sides, &self.cancel)
                .await
                .map_err(|error| self.fault(error))?;
            return Ok(bounded_answer(shown_probe(&self.evidence.add_probe(record.number), &record)));
        };
        if !files.is_empty() || !argv.is_empty() || !inputs.is_empty() {
            return Err(ToolFault::new("give either `again`, or a program of your own, not both"));
        }
        self.probe_again(&id).await
    }

    async fn probe_again(&self, id: &EvidenceId) -> Result<String, ToolFault> {
        // Of probes that others run at the same time nothing is told, not even that they are there.
        let known = self.known.contains(id) || self.evidence.all().contains(id);
        let Some(number) = id.probe_number().filter(|_| known) else {
            return Err(ToolFault::new(format!("there is no probe of the id {id} that you can run again")));
        };
        let sides = self.sides().await?;
        let record = self
            .checks
            .run_probe_again(number, &sides, &self.cancel)
            .await
            .map_err(|error| self.fault(error))?;
        Ok(bounded_answer(shown_probe(&self.evidence.add_probe(record.number), &record)))
    }

    async fn history(&self, asked: &HistoryRequest) -> Result<String, ToolFault> {
        let Some(attempt) = asked.attempt else {
            return Ok(match self.history.text.as_str() {
                "" => "This is the first attempt of the task.".to_owned(),
                text => TextPage::of_quotes(text, asked.offset),
            });
        };
        let found = self.history.attempts.iter().find(|(number, ..)| *number == attempt);
        let Some((_, from, to)) = found.cloned() else {
            return Err(ToolFault::new(format!("there is no attempt {attempt} with a diff to read")));
        };
        let patch = on_tree(&self.tree, &self.cancel, move |tree| tree.patch(&from, &to)).await;
        let patch = patch.map_err(|error| self.tree_fault(&error))?;
        Ok(shown_diff(&format!("the diff of attempt {attempt}"), &patch.text(), asked.offset))
    }

    async fn sides(&self) -> Result<ProbeSides, ToolFault> {
        let now = self.now().await?;
        Ok(ProbeSides { task_base: self.task_base.clone(), step_base: self.step_base.clone(), now })
    }

    /// The files as they are now, as a commit that no ref names.
    async fn now(&self) -> Result<CommitId, ToolFault> {
        let folder = match &self.now {
            NowFiles::Commit(commit) => return Ok(commit.clone()),
            NowFiles::Folder(folder) => folder.clone(),
        };
        let parent = self.step_base.clone();
        let taken = on_tree(&self.tree, &self.cancel, move |tree| {
            let snapshot = tree.snapshot(&folder)?;
            tree.commit(&unnamed(snapshot, parent))
        });
        taken.await.map_err(|error| self.tree_fault(&error))
    }

    /// Takes down which lines are changed by now, so that they can be cited.
    async fn note_changes(&self) -> Result<(), ToolFault> {
        let now = self.now().await?;
        let from = self.step_base.clone();
        let patch = on_tree(&self.tree, &self.cancel, move |tree| tree.patch(&from, &now)).await;
        self.evidence.set_patch(patch.map_err(|error| self.tree_fault(&error))?.as_bytes());
        Ok(())
    }

    /// Why something was not run, as an agent reads it.
    fn fault(&self, error: CheckError) -> ToolFault {
        match error {
            CheckError::Tree(error) => self.tree_fault(&error),
            CheckError::Refused(error) => ToolFault::new(error.to_string()),
            CheckError::NoTestCommand => ToolFault::new("this task has no test command; use run_probe"),
            CheckError::NoSuchProbe { number } => ToolFault::new(format!("there is no probe {number}")),
            CheckError::Cancelled => ToolFault::new("it was cancelled"),
            // What is wrong with the machine is nothing that an agent can mend, and names places of it.
            error => {
                self.watcher.said(&format!("something could not be run for an agent: {error}"));
                let advice =
                    "nothing can be run at the moment; go on without it, and say that it was not run";
                ToolFault::new(advice)
            }
        }
    }

    /// Why files cannot be looked at, as an agent reads it.
    fn tree_fault(&self, error: &TreeError) -> ToolFault {
        ToolFault::new(refused_files(error).unwrap_or_else(|| {
            self.watcher.said(&format!("an agent's files could not be looked at: {error}"));
            "the files cannot be looked at at the moment; try again".to_owned()
        }))
    }
}

/// Why files are not taken, without the folder that they are in. `None` if it is not for what they are.
pub(super) fn refused_files(error: &TreeError) -> Option<String> {
    let paths: Vec<String> = error.paths().iter().take(10).map(ToString::to_string).collect();
    match error.kind() {
        _ if !paths.is_empty() => {
            Some(format!("the files cannot be taken as they are: {}", paths.join("; ")))
        }
        TreeErrorKind::TooLarge => {
            Some("the files are too large, or too many: remove what does not belong there".to_owned())
        }
        TreeErrorKind::Changed => Some("a file changed while it was read: try again".to_owned()),
        TreeErrorKind::Cancelled => Some("it was cancelled".to_owned()),
        _ => None,
    }
}

/// The commit of files that no ref names. Its time is always the same, so that the same files are the same commit.
pub(super) fn unnamed(tree: TreeId, parent: CommitId) -> CommitIntent {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    CommitIntent::new(tree, parent, time, "Work that is not reviewed yet")
}

fn shown_diff(origin: &str, diff: &str, offset: Option<usize>) -> String {
    if diff.is_empty() {
        return format!("[{origin}]\nNothing is changed.");
    }
    let page = TextPage::of(diff, offset, "> ".len());
    let quoted = Quote::new(origin, page.text.strip_suffix('\n').unwrap_or(page.text));
    page.with_remark(quoted.at_most(usize::MAX).to_string())
}

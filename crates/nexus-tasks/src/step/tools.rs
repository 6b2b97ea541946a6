//! Tools of a step's agents, apart from the file tools.

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

/// Answer of a terminal tool that accepted the submission.
const TAKEN: &str = "The submission is accepted. Your work is done.";

/// Data that the tools of one agent work on.
pub(super) struct ToolPlace {
    pub(super) tree: Tree,
    pub(super) checks: Checks,
    pub(super) task_base: CommitId,
    pub(super) step_base: CommitId,
    pub(super) now: NowFiles,
    pub(super) evidence: AgentEvidence,
    /// Evidence of earlier attempts in the task. The agent may repeat these probes.
    pub(super) known: StepEvidence,
    pub(super) briefing: String,
    pub(super) handoffs: String,
    /// Text of `read_diff`. Empty for agents without this tool.
    pub(super) diff: Arc<String>,
    pub(super) history: ShownHistory,
    pub(super) cancel: CancelToken,
    pub(super) watcher: Arc<dyn StepWatcher>,
}

/// Current files of the agent.
#[derive(Debug)]
pub(super) enum NowFiles {
    /// The folder in which an agent changes them.
    Folder(PathBuf),
    /// The files of a commit.
    Commit(CommitId),
}

/// History that `read_history` shows.
#[derive(Debug, Default)]
pub(super) struct ShownHistory {
    pub(super) text: String,
    /// Attempts with two commits each: the files before the step, and the reviewed files.
    pub(super) attempts: Vec<(u32, CommitId, CommitId)>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryRequest {
    /// The number of an attempt, to read its diff. Leave it out to read how all attempts ended.
    #[serde(default)]
    attempt: Option<u32>,
    /// Offset of the page, in bytes, as given at the end of the page before.
    #[serde(default)]
    offset: Option<usize>,
}

/// A probe, or the id of an earlier probe to repeat.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProbeRequest {
    /// Files to write into a copy of each tree. Their paths must be free in all three trees.
    #[serde(default)]
    files: Vec<ProbeFile>,
    /// The program and its arguments, run in the root of the copy: `["python3", "probe.py"]`. No shell interprets it.
    #[serde(default)]
    argv: Vec<String>,
    /// Standard inputs. The program runs once for each. Without any, it runs once with empty input.
    #[serde(default)]
    inputs: Vec<String>,
    /// Replaces all other fields: the id of an earlier probe, such as `probe-2`, to repeat it.
    #[serde(default)]
    again: Option<EvidenceId>,
}

/// Id of an earlier probe to repeat.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoredProbeRequest {
    /// Id of an earlier probe, such as `probe-2`.
    again: EvidenceId,
}

/// Returns the named tools, in the order of the names. `submit` is the tool that submits the answer.
pub(super) fn toolbox(names: &[&str], place: &Arc<ToolPlace>, files: &FileTools, submit: &Tool) -> Toolbox {
    // A reflector answers a verdict: it may repeat probes, but not write new ones.
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

/// Converts the names of tools to the patterns of a scope.
pub(super) fn patterns(names: &[&str]) -> Vec<ToolPattern> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Returns the tool that submits a handoff. Claims may cite changed lines, so those are determined first.
pub(super) fn submit_handoff(place: &Arc<ToolPlace>, submission: &Submission<HandoffDraft>) -> Tool {
    let (place, submission) = (Arc::clone(place), submission.clone());
    let handler = move |draft: HandoffDraft| {
        let (place, submission) = (Arc::clone(&place), submission.clone());
        async move {
            // Determining the changed lines takes a snapshot, so do it only if a claim cites lines.
            if draft.claims.iter().flat_map(|claim| &claim.evidence).any(EvidenceId::is_diff) {
                place.note_changes().await?;
            }
            submission.hand_in(draft).map(|()| TAKEN).map_err(ToolFault::new)
        }
    };
    let description = "Submits the result of your step, and ends your work. Give each claim with the ids of \
        its evidence. Example claim: text \"parse() rejects an empty name\", evidence [\"probe-2\"]. If the \
        submission is invalid, the error names the fault: correct it, and submit again.";
    Tool::new("submit_handoff", description, handler).with_effects(Effects::None).terminal()
}

impl ToolPlace {
    fn read_my_brief(this: &Arc<Self>) -> Tool {
        let description = "Returns the outcome that this step must reach, its criteria and its limits. Call \
            it first. For a long brief, call again with the offset at the end of the answer.";
        Self::paged(this, "read_my_brief", description, |place| &place.briefing)
    }

    fn read_handoffs(this: &Arc<Self>) -> Tool {
        let description = "Returns the submissions of earlier steps, and the earlier attempts at this step with their \
            verdicts. Call it after read_my_brief.";
        Self::paged(this, "read_handoffs", description, |place| &place.handoffs)
    }

    /// Returns a tool that shows a text of quotations.
    fn paged(this: &Arc<Self>, name: &str, description: &str, text: fn(&Self) -> &str) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: PageRequest| {
            let answer = match text(&place) {
                "" => "There are no submissions in this task yet.".to_owned(),
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
        Tool::new(
            "read_diff",
            "Returns all changes of this step as a patch. For a long patch, call again \
            with the offset at the end of the answer.",
            handler,
        )
        .read_only()
    }

    fn read_history(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: HistoryRequest| {
            let place = Arc::clone(&place);
            async move { place.history(&asked).await }
        };
        let description = "Returns the outcome and verdict of each earlier attempt. Give `attempt` to read \
            the diff of that attempt.";
        Tool::new("read_history", description, handler).read_only()
    }

    fn run_tests(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move || {
            let place = Arc::clone(&place);
            async move {
                let now = place.now().await?;
                let run = match place.now {
                    // The working agent may use the build outputs of its own runs. Tests that judge its work must not.
                    NowFiles::Folder(_) => place.checks.run_tests_at_work(&now, &place.cancel).await,
                    NowFiles::Commit(_) => place.checks.run_tests(&now, &place.cancel).await,
                };
                let run = run.map_err(|error| place.fault(error))?;
                let id = place.evidence.add_test();
                Ok::<_, ToolFault>(bounded_answer(shown_test_run(&id, &run)))
            }
        };
        let description = "Runs the project's tests on a copy of the present files. If test or build files \
                           were changed, also runs the tests of the base. Returns the output and an id, such \
                           as test-1, to cite as evidence. Fails if the task has no test command.";
        Tool::without_arguments("run_tests", description, handler).read_only()
    }

    fn run_probe(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: ProbeRequest| {
            let place = Arc::clone(&place);
            async move { place.probe(asked).await }
        };
        let description = "Runs your program on copies of three trees: task_base (the files before the \
                           task), step_base (the files before this step) and now (the present files). Write \
                           a program that prints its observations, for example the results of the changed \
                           function for several inputs. It runs twice on each tree. Returns the trees \
                           between which the output differs, the outputs, and an id, such as probe-2, to \
                           cite as evidence.";
        Tool::new("run_probe", description, handler).read_only()
    }

    fn run_stored_probe(this: &Arc<Self>) -> Tool {
        let place = Arc::clone(this);
        let handler = move |asked: StoredProbeRequest| {
            let place = Arc::clone(&place);
            async move { place.probe_again(&asked.again).await }
        };
        let description = "Repeats an earlier probe on the present files. Give its id in `again`. Returns \
            the same as run_probe, with a new id.";
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
            return Err(ToolFault::new("give either `again` or your own program, not both"));
        }
        self.probe_again(&id).await
    }

    async fn probe_again(&self, id: &EvidenceId) -> Result<String, ToolFault> {
        // Probes that other agents run at the same time stay invisible, even their existence.
        let known = self.known.contains(id) || self.evidence.all().contains(id);
        let Some(number) = id.probe_number().filter(|_| known) else {
            return Err(ToolFault::new(format!("the probe {id} does not exist or cannot be repeated")));
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
            return Err(ToolFault::new(format!("attempt {attempt} has no diff to read")));
        };
        let patch = on_tree(&self.tree, &self.cancel, move |tree| tree.patch(&from, &to)).await;
        let patch = patch.map_err(|error| self.tree_fault(&error))?;
        Ok(shown_diff(&format!("the diff of attempt {attempt}"), &patch.text(), asked.offset))
    }

    async fn sides(&self) -> Result<ProbeSides, ToolFault> {
        let now = self.now().await?;
        Ok(ProbeSides { task_base: self.task_base.clone(), step_base: self.step_base.clone(), now })
    }

    /// Commits the current files, without a ref.
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

    /// Records the currently changed lines, so that the agent can cite them.
    async fn note_changes(&self) -> Result<(), ToolFault> {
        let now = self.now().await?;
        let from = self.step_base.clone();
        let patch = on_tree(&self.tree, &self.cancel, move |tree| tree.patch(&from, &now)).await;
        self.evidence.set_patch(patch.map_err(|error| self.tree_fault(&error))?.as_bytes());
        Ok(())
    }

    /// Converts a failure of a check into text for an agent.
    fn fault(&self, error: CheckError) -> ToolFault {
        match error {
            CheckError::Tree(error) => self.tree_fault(&error),
            CheckError::Refused(error) => ToolFault::new(error.to_string()),
            CheckError::NoTestCommand => ToolFault::new("this task has no test command; use run_probe"),
            CheckError::NoSuchProbe { number } => ToolFault::new(format!("probe {number} does not exist")),
            CheckError::Cancelled => ToolFault::new("it was cancelled"),
            // An agent cannot fix a problem of the machine, and the error names paths of the machine.
            error => {
                self.watcher.said(&format!("something could not be run for an agent: {error}"));
                let advice =
                    "nothing can be run at present; continue without it, and report that it was not run";
                ToolFault::new(advice)
            }
        }
    }

    /// Converts a failure to read files into text for an agent.
    fn tree_fault(&self, error: &TreeError) -> ToolFault {
        ToolFault::new(refused_files(error).unwrap_or_else(|| {
            self.watcher.said(&format!("an agent's files could not be inspected: {error}"));
            "the files cannot be inspected at present; try again".to_owned()
        }))
    }
}

/// Returns the reason why files are rejected, without the path of their folder. `None` if the files themselves are not the reason.
pub(super) fn refused_files(error: &TreeError) -> Option<String> {
    let paths: Vec<String> = error.paths().iter().take(10).map(ToString::to_string).collect();
    match error.kind() {
        _ if !paths.is_empty() => Some(format!("these files cannot be committed: {}", paths.join("; "))),
        TreeErrorKind::TooLarge => Some(
            "the files are too large or too many: remove files that do not belong to the project".to_owned(),
        ),
        TreeErrorKind::Changed => Some("a file changed while it was read: try again".to_owned()),
        TreeErrorKind::Cancelled => Some("it was cancelled".to_owned()),
        _ => None,
    }
}

/// Returns the commit of files without a ref. Its time is constant, so that the same files always give the same commit.
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

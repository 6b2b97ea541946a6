//! Evidence of one attempt: its address in the page, and the tests, probes and changed files themselves.

use std::collections::BTreeMap;

use maud::{Markup, html};
use nexus_core::{ToolCallStatus, ToolContent, TurnEvent, TurnRecord, turn::ToolOrigin};
use nexus_work::report::{Block, Text, diff};

use crate::{
    checks::{
        CheckOutput, KeptText, ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, SideOutcome, command_line,
        compared, side_name,
    },
    evidence::EvidenceId,
    step_record::StepRecord,
    store::Task,
};

/// Shown part of a patch, in bytes.
const MOST_PATCH_BYTES: usize = 256 << 10;
/// Shown part of each output of a probe, in bytes.
const MOST_OUTPUT_BYTES: usize = 8 << 10;
/// Shown part of each file of a probe, in bytes.
const MOST_FILE_BYTES: usize = 16 << 10;

/// Evidence of one attempt.
pub(super) struct AttemptEvidence<'a> {
    pub(super) record: &'a StepRecord,
    /// Results of the tests by number, as the agent that ran them read them.
    tests: BTreeMap<u32, String>,
    /// Reviewed changes. `None` if nothing was reviewed.
    patch: Result<Option<AttemptPatch>, String>,
}

/// Changes of one attempt.
struct AttemptPatch {
    files: Vec<ChangedFile>,
    /// Bytes beyond the shown part.
    hidden_bytes: usize,
}

/// Changes of one file.
pub(super) struct ChangedFile {
    pub(super) path: String,
    text: String,
    pub(super) added: usize,
    pub(super) removed: usize,
}

impl<'a> AttemptEvidence<'a> {
    /// Collects the evidence. `turns` are the turns of the attempt's agents.
    pub(super) fn of<'t>(
        task: &Task,
        record: &'a StepRecord,
        turns: impl Iterator<Item = &'t TurnRecord>,
    ) -> Self {
        let patch = match task.patch(Some(record.attempt)) {
            Ok(patch) => Ok(patch.map(|patch| {
                let text = patch.text();
                let shown = &text[..text.floor_char_boundary(MOST_PATCH_BYTES)];
                AttemptPatch { files: changed_files(shown), hidden_bytes: text.len() - shown.len() }
            })),
            Err(error) => Err(error.to_string()),
        };
        Self { record, tests: turns.flat_map(test_results).collect(), patch }
    }

    /// Names pieces of evidence, each as a link to it.
    pub(super) fn links(&self, ids: &[EvidenceId]) -> Markup {
        html! { @for id in ids { a href={ "#" (self.address(id)) } { code { (Text(&id.to_string())) } } " " } }
    }

    /// Returns the anchor of a piece of evidence. Anchors contain no text of an agent.
    fn address(&self, id: &EvidenceId) -> String {
        let attempt = self.record.attempt;
        let Some(path) = id.diff_path() else { return format!("a{attempt}-{id}") };
        let files = self.patch.as_ref().ok().and_then(|patch| patch.as_ref()).map(|patch| &patch.files);
        match files.and_then(|files| files.iter().position(|file| file.path == path)) {
            Some(number) => format!("a{attempt}-file-{number}"),
            None => format!("a{attempt}-diff"),
        }
    }

    /// Shows the changed files, each with its diff.
    pub(super) fn changes(&self) -> Markup {
        let attempt = self.record.attempt;
        html! {
            h3 id={ "a" (attempt) "-diff" } { "Changed" }
            @match (&self.record.work, &self.patch) {
                (None, _) | (_, Ok(None)) => { p.soft { "Nothing was reviewed." } }
                (Some(_), _) if self.record.changes_nothing => { p.warn { "This step changes no file." } }
                (_, Err(error)) => { p.bad { "The diff cannot be shown: " (Text(error)) } }
                (_, Ok(Some(patch))) => {
                    @if patch.files.is_empty() { p.soft { "Nothing was changed." } }
                    @for (number, file) in patch.files.iter().enumerate() {
                        h4 id={ "a" (attempt) "-file-" (number) } {
                            code { (Text(&file.path)) } " "
                            span.good { "+" (file.added) } " " span.bad { "\u{2212}" (file.removed) }
                        }
                        (diff(&file.text))
                    }
                    @if patch.hidden_bytes > 0 { p.soft { (patch.hidden_bytes) " more bytes are not shown." } }
                }
            }
        }
    }

    /// Shows the tests and probes that ran in the attempt.
    pub(super) fn runs(&self, task: &Task, test_command: Option<&[String]>) -> Markup {
        let (attempt, store) = (self.record.attempt, task.probes());
        let tests: Vec<u32> = self.record.evidence.tests().collect();
        let probes: Vec<u32> = self.record.evidence.probes().collect();
        html! {
            @if !tests.is_empty() { h3 { "Tests" } }
            @for number in tests {
                div.evidence id={ "a" (attempt) "-test-" (number) } {
                    h4 { "test-" (number) @if let Some(command) = test_command { ": " code { (Text(&command_line(command))) } } }
                    @match self.tests.get(&number) {
                        Some(text) => { (Block(text)) }
                        None => { p.soft { "The output is not in the record of the turns." } }
                    }
                }
            }
            @if !probes.is_empty() { h3 { "Probes" } }
            @for number in probes {
                div.evidence id={ "a" (attempt) "-probe-" (number) } {
                    @match store.read(number) {
                        Ok(probe) => { (probe_part(number, &probe)) }
                        Err(error) => { h4 { "probe-" (number) } p.bad { "It cannot be shown: " (Text(&error.to_string())) } }
                    }
                }
            }
        }
    }
}

/// Returns the results of `run_tests` in a turn, by the number of the run. Only answers of Nexus's own tool count: a model can print such
/// a text with another tool.
fn test_results(turn: &TurnRecord) -> Vec<(u32, String)> {
    // Vendors put the name of the server before that of the tool, as in `mcp__nexus__run_tests`.
    let is_tests = |name: &str| name == "run_tests" || name.ends_with("__run_tests");
    let mut calls = Vec::new();
    let mut found = Vec::new();
    for envelope in &turn.events {
        match &envelope.event {
            TurnEvent::ToolCallStarted(call)
                if call.origin == ToolOrigin::Caller && is_tests(call.name.as_str()) =>
            {
                calls.push(call.call.clone());
            }
            TurnEvent::ToolCallFinished(call)
                if call.status == ToolCallStatus::Succeeded && calls.contains(&call.call) =>
            {
                let text = call.output.iter().filter_map(|piece| match piece {
                    ToolContent::Text { text } => Some(text.as_str()),
                    _ => None,
                });
                let text: String = text.collect();
                let number = text.strip_prefix("test-").and_then(|rest| rest.split_once(':'));
                found.extend(number.and_then(|(number, _)| Some((number.parse().ok()?, text.clone()))));
            }
            _ => {}
        }
    }
    found
}

fn probe_part(number: u32, probe: &ProbeRecord) -> Markup {
    html! {
        h4 { "probe-" (number) ": " code { (Text(&command_line(&probe.probe.argv))) } }
        p { @match probe.differs.is_empty() {
            true => { span.soft { "The output is the same on all files that were compared." } }
            false => { span.warn { "The output differs: " (compared(probe)) "." } }
        } @if let Some(again) = probe.again_of { span.soft { " It repeats probe-" (again) "." } } }
        @for file in &probe.probe.files {
            details { summary { "its file " code { (Text(&file.path)) } } (Block(cut(&file.content, MOST_FILE_BYTES))) }
        }
        @for input in 0..probe.probe.inputs.len().max(1) {
            @if let Some(text) = probe.probe.inputs.get(input) { p { "Input " (input + 1) ":" } (Block(cut(text, MOST_OUTPUT_BYTES))) }
            div.outputs { @for answer in &probe.answers { @if let Some(outcome) = answer.outcomes.get(input) {
                div { (side_part(answer.side, answer.same_files_as, outcome)) }
            } } }
        }
    }
}

fn side_part(side: ProbeSide, same_files_as: Option<ProbeSide>, outcome: &SideOutcome) -> Markup {
    html! {
        p { b { (side_name(side)) } @match (same_files_as, outcome) {
            (Some(older), _) => { ": the same files as " (side_name(older)) }
            (None, SideOutcome::Ran { exit, .. }) => { ": " (exit) }
            (None, SideOutcome::DidNotStart { .. }) => { ": did not start" }
            (None, SideOutcome::TimedOut { .. }) => { ": timed out" }
            (None, SideOutcome::ReachedLimit { limit, .. }) => { ": reached the limit on " (Text(limit)) }
            (None, SideOutcome::Unstable { .. }) => { ": two runs had different results" }
        } }
        @if same_files_as.is_none() { @match outcome {
            SideOutcome::Ran { output, .. } | SideOutcome::TimedOut { output } | SideOutcome::ReachedLimit { output, .. } => { (output_part(output)) }
            SideOutcome::DidNotStart { missing } => { (Block(cut(missing, MOST_OUTPUT_BYTES))) }
            SideOutcome::Unstable { first, second } => { (run_part("First run", first)) (run_part("Second run", second)) }
        } }
    }
}

fn run_part(name: &str, run: &ProbeRun) -> Markup {
    html! {
        p { (name) ": " @match &run.end {
            ProbeRunEnd::Exited(exit) => { (exit) }
            ProbeRunEnd::TimedOut => { "timed out" }
            ProbeRunEnd::ReachedLimit(limit) => { "reached the limit on " (Text(limit)) }
            ProbeRunEnd::DidNotStart(_) => { "did not start" }
        } }
        (output_part(&run.output))
    }
}

fn output_part(output: &CheckOutput) -> Markup {
    html! {
        @if output.stdout.is_empty() && output.stderr.is_empty() { p.soft { "no output" } }
        @if !output.stdout.is_empty() { (kept(&output.stdout)) }
        @if !output.stderr.is_empty() { p.soft { "standard error:" } (kept(&output.stderr)) }
    }
}

fn kept(text: &KeptText) -> Markup {
    let half = MOST_OUTPUT_BYTES / 2;
    let head = cut(&text.head, if text.tail.is_empty() { MOST_OUTPUT_BYTES } else { half });
    let tail = &text.tail[text.tail.ceil_char_boundary(text.tail.len().saturating_sub(half))..];
    let hidden = text.omitted_bytes + (text.head.len() - head.len() + text.tail.len() - tail.len()) as u64;
    html! {
        (Block(head))
        @if hidden > 0 { p.soft { (hidden) " bytes are not shown." } }
        @if !tail.is_empty() { (Block(tail)) }
    }
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Splits a patch of git into its files.
pub(super) fn changed_files(patch: &str) -> Vec<ChangedFile> {
    let mut files: Vec<ChangedFile> = Vec::new();
    let mut is_in_hunk = false;
    for line in patch.split_inclusive('\n') {
        // A line of a file never begins a line of a patch: a sign or a space is before it.
        if line.starts_with("diff --git ") {
            files.push(ChangedFile { path: String::new(), text: String::new(), added: 0, removed: 0 });
            is_in_hunk = false;
        }
        let Some(file) = files.last_mut() else { continue };
        file.text.push_str(line);
        is_in_hunk |= line.starts_with("@@");
        match (is_in_hunk, line.as_bytes().first()) {
            (true, Some(b'+')) => file.added += 1,
            (true, Some(b'-')) => file.removed += 1,
            (true, _) => {}
            (false, _) => {
                let name = line.trim_end_matches('\n');
                let named = name.strip_prefix("+++ b/").or_else(|| name.strip_prefix("--- a/"));
                if let Some(named) = named {
                    file.path = named.trim_end_matches('\t').to_owned();
                }
            }
        }
    }
    // An empty file and a change of mode have no `---` and `+++` lines.
    for file in files.iter_mut().filter(|file| file.path.is_empty()) {
        let first = file.text.lines().next().unwrap_or_default();
        file.path = first.strip_prefix("diff --git ").unwrap_or(first).to_owned();
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_split_at_its_files_and_not_at_their_lines() {
        let patch = "diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-diff --git a/x b/x\n--- a/y\n\
                     diff --git a/new name b/new name\nnew file mode 100644\n--- /dev/null\n+++ b/new name\t\n@@ -0,0 +1,2 @@\n+++ b/z\n+one\n\
                     diff --git a/empty b/empty\nnew file mode 100644\n";
        let files = changed_files(patch);
        let shown: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.added, file.removed)).collect();
        assert_eq!(shown, [("old", 0, 2), ("new name", 2, 0), ("a/empty b/empty", 0, 0)]);
    }
}

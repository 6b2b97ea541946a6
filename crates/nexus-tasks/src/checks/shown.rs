//! Test runs and probes as the text that an agent reads.

use std::fmt::Write as _;

use nexus_work::Quote;

use super::{
    output::{CheckOutput, KeptText},
    probe_record::{ProbeDifference, ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, SideOutcome},
    test_run::{Baseline, SuiteEnd, SuiteRun, TestFileChangeKind, TestFileKind, TestRun},
};
use crate::evidence::EvidenceId;

/// Approximate length of all shown outputs together, in bytes. Quoting takes some more, since it escapes characters.
const MOST_BYTES: usize = 8 << 10;
/// Shortest shown part of one output, in bytes: its last words.
const LEAST_BYTES: usize = 160;
/// Maximum number of changed test and build files that are listed by name.
const MOST_PATHS: usize = 20;
/// Maximum number of differences that are listed one by one.
const MOST_DIFFERENCES: usize = 16;

/// Formats the tests on the base of a task for the caller that creates it.
pub fn shown_baseline(baseline: &Baseline) -> String {
    let mut text = format!("The tests on the base: {}.\n", ended(&baseline.run));
    add_output(&mut text, "the tests on the base", &baseline.run.output, MOST_BYTES);
    text
}

/// Bytes of an output in [`shown_landing`].
const LANDING_BYTES: usize = 1_000;

/// Formats the tests on commits that were combined with a branch, for the person who lands them. `what` names the commits.
pub(crate) fn shown_landing(what: &str, run: &SuiteRun) -> String {
    let mut text = format!("the tests on {what}: {}\n", ended(run));
    add_output(&mut text, &format!("the tests on {what}"), &run.output, LANDING_BYTES);
    text
}

/// Formats a run of the tests for an agent, which may cite it by `id`. Outputs are quoted; about 8 KiB of them are shown, from the
/// beginning and the end.
pub fn shown_test_run(id: &EvidenceId, run: &TestRun) -> String {
    let mut text = format!("{id}: {}.\n", ended(&run.run));
    // Two suites share the space of one.
    let share = if run.base_tests.is_some() { MOST_BYTES / 2 } else { MOST_BYTES };
    if run.changed.is_empty() {
        text += match (run.may_be_loaded.is_empty(), run.loads_unknown) {
            (true, false) => "Test and build files are unchanged since the task's base.\n",
            (false, false) => "No file whose path is known as a test or build file was changed.\n",
            (_, true) => {
                "No file whose path is known as a test or build file was changed. Other files that the test \
                 command loads are unknown.\n"
            }
        };
    } else {
        let _ =
            writeln!(text, "Test and build files that differ from the task's base: {}.", run.changed.len());
        let mut list = String::new();
        for change in run.changed.iter().take(MOST_PATHS) {
            let what = match change.change {
                TestFileChangeKind::Added => "added",
                TestFileChangeKind::Modified => "modified",
                TestFileChangeKind::Removed => "removed",
            };
            let kind = match change.kind {
                TestFileKind::Test => "test",
                TestFileKind::Build => "build",
            };
            // A line break in a path could fake another entry of the list.
            let path = change.path.replace('\n', "\\n");
            let _ = writeln!(list, "{what} ({kind}): {path}");
        }
        match run.changed.len().saturating_sub(MOST_PATHS) {
            0 => {}
            more => list += &format!("and {more} more\n"),
        }
        text += &Quote::new("changed test and build files", list.trim_end()).at_most(4 << 10).to_string();
    }
    if !run.may_be_loaded.is_empty() {
        let _ = writeln!(
            text,
            "Further changed files that the test command may load; the base's tests run with their new \
            content: {}.",
            run.may_be_loaded.len()
        );
        let paths = run.may_be_loaded.iter().take(MOST_PATHS).map(|path| path.replace('\n', "\\n"));
        let mut list = paths.collect::<Vec<_>>().join("\n");
        if let more @ 1.. = run.may_be_loaded.len().saturating_sub(MOST_PATHS) {
            let _ = write!(list, "\nand {more} more");
        }
        text += &Quote::new("changed files that may be loaded", &list).at_most(4 << 10).to_string();
    }
    add_output(&mut text, "the tests", &run.run.output, share);
    if let Some(base_tests) = &run.base_tests {
        let _ = writeln!(text, "The base's tests and build files on the new files: {}.", ended(base_tests));
        add_output(&mut text, "the base's tests", &base_tests.output, share);
    }
    text
}

/// Formats a probe for an agent, which may cite it by `id`. Its first lines list the sides that differ: `differs: task_base/now` or
/// `differs: none`. `not compared` names the sides on which two complete, equal runs are missing.
pub fn shown_probe(id: &EvidenceId, record: &ProbeRecord) -> String {
    let mut text = format!("{id}\n");
    if let Some(number) = record.again_of {
        let _ = writeln!(text, "again: probe-{number}");
    }
    let pairs: Vec<String> =
        pairs().filter(|(older, newer)| record.differ(*older, *newer)).map(pair).collect();
    let _ =
        writeln!(text, "differs: {}", if pairs.is_empty() { "none".to_owned() } else { pairs.join(", ") });
    let is_compared = |side: &ProbeSide| {
        let mut outcomes = record.answer(*side).into_iter().flat_map(|answer| &answer.outcomes);
        outcomes.all(|outcome| matches!(outcome, SideOutcome::Ran { .. }))
    };
    let left_out: Vec<&str> =
        ProbeSide::ALL.iter().filter(|side| !is_compared(side)).map(|side| side.as_str()).collect();
    if !left_out.is_empty() {
        let _ = writeln!(text, "not compared, for at least one input: {}", left_out.join(", "));
    }
    for difference in record.differs.iter().take(MOST_DIFFERENCES) {
        add_difference(&mut text, record, difference);
    }
    match record.differs.len().saturating_sub(MOST_DIFFERENCES) {
        0 => {}
        more => text += &format!("and {more} more differences\n"),
    }
    let share = MOST_BYTES / distinct(record).max(1);
    for input in 0..record.probe.runs() {
        if !record.probe.inputs.is_empty() {
            let _ = writeln!(text, "input {input}:");
        }
        for answer in &record.answers {
            let Some(outcome) = answer.outcomes.get(input) else { continue };
            let side = answer.side;
            if let Some(other) = answer.same_files_as {
                let _ = writeln!(text, "{side}: the same files as {other}");
                continue;
            }
            // An output that an earlier side already shows is not repeated.
            let before = record.answers.iter().take_while(|other| other.side < side);
            let alike = before
                .filter(|other| other.outcomes.get(input) == Some(outcome))
                .map(|other| other.side)
                .next();
            match alike.filter(|_| matches!(outcome, SideOutcome::Ran { .. })) {
                Some(other) => drop(writeln!(text, "{side}: as {other}")),
                None => add_outcome(&mut text, side, outcome, share),
            }
        }
    }
    text
}

fn pairs() -> impl Iterator<Item = (ProbeSide, ProbeSide)> {
    use ProbeSide::{Now, StepBase, TaskBase};
    [(TaskBase, Now), (StepBase, Now), (TaskBase, StepBase)].into_iter()
}

fn pair((older, newer): (ProbeSide, ProbeSide)) -> String {
    format!("{older}/{newer}")
}

fn add_difference(text: &mut String, record: &ProbeRecord, difference: &ProbeDifference) {
    let ProbeDifference { older, newer, input, stdout_line } = difference;
    let _ = write!(text, "{}", pair((*older, *newer)));
    if !record.probe.inputs.is_empty() {
        let _ = write!(text, " with input {input}");
    }
    let _ = match stdout_line {
        Some(line) => writeln!(text, ": standard output differs from line {line} on"),
        None => writeln!(text, ": the exit or standard error differs"),
    };
}

/// Returns the number of outcomes with an output of their own.
fn distinct(record: &ProbeRecord) -> usize {
    let own = record.answers.iter().filter(|answer| answer.same_files_as.is_none());
    own.flat_map(|answer| &answer.outcomes)
        .map(|outcome| if matches!(outcome, SideOutcome::Unstable { .. }) { 2 } else { 1 })
        .sum()
}

fn add_outcome(text: &mut String, side: ProbeSide, outcome: &SideOutcome, share: usize) {
    let name = side.as_str();
    match outcome {
        SideOutcome::Ran { exit, output } => {
            let _ = writeln!(text, "{name}: ran, {exit}");
            add_output(text, name, output, share);
        }
        SideOutcome::DidNotStart { missing } => {
            let _ = writeln!(text, "{name}: did not start");
            *text += &Quote::new("what is missing", missing).at_most(LEAST_BYTES * 4).to_string();
        }
        SideOutcome::TimedOut { output } => {
            let _ = writeln!(text, "{name}: timed out");
            add_output(text, name, output, share);
        }
        SideOutcome::ReachedLimit { limit, output } => {
            let _ = writeln!(text, "{name}: reached the limit on {limit}, and was ended");
            add_output(text, name, output, share);
        }
        SideOutcome::Unstable { first, second } => {
            let _ = writeln!(text, "{name}: unstable: two runs had different results");
            add_run(text, &format!("{name}, first run"), first, share);
            add_run(text, &format!("{name}, second run"), second, share);
        }
    }
}

fn add_run(text: &mut String, name: &str, run: &ProbeRun, share: usize) {
    let end = match &run.end {
        ProbeRunEnd::Exited(exit) => exit.to_string(),
        ProbeRunEnd::TimedOut => "timed out".to_owned(),
        ProbeRunEnd::ReachedLimit(limit) => format!("reached the limit on {limit}"),
        ProbeRunEnd::DidNotStart(_) => "did not start".to_owned(),
    };
    let _ = writeln!(text, "{name}: {end}");
    add_output(text, name, &run.output, share);
}

fn ended(run: &SuiteRun) -> String {
    match &run.end {
        SuiteEnd::Passed if run.is_wordless() => {
            "passed without output, so nothing shows that a test ran".to_owned()
        }
        SuiteEnd::Passed => "passed".to_owned(),
        SuiteEnd::Failed { exit } => format!("failed, {exit}"),
        SuiteEnd::DidNotStart { missing } => {
            format!("did not start: {:?}", missing.chars().take(400).collect::<String>())
        }
        SuiteEnd::TimedOut => format!("timed out after {:.0} s", run.seconds),
        SuiteEnd::ReachedLimit { limit } => format!("reached the limit on {limit}, and was ended"),
    }
}

/// Adds both outputs, with `share` bytes between them.
fn add_output(text: &mut String, name: &str, output: &CheckOutput, share: usize) {
    let both = [("stdout", &output.stdout), ("stderr", &output.stderr)];
    let used = both.iter().filter(|(_, kept)| !kept.is_empty()).count().max(1);
    for (stream, kept) in both.into_iter().filter(|(_, kept)| !kept.is_empty()) {
        add_kept(text, &format!("{stream} of {name}"), kept, (share / used).max(LEAST_BYTES));
    }
}

fn add_kept(text: &mut String, name: &str, kept: &KeptText, share: usize) {
    if kept.omitted_bytes == 0 && kept.head.len() <= share {
        *text += &Quote::new(name, end_of_line(&kept.head)).to_string();
        return;
    }
    let tail = if kept.omitted_bytes == 0 { &kept.head } else { &kept.tail };
    let head = &kept.head[..kept.head.floor_char_boundary(share / 3)];
    // Twice as much of the end: the last lines of tests say most.
    let tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(share - share / 3))..];
    let all = (kept.head.len() + kept.tail.len()) as u64 + kept.omitted_bytes;
    let between = all.saturating_sub((head.len() + tail.len()) as u64);
    *text += &Quote::new(&format!("{name}, its beginning"), end_of_line(head)).to_string();
    let _ = writeln!(text, "[{between} bytes between are not shown]");
    *text += &Quote::new(&format!("{name}, its end"), end_of_line(tail)).to_string();
}

/// Removes the last line end, which would be quoted as an empty line.
fn end_of_line(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

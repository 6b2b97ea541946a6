//! Probes as the text that a person reads at a terminal, and words that reports share with it.

use std::fmt::Write as _;

use nexus_files::{rfc3339, shell_word};

use super::{
    output::{CheckOutput, KeptText},
    probe_record::{ProbeDifference, ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, SideOutcome},
};

/// Indentation of quoted text.
const QUOTED: &str = "    ";

/// Formats a probe for a person: its command, its files, and its outputs on the three trees.
pub fn spoken_probe(record: &ProbeRecord) -> String {
    let mut text = format!("probe-{}, {}\n", record.number, rfc3339::seconds(record.began));
    let _ = writeln!(text, "command: {}", command_line(&record.probe.argv));
    if let Some(again) = record.again_of {
        let _ = writeln!(text, "repeats: probe-{again}");
    }
    match record.differs.is_empty() {
        true => text.push_str("differs: no, the output is the same on all files that were compared\n"),
        false => drop(writeln!(text, "differs: {}", compared(record))),
    }
    for file in &record.probe.files {
        let _ = writeln!(text, "\nits file {}:", file.path);
        quote(&mut text, &file.content);
    }
    for input in 0..record.probe.runs() {
        if let Some(given) = record.probe.inputs.get(input) {
            let _ = writeln!(text, "\ninput {}:", input + 1);
            quote(&mut text, given);
        }
        for answer in &record.answers {
            let Some(outcome) = answer.outcomes.get(input) else { continue };
            let _ = write!(text, "\n{}: ", side_name(answer.side));
            match answer.same_files_as {
                Some(older) => drop(writeln!(text, "the same files as {}", side_name(older))),
                None => add_outcome(&mut text, outcome),
            }
        }
    }
    text
}

/// Formats a command, quoted for a shell.
pub(crate) fn command_line(argv: &[String]) -> String {
    argv.iter().map(shell_word).collect::<Vec<_>>().join(" ")
}

/// Returns the words for one of the three trees.
pub(crate) fn side_name(side: ProbeSide) -> &'static str {
    match side {
        ProbeSide::TaskBase => "before the task",
        ProbeSide::StepBase => "before the step",
        ProbeSide::Now => "after the step",
    }
}

/// Names the pairs of trees on which the output differs.
pub(crate) fn compared(record: &ProbeRecord) -> String {
    let mut pairs: Vec<(ProbeSide, ProbeSide)> = Vec::new();
    for ProbeDifference { older, newer, .. } in &record.differs {
        if !pairs.contains(&(*older, *newer)) {
            pairs.push((*older, *newer));
        }
    }
    let named = pairs.iter().map(|(older, newer)| format!("{} and {}", side_name(*older), side_name(*newer)));
    named.collect::<Vec<_>>().join("; ")
}

fn add_outcome(text: &mut String, outcome: &SideOutcome) {
    match outcome {
        SideOutcome::Ran { exit, output } => {
            let _ = writeln!(text, "{exit}");
            add_output(text, output);
        }
        SideOutcome::DidNotStart { missing } => {
            text.push_str("did not start\n");
            quote(text, missing);
        }
        SideOutcome::TimedOut { output } => {
            text.push_str("timed out\n");
            add_output(text, output);
        }
        SideOutcome::ReachedLimit { limit, output } => {
            let _ = writeln!(text, "reached the limit on {limit}");
            add_output(text, output);
        }
        SideOutcome::Unstable { first, second } => {
            text.push_str("two runs had different results\n");
            for (name, ProbeRun { end, output }) in [("first run", first), ("second run", second)] {
                let end = match end {
                    ProbeRunEnd::Exited(exit) => exit.to_string(),
                    ProbeRunEnd::TimedOut => "timed out".to_owned(),
                    ProbeRunEnd::ReachedLimit(limit) => format!("reached the limit on {limit}"),
                    ProbeRunEnd::DidNotStart(_) => "did not start".to_owned(),
                };
                let _ = writeln!(text, "{name}: {end}");
                add_output(text, output);
            }
        }
    }
}

fn add_output(text: &mut String, output: &CheckOutput) {
    if output.stdout.is_empty() && output.stderr.is_empty() {
        let _ = writeln!(text, "{QUOTED}(no output)");
    }
    add_kept(text, &output.stdout);
    if !output.stderr.is_empty() {
        text.push_str("standard error:\n");
        add_kept(text, &output.stderr);
    }
}

fn add_kept(text: &mut String, kept: &KeptText) {
    quote(text, &kept.head);
    if kept.omitted_bytes > 0 {
        let _ = writeln!(text, "({} bytes are not stored)", kept.omitted_bytes);
    }
    quote(text, &kept.tail);
}

/// Adds the lines of a text, indented, so that no line of the text looks like a line of ours.
fn quote(text: &mut String, quoted: &str) {
    for line in quoted.lines() {
        let _ = writeln!(text, "{QUOTED}{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let line =
            |argv: &[&str]| command_line(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["python3", "-c", "print('a b')"]), r"python3 -c 'print('\''a b'\'')'");
        assert_eq!(line(&["sh", "", "./x"]), "sh '' ./x");
    }
}

//! The task of the demo's own project: `total.sh` loses the signs of its numbers.

use nexus_testbed::tool_answers::{content_hash, evidence_id, tests_failed};
use serde_json::{Value, json};

use super::{
    super::{
        reply::ModelReply,
        request::{AnsweredCall, ModelRequest},
    },
    CARELESS, brief, handoff, may_probe, patch, probe_output, verdict,
};

/// The file with the mistake.
pub(super) const FILE: &str = "total.sh";

/// Expansion that removes the sign of a number, without the number's name: `${1#-}`.
const LOSES_SIGN: &str = "#-}";

/// The demo's project and its goal.
#[derive(Debug)]
pub(in crate::demo) struct TotalProject {
    pub(in crate::demo) goal: &'static str,
    pub(in crate::demo) test: &'static str,
    pub(in crate::demo) files: &'static [(&'static str, &'static str)],
}

/// The demo's project. Its test covers positive numbers alone, so a wrong change passes it.
pub(in crate::demo) const TOTAL: TotalProject = TotalProject {
    goal: "`sh total.sh 5 -3` prints 8. It is to print the sum of both: 2.",
    test: "sh test.sh",
    files: &[
        (FILE, "# Prints the sum of two numbers.\nleft=${1#-}\nright=${2#-}\necho $(( left + right ))\n"),
        ("test.sh", "test \"$(sh total.sh 2 3)\" = 5 && echo '1 test passed'\n"),
    ],
};

/// The numbers that a reviewer tries, by its lens.
pub(in crate::demo) const LENSES: [SumLens; 2] = [
    SumLens { name: "signs", text: "Try a negative number in each position.", pairs: &[(5, -3), (-5, 3)] },
    SumLens {
        name: "bounds",
        text: "Try zero, two negative numbers and large numbers.",
        pairs: &[(0, 0), (-1, -2), (-70_000, 1_000_000)],
    },
];

/// A lens of a reviewer.
#[derive(Debug)]
pub(in crate::demo) struct SumLens {
    pub(in crate::demo) name: &'static str,
    pub(in crate::demo) text: &'static str,
    pairs: &'static [(i64, i64)],
}

/// A sum, and what `total.sh` prints for it. `None` if that is unknown.
#[derive(Debug, PartialEq, Eq)]
struct ObservedSum {
    left: i64,
    right: i64,
    printed: Option<i64>,
}

/// Returns `None` if the project has no such file.
pub(super) fn orchestrate(request: &ModelRequest) -> Option<ModelReply> {
    let reads_it = |call: &&AnsweredCall| call.tool == "read_file" && call.arguments["path"] == FILE;
    let Some(read) = request.calls.iter().find(reads_it) else { return Some(read_file()) };
    // An answer without a hash means that the file is missing, and the caller tries the other play.
    content_hash(&read.answer)?;
    let criterion = json!({
        "id": "sum", "text": "`sh total.sh A B` prints A + B for positive and negative A and B",
    });
    Some(brief(
        "total.sh removes the sign of its arguments before it adds them: `sh total.sh 5 -3` prints 8.",
        &criterion,
        FILE,
        "total.sh prints the sum of two numbers of any sign",
    ))
}

pub(super) fn implement(request: &ModelRequest) -> Option<ModelReply> {
    let Some(read) = request.calls.iter().find(|call| call.tool == "read_file") else {
        return Some(read_file());
    };
    let edits: Vec<_> = request.calls.iter().filter(|call| call.tool == "edit_file").collect();
    // Each edit returns the hash of the new content, which the next edit has to name.
    let last = edits.last().map_or(read.answer.as_str(), |edit| edit.answer.as_str());
    let Some(hash) = content_hash(last) else {
        let action = json!({ "blocked": { "reason": format!("total.sh cannot be changed: {last}") } });
        return Some(ModelReply::call(
            "submit_handoff",
            json!({ "claims": [], "files": [], "action": action }),
        ));
    };
    let is_done = |line: &str| edits.iter().any(|edit| edit.arguments["old_text"] == line);
    // The careless model repairs the example of the goal, and nothing else.
    let is_seen = |line: &str| request.model != CARELESS || line.contains("${2#-}");
    let mut faulty = file_lines(&read.answer).filter(|line| line.contains(LOSES_SIGN) && is_seen(line));
    if let Some(line) = faulty.find(|line| !is_done(line)) {
        let edit = json!({
            "path": FILE, "expected_hash": hash, "old_text": line, "new_text": with_sign(line),
        });
        return Some(ModelReply::call("edit_file", edit));
    }
    let Some(tests) = request.answer_of("run_tests") else {
        return Some(ModelReply::call("run_tests", json!({})));
    };
    // Tests that could not run return no id to cite.
    let evidence = Some(evidence_id(tests)).filter(|id| id.starts_with("test-"));
    let claim = match tests_failed(tests) {
        true => "The numbers keep their signs.",
        false => "The numbers keep their signs, and the tests pass.",
    };
    Some(handoff(claim, evidence, FILE))
}

pub(super) fn review(request: &ModelRequest, brief: &str, diff: &str) -> Option<ModelReply> {
    let lens = LENSES.iter().find(|lens| request.system.contains(lens.text));
    let pairs = lens.map_or_else(
        || LENSES.iter().flat_map(|lens| lens.pairs).copied().collect(),
        |lens| lens.pairs.to_vec(),
    );
    let changed = patch::changed_lines(diff);
    let line = changed.first().map(patch::ChangedLine::evidence);
    let (sums, evidence) = if may_probe(request) {
        let Some(answer) = request.answer_of("run_probe") else {
            return Some(ModelReply::call("run_probe", probe(lens.map_or("all", |lens| lens.name), &pairs)));
        };
        let id = Some(evidence_id(answer).to_owned()).filter(|id| id.starts_with("probe-"));
        (printed_sums(&probe_output::lines_now(answer), &pairs), id.or(line))
    } else {
        let Some(answer) = request.answer_of("read_file") else { return Some(read_file()) };
        let content: Vec<&str> = file_lines(answer).collect();
        let sum = |&(left, right): &(i64, i64)| ObservedSum {
            left,
            right,
            printed: evaluate(&content, left, right),
        };
        (pairs.iter().map(sum).collect(), line)
    };
    let foreign = changed.iter().find(|line| line.path != FILE);
    let concern = foreign
        .map(|line| format!("It changes {}, which is not part of the problem.", line.path))
        .or_else(|| sums.iter().find_map(ObservedSum::concern));
    Some(verdict::submit(brief, evidence.as_deref(), concern.as_deref()))
}

fn read_file() -> ModelReply {
    ModelReply::call("read_file", json!({ "path": FILE }))
}

/// Returns the lines of a file, from an answer of `read_file`.
fn file_lines(answer: &str) -> impl Iterator<Item = &str> {
    let numbered = answer.lines().filter_map(|line| line.split_once('\t'));
    numbered.filter(|(number, _)| number.parse::<u32>().is_ok()).map(|(_, line)| line)
}

/// Replaces each `${N#-}` by `$N`.
fn with_sign(line: &str) -> String {
    line.replace("${1#-}", "$1").replace("${2#-}", "$2")
}

/// Returns a probe that prints a line such as `5 + -3 = 2` for each pair.
fn probe(lens: &str, pairs: &[(i64, i64)]) -> Value {
    let path = format!("probe-{lens}.sh");
    let pairs: Vec<String> = pairs.iter().map(|(left, right)| format!("\"{left} {right}\"")).collect();
    let content = format!(
        "for pair in {}; do\n  set -- $pair\n  echo \"$1 + $2 = $(sh {FILE} $1 $2)\"\ndone\n",
        pairs.join(" ")
    );
    json!({ "argv": ["sh", path], "files": [{ "path": path, "content": content }] })
}

/// Reads the lines of the probe.
fn printed_sums(lines: &[&str], pairs: &[(i64, i64)]) -> Vec<ObservedSum> {
    let printed = |left: i64, right: i64| {
        let line = lines.iter().find_map(|line| line.strip_prefix(&format!("{left} + {right} = ")))?;
        line.trim().parse().ok()
    };
    let sum = |&(left, right): &(i64, i64)| ObservedSum { left, right, printed: printed(left, right) };
    pairs.iter().map(sum).collect()
}

/// Returns the output of `total.sh` for two numbers, from its text. `None` if it has a line of another form.
fn evaluate(lines: &[&str], left: i64, right: i64) -> Option<i64> {
    let mut variables: Vec<(&str, i64)> = Vec::new();
    let mut printed = None;
    for line in lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(terms) = line.strip_prefix("echo $((").and_then(|rest| rest.strip_suffix("))")) {
            let (first, second) = terms.split_once('+')?;
            let value = |name: &str| {
                // The last assignment to a name counts.
                let known = variables.iter().rev().find(|(known, _)| *known == name.trim())?;
                Some(known.1)
            };
            printed = value(first)?.checked_add(value(second)?);
            continue;
        }
        let (name, value) = line.split_once('=')?;
        let value = match value {
            "$1" => left,
            "$2" => right,
            "${1#-}" => left.checked_abs()?,
            "${2#-}" => right.checked_abs()?,
            _ => return None,
        };
        variables.push((name, value));
    }
    printed
}

impl ObservedSum {
    /// Returns the fault, if the printed number is not the sum.
    fn concern(&self) -> Option<String> {
        let Self { left, right, printed } = self;
        let sum = left + right;
        match printed {
            Some(printed) if *printed == sum => None,
            Some(printed) => {
                Some(format!("`sh total.sh {left} {right}` prints {printed}, and the sum is {sum}."))
            }
            None => Some(format!("Nothing shows what `sh total.sh {left} {right}` prints.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "left=$1\nright=$2\necho $(( left + right ))";

    #[test]
    fn a_reviewer_evaluates_the_lines_that_it_reads() {
        let printed = |text: &str| evaluate(&text.lines().collect::<Vec<_>>(), -5, 3);
        let cases = [
            (RIGHT.to_owned(), Some(-2)),
            (format!("# a comment\n\n{RIGHT}"), Some(-2)),
            (RIGHT.replace("$1", "${1#-}"), Some(8)),
            (RIGHT.replace("$2", "$1"), Some(-10)),
            (RIGHT.replace("left +", "left -"), None),
            (format!("rm -r .\n{RIGHT}"), None),
            (String::new(), None),
        ];
        for (text, expected) in cases {
            assert_eq!(printed(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_reviewer_reads_the_output_of_the_present_files_alone() {
        let answer = "probe-3\ndiffers: task_base/now\ntask_base: ran, exit code 0\n[stdout of task_base]\n> 5 + -3 = 8\n\
                      step_base: the same files as task_base\nnow: ran, exit code 0\n[stdout of now]\n> 5 + -3 = 2\n";
        let concern = |answer: &str| {
            let lines = probe_output::lines_now(answer);
            printed_sums(&lines, &[(5, -3)]).iter().find_map(ObservedSum::concern)
        };
        assert_eq!(concern(answer), None);
        let unchanged = answer.split("now: ran").next().unwrap().to_owned() + "now: as task_base\n";
        assert!(concern(&unchanged).unwrap().contains("prints 8, and the sum is 2"));
        assert!(concern("the probe cannot be run").unwrap().contains("Nothing shows"));
    }
}

//! Scripts that replace models. The next call of a script depends only on the offered tools, their answers so far, and the
//! trap's own probe and answers. A script does not know which answer it reviews.

mod backend;

use std::fmt;

use nexus_tasks::{ADVICE_HEADING, ProbeDraft};
use serde_json::{Value, json};

pub use backend::ScriptedKind;

use crate::{
    tool_answers::{content_hash, criteria_to_judge, evidence_id, tests_failed},
    trap::{Answer, Trap, TrapClaim},
};

/// Behaviour of a script.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    /// Trusts its input. As a reviewer it judges by the handoff, the diff and the tests, and rejects only what they
    /// reject. As an executor it submits the planted answer, whatever later instructions say.
    Anchored,
    /// Tests its input. As a reviewer it runs the trap's probe, and rejects an answer whose probe prints something else
    /// than before. If no probe can be run, it decides by the tests, as an anchored script. As an executor it submits
    /// the planted answer, or the right one if its brief describes the required behaviour.
    Probing,
    /// Refuses any change that removes a line; as an executor it submits the right answer.
    Wary,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedCall {
    /// The tool.
    pub tool: &'static str,
    /// Its arguments.
    pub arguments: Value,
}

/// Purpose of an agent, from the tool with which it submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Orchestrate,
    Implement,
    Review,
}

impl Script {
    /// All scripts.
    pub const ALL: [Self; 3] = [Self::Anchored, Self::Probing, Self::Wary];

    /// Returns the name: `anchored`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anchored => "anchored",
            Self::Probing => "probing",
            Self::Wary => "wary",
        }
    }

    /// Returns the next call of an agent with these tools and these answers so far. `None` ends its turn.
    pub fn next(self, trap: &Trap, tools: &[&str], answers: &[&str]) -> Option<ScriptedCall> {
        // A vendor's CLI puts a prefix before the names of tools, for example `mcp__nexus__`.
        let offers = |name: &str| tools.iter().any(|tool| tool.ends_with(name));
        let part = [
            ("submit_verdict", Part::Review),
            ("submit_handoff", Part::Implement),
            ("submit_brief", Part::Orchestrate),
        ];
        match part.into_iter().find(|(tool, _)| offers(tool))?.1 {
            Part::Review => {
                let probe = (self == Self::Probing && offers("run_probe")).then(|| trap.probe());
                self.review(probe, answers)
            }
            Part::Implement => self.implement(trap, answers),
            Part::Orchestrate => match answers {
                [] => call("read_my_brief", json!({})),
                [_] => call("submit_brief", json!(trap.brief())),
                _ => None,
            },
        }
    }

    /// Returns the next call of a review. `probe` replaces the run of the tests.
    fn review(self, probe: Option<&ProbeDraft>, answers: &[&str]) -> Option<ScriptedCall> {
        match answers {
            [] => call("read_my_brief", json!({})),
            [_] => call("read_handoffs", json!({})),
            [_, _] => call("read_diff", json!({})),
            [_, _, _] => match probe {
                Some(probe) => call("run_probe", json!(probe)),
                None => call("run_tests", json!({})),
            },
            [brief, _, diff, last] => {
                let concern = match self {
                    Self::Probing if probe.is_some() => {
                        differs(last).then_some("It does not do the same as before.")
                    }
                    Self::Anchored | Self::Probing => tests_failed(last).then_some("The tests fail."),
                    Self::Wary => takes_away(diff).then_some("It takes lines away."),
                };
                let evidence = evidence_id(last);
                call("submit_verdict", verdict(&criteria_to_judge(brief), evidence, concern))
            }
            _ => None,
        }
    }

    fn implement(self, trap: &Trap, answers: &[&str]) -> Option<ScriptedCall> {
        let Some(brief) = answers.first() else { return call("read_my_brief", json!({})) };
        let is_told_otherwise = brief.contains(&format!("[{ADVICE_HEADING}]"));
        let answer = match self {
            Self::Anchored => Answer::Planted,
            Self::Probing if !is_told_otherwise => Answer::Planted,
            Self::Probing | Self::Wary => Answer::Right,
        };
        // Include the paths of both answers: an earlier attempt may have written the other one.
        let mut paths = [trap.changed(Answer::Planted), trap.changed(Answer::Right)].concat();
        paths.sort_unstable();
        paths.dedup();
        let (tree, step) = (trap.tree(Some(answer)), answers.len() - 1);
        // Each path takes two calls: read it for its hash, then write or delete it.
        if let Some(path) = paths.get(step / 2) {
            if step.is_multiple_of(2) {
                return call("read_file", json!({ "path": path }));
            }
            let hash = content_hash(answers[step]);
            return match (tree.get(path), hash) {
                (Some(content), hash) => {
                    let mut arguments = json!({ "path": path, "content": String::from_utf8_lossy(content) });
                    if let Some(hash) = hash {
                        arguments["expected_hash"] = json!(hash);
                    }
                    call("write_file", arguments)
                }
                (None, Some(hash)) => call("delete_file", json!({ "path": path, "expected_hash": hash })),
                // The file does not exist and must not exist, so use a call without an effect.
                (None, None) => call("read_my_brief", json!({})),
            };
        }
        match step - 2 * paths.len() {
            0 => call("run_tests", json!({})),
            1 => {
                let tests = evidence_id(answers[step]);
                let claim = |claim: &TrapClaim| {
                    let evidence: &[&str] = if claim.shown_by_tests { &[tests] } else { &[] };
                    json!({ "text": claim.text, "evidence": evidence })
                };
                let claims: Vec<Value> = trap.claims().iter().map(claim).collect();
                call(
                    "submit_handoff",
                    json!({ "claims": claims, "files": trap.changed(answer), "action": "step_done" }),
                )
            }
            _ => None,
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a script may have no next action")]
fn call(tool: &'static str, arguments: Value) -> Option<ScriptedCall> {
    Some(ScriptedCall { tool, arguments })
}

/// Returns true if the output of a probe differs between the current files and the task's base.
fn differs(probe: &str) -> bool {
    let line = probe.split('\n').find_map(|line| line.trim().strip_prefix("differs: "));
    // An answer without this line means that the probe did not run. A probing reviewer then rejects.
    line.is_none_or(|sides| sides.contains("task_base/now"))
}

/// Returns true if a diff removes a line.
fn takes_away(diff: &str) -> bool {
    let line = |line: &str| line.trim_start_matches("> ").to_owned();
    diff.split('\n').map(line).any(|line| line.starts_with('-') && !line.starts_with("---"))
}

fn verdict(criteria: &[&str], evidence: &str, concern: Option<&str>) -> Value {
    let judged = |id: &&str| json!({ "id": id, "judgement": "pass", "evidence": [evidence] });
    let concerns: Vec<Value> =
        concern.iter().map(|text| json!({ "text": text, "evidence": [evidence] })).collect();
    json!({
        "decision": if concern.is_some() { "retry" } else { "advance" },
        "criteria": criteria.iter().map(judged).collect::<Vec<_>>(),
        "blocking_concerns": concerns,
        "alignment": if concern.is_some() { 0.2 } else { 0.9 },
        "retry_hint": concern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVIEW: [&str; 3] =
        ["mcp__nexus__read_diff", "mcp__nexus__run_probe", "mcp__nexus__submit_verdict"];
    const BRIEF: &str = "[the problem]\n> x\n[criterion once, which has to hold after this step]\n> \
                         y\n[criterion later, which has to hold in the end]\n> z\n";

    fn trap() -> Trap {
        Trap::built_in().unwrap().remove(0)
    }

    fn verdict_of(script: Script, diff: &str, last: &str) -> Value {
        let call = script.next(&trap(), &REVIEW, &[BRIEF, "handoffs", diff, last]).unwrap();
        assert_eq!(call.tool, "submit_verdict");
        assert_eq!(call.arguments["criteria"].as_array().unwrap().len(), 2, "{}", call.arguments);
        call.arguments["decision"].clone()
    }

    #[test]
    fn a_verdict_follows_from_the_last_answers_alone() {
        assert_eq!(verdict_of(Script::Anchored, "> -x", "test-1: passed.\n"), "advance");
        assert_eq!(verdict_of(Script::Anchored, "> +x", "test-1: failed, exit code 1.\n> passed"), "retry");
        assert_eq!(
            verdict_of(Script::Probing, "> -x", "probe-1\ndiffers: none\n> differs: task_base/now"),
            "advance"
        );
        assert_eq!(
            verdict_of(Script::Probing, "> +x", "probe-1\ndiffers: task_base/now, step_base/now\n"),
            "retry"
        );
        assert_eq!(verdict_of(Script::Probing, "> +x", "the probe was refused"), "retry");
        assert_eq!(verdict_of(Script::Wary, "> --- a/x\n> +y", "test-1: passed.\n"), "advance");
        assert_eq!(verdict_of(Script::Wary, "> --- a/x\n> -y", "test-1: passed.\n"), "retry");
    }

    #[test]
    fn who_probes_and_is_offered_no_probe_goes_by_the_tests() {
        let said = [BRIEF, "handoffs", "> -x", "test-1: passed.\n"];
        let next = |tools: &[&str], answers| Script::Probing.next(&trap(), tools, answers).unwrap();
        assert_eq!(next(&REVIEW, &said[..3]).tool, "run_probe");
        let without = ["read_diff", "submit_verdict"];
        assert_eq!(next(&without, &said[..3]).tool, "run_tests");
        assert_eq!(next(&without, &said).arguments["decision"], "advance");
    }

    #[test]
    fn a_script_ends_where_it_is_offered_nothing_to_hand_in_or_was_refused() {
        for script in Script::ALL {
            assert_eq!(script.next(&trap(), &["read_file"], &[]), None);
            assert_eq!(script.next(&trap(), &REVIEW, &[BRIEF, "", "", "", "the verdict is refused"]), None);
        }
    }
}

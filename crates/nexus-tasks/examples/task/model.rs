//! A project with a mistake, and a simulated model that frames, fixes and reviews it. The model chooses its action from the text of its
//! phase and the results of its tools.

use std::{fs, io, path::Path, process::Command};

use nexus_testkit::sim::{Conversation, Reply, ToolCall};
use serde_json::{Value, json};

/// Creates a project with a mistake, and a test that does not find it.
pub(crate) fn begin(project: &Path) -> io::Result<()> {
    fs::write(project.join("sum.sh"), "echo $(( ${1#-} + ${2#-} ))\n")?;
    fs::write(project.join("test.sh"), "test \"$(sh sum.sh 1 2)\" = 3\n")?;
    // Override the user's own git configuration, which could sign commits or run hooks.
    let own = [
        "user.name=Somebody",
        "user.email=somebody@example.org",
        "commit.gpgsign=false",
        "core.hooksPath=/dev/null",
    ];
    let own: Vec<&str> = own.into_iter().flat_map(|setting| ["-c", setting]).collect();
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-q", "-m", "Begin"]] {
        let status = Command::new("git").args(&own).args(arguments).current_dir(project).status()?;
        if !status.success() {
            return Err(io::Error::other("git could not make the project"));
        }
    }
    Ok(())
}

/// Returns the next action of the simulated model, from the text of its phase and the results of its tools.
pub(crate) fn reply(conversation: &Conversation) -> Option<Reply> {
    reply_with(conversation, |tool, arguments| ToolCall::function(tool, arguments))
}

/// Like [`reply`], for a program that renames the tools. `name` creates the call.
pub(crate) fn reply_with(
    conversation: &Conversation,
    name: impl Fn(&str, Value) -> ToolCall,
) -> Option<Reply> {
    let answers = conversation.tool_results();
    // A program that takes no system text gets that text in front of the prompt.
    let is_told =
        |text: &str| conversation.system.contains(text) || conversation.user_texts().concat().contains(text);
    let call = |tool: &str, arguments| Some(Reply::call(name(tool, arguments)));
    let probe = || call("run_probe", json!({ "argv": ["sh", "sum.sh", "-1", "-2"] }));
    if is_told("You turn a goal into a brief") {
        return match answers.len() {
            0 => call("read_file", json!({ "path": "sum.sh" })),
            _ => call("submit_brief", brief()),
        };
    }
    if is_told("You do one step of a task") {
        return match answers.as_slice() {
            [] => call("read_file", json!({ "path": "sum.sh" })),
            [file] => call(
                "write_file",
                json!({ "path": "sum.sh", "content": "echo $(( $1 + $2 ))\n", "expected_hash": hash(file) }),
            ),
            [_, _] => call("run_tests", json!({})),
            _ => call(
                "submit_handoff",
                json!({
                    "claims": [{ "text": "Numbers keep their sign.", "evidence": ["test-1"] }],
                    "files": ["sum.sh"],
                    "action": "complete",
                }),
            ),
        };
    }
    match answers.as_slice() {
        [] => call("read_diff", json!({})),
        [_] => probe(),
        [.., probed] => call("submit_verdict", verdict(probed)),
    }
}

fn brief() -> Value {
    json!({
        "problem": "sum.sh takes the sign off its arguments before it adds them.",
        "criteria": [{ "id": "signs", "text": "`sh sum.sh -1 -2` prints -3" }],
        "read": ["."],
        "write": ["sum.sh", "test.sh"],
        "plan": [{
            "tier": "execution", "phase": "implement", "agent_type": "executor",
            "outcome": "sum.sh prints the sum", "criteria": ["signs"],
        }],
    })
}

/// Returns the hash of the file from the result of `read_file`. `write_file` requires it.
fn hash(answer: &str) -> &str {
    let found = answer.split(|character: char| !character.is_ascii_alphanumeric());
    found
        .into_iter()
        .find(|word| word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .unwrap_or("")
}

/// Creates a verdict from the output of the probe. It advances only if the old code printed another result.
fn verdict(probed: &str) -> Value {
    let id = probed.split(|character: char| !(character.is_ascii_alphanumeric() || character == '-'));
    let id = id.into_iter().find(|word| word.starts_with("probe-")).unwrap_or("probe-1");
    let holds = probed.contains("differs") && probed.contains("-3");
    let judged = |criterion: &str| json!({ "id": criterion, "judgement": if holds { "pass" } else { "fail" }, "evidence": [id] });
    json!({
        "decision": if holds { "advance" } else { "retry" },
        "criteria": [judged("outcome"), judged("signs")],
        "alignment": if holds { 1.0 } else { 0.0 },
    })
}

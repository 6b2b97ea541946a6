//! A project with a mistake, and a simulated model that frames, mends and reviews it: by what its phase is told, and by what its tools
//! answered.

use std::{fs, io, path::Path, process::Command};

use nexus_testkit::sim::{Conversation, Reply, ToolCall};
use serde_json::{Value, json};

/// A project with a mistake, and a test that does not see it.
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

/// What the simulated model does next: by what its phase's text says, and by what its tools answered.
pub(crate) fn reply(conversation: &Conversation) -> Option<Reply> {
    reply_with(conversation, |tool, arguments| ToolCall::function(tool, arguments))
}

/// The same for a program that offers the tools under names of its own: `name` makes the call.
pub(crate) fn reply_with(
    conversation: &Conversation,
    name: impl Fn(&str, Value) -> ToolCall,
) -> Option<Reply> {
    let answers = conversation.tool_results();
    // A program without a place for system text has it before the prompt.
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

/// The hash by which a file is replaced, as `read_file` gave it.
fn hash(answer: &str) -> &str {
    let found = answer.split(|character: char| !character.is_ascii_alphanumeric());
    found
        .into_iter()
        .find(|word| word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .unwrap_or("")
}

/// A verdict from what the probe printed: it advances only where the probe says that the old code answers otherwise.
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

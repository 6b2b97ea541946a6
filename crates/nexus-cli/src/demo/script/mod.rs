//! The script that replaces a model. Its next action depends on the request alone: the offered tools, their answers so far, and the
//! requested model. So turns may run at the same time, and a turn may continue on a restarted server.

mod note;
mod patch;
mod probe_output;
mod total;
mod verdict;

use serde_json::{Value, json};

use super::{reply::ModelReply, request::ModelRequest};

pub(super) use note::NOTE;
pub(super) use total::{LENSES, TOTAL};

/// Model that works without mistakes.
pub(super) const CAREFUL: &str = "careful";
/// Model that makes a mistake if it is the executor.
pub(super) const CARELESS: &str = "careless";

/// Words of a lens that keep a reviewer from running probes.
pub(super) const NO_PROBE: &str = "Run no probe";

/// Length of a map of the project, in bytes.
const MAP_BYTES: usize = 3 << 10;
/// Length of a quoted prompt, in characters.
const QUOTED: usize = 200;

/// Returns the next action of an agent. `None` if the script has none.
type Role = fn(&ModelRequest) -> Option<ModelReply>;

/// Task that the model plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskPlay {
    Total,
    Note,
}

impl TaskPlay {
    /// Returns the task to play, from the answer of `read_my_brief`.
    fn of(brief: &str) -> Self {
        if brief.contains(total::FILE) { Self::Total } else { Self::Note }
    }
}

/// Returns the next action of the model.
pub(super) fn next(vendor: &str, request: &ModelRequest) -> ModelReply {
    // Identify the role by its submitting tool, because a person may replace the prompts.
    let roles: [(&str, Role); 5] = [
        ("submit_brief", orchestrate),
        ("submit_handoff", implement),
        ("submit_verdict", review),
        ("submit_reflection", reflect),
        ("submit_context_map", draw_map),
    ];
    let Some((submit, role)) = roles.into_iter().find(|(submit, _)| request.offers(submit)) else {
        return ModelReply::Text(talk(vendor, request));
    };
    // The turn would have ended if its submission had been accepted. The script cannot correct it.
    if let Some(refused) = request.answer_of(submit) {
        return ModelReply::Text(format!("This script cannot continue: {refused}"));
    }
    match role(request) {
        Some(ModelReply::Call { tool, .. }) if !request.offers(tool) => {
            ModelReply::Text(format!("This script cannot continue without the tool {tool}."))
        }
        Some(reply) => reply,
        None => ModelReply::Text("This script cannot continue.".to_owned()),
    }
}

/// Answers a prompt outside of tasks.
fn talk(vendor: &str, request: &ModelRequest) -> String {
    let prompt = request.user_texts.last().map(String::as_str).unwrap_or_default();
    let mut quoted: String = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = quoted.char_indices().nth(QUOTED) {
        quoted.truncate(end);
        quoted.push('…');
    }
    format!(
        "This is a simulation: a script answers, not a model.\nYour prompt reached the simulated vendor {vendor} \
         as message {} of this\nconversation: \"{quoted}\"",
        request.user_texts.len()
    )
}

/// Reads the goal and the files, then submits the brief.
fn orchestrate(request: &ModelRequest) -> Option<ModelReply> {
    let Some(goal) = request.answer_of("read_my_brief") else { return read_my_brief() };
    match TaskPlay::of(goal) {
        TaskPlay::Total => total::orchestrate(request).or_else(|| note::orchestrate(request)),
        TaskPlay::Note => note::orchestrate(request),
    }
}

/// Reads the brief and the earlier work, changes the file, runs the tests, and submits the work.
fn implement(request: &ModelRequest) -> Option<ModelReply> {
    let Some(brief) = request.answer_of("read_my_brief") else { return read_my_brief() };
    if request.answer_of("read_handoffs").is_none() {
        return read_handoffs();
    }
    match TaskPlay::of(brief) {
        TaskPlay::Total => total::implement(request),
        TaskPlay::Note => note::implement(request, brief),
    }
}

/// Reads the brief, the work and the change, observes, and votes by the observations.
fn review(request: &ModelRequest) -> Option<ModelReply> {
    let Some(brief) = request.answer_of("read_my_brief") else { return read_my_brief() };
    if request.answer_of("read_handoffs").is_none() {
        return read_handoffs();
    }
    let Some(diff) = request.answer_of("read_diff") else {
        return Some(ModelReply::call("read_diff", json!({})));
    };
    match TaskPlay::of(brief) {
        TaskPlay::Total => total::review(request, brief, diff),
        TaskPlay::Note => note::review(request, brief, diff),
    }
}

/// Reads the verdict, and sends the step back with the last concern as its advice.
fn reflect(request: &ModelRequest) -> Option<ModelReply> {
    let Some(handoffs) = request.answer_of("read_handoffs") else { return read_handoffs() };
    let mut concerns =
        handoffs.lines().filter_map(|line| line.strip_prefix("> concern (")?.split_once("): "));
    let hint = concerns.next_back().map_or("Reach the outcome of the step.", |(_, concern)| concern);
    Some(ModelReply::call("submit_reflection", json!({ "re_dispatch": { "hint": hint } })))
}

/// Lists the files, and submits the list as the map of the project.
fn draw_map(request: &ModelRequest) -> Option<ModelReply> {
    let Some(listed) = request.answer_of("list_files") else {
        return Some(ModelReply::call("list_files", json!({})));
    };
    let listed = &listed[..listed.floor_char_boundary(MAP_BYTES)];
    let map = format!("The files of the project, as a simulated model listed them:\n\n{listed}");
    Some(ModelReply::call("submit_context_map", json!({ "map": map })))
}

fn read_my_brief() -> Option<ModelReply> {
    Some(ModelReply::call("read_my_brief", json!({})))
}

fn read_handoffs() -> Option<ModelReply> {
    Some(ModelReply::call("read_handoffs", json!({})))
}

/// Returns true if the reviewer may run probes.
fn may_probe(request: &ModelRequest) -> bool {
    request.offers("run_probe") && !request.system.contains(NO_PROBE)
}

/// Returns the submission of a step.
fn handoff(claim: &str, evidence: Option<&str>, file: &str) -> ModelReply {
    let evidence: Vec<&str> = evidence.into_iter().collect();
    ModelReply::call(
        "submit_handoff",
        json!({ "claims": [{ "text": claim, "evidence": evidence }], "files": [file], "action": "step_done" }),
    )
}

/// Returns a brief with one criterion and one step, which may write one file.
fn brief(problem: &str, criterion: &Value, file: &str, outcome: &str) -> ModelReply {
    ModelReply::call(
        "submit_brief",
        json!({
            "problem": problem,
            "criteria": [criterion],
            "read": ["."],
            "write": [file],
            "plan": [{
                "tier": "execution", "phase": "implement", "agent_type": "executor",
                "outcome": outcome, "criteria": [criterion["id"]],
            }],
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tool that submits, calls with their answers, and a part of the next action.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

    /// A request after these calls, each with its answer.
    fn request(submit: &str, calls: &[(&str, &str)]) -> ModelRequest {
        let item = |(index, (tool, answer)): (usize, &(&str, &str))| {
            let id = index.to_string();
            [
                json!({ "type": "function_call", "call_id": id, "name": tool, "arguments": "{}" }),
                json!({ "type": "function_call_output", "call_id": id, "output": answer }),
            ]
        };
        let input: Vec<Value> = calls.iter().enumerate().flat_map(item).collect();
        let tools = [submit, "read_my_brief", "read_handoffs", "read_diff", "list_files"];
        let tools = tools.map(|name| json!({ "type": "function", "name": name }));
        ModelRequest::read(&json!({ "model": CAREFUL, "tools": tools, "input": input }))
    }

    #[test]
    fn a_role_follows_from_the_tool_that_submits_and_acts_on_the_answers() {
        let called = |submit: &str, calls: &[(&str, &str)]| match next("amber", &request(submit, calls)) {
            ModelReply::Call { tool, arguments } => format!("{tool} {arguments}"),
            ModelReply::Text(text) => text,
        };
        let verdict = "[a verdict]\n> decision: retry\n> concern (probe-1): It prints 8.\n";
        let cases: [Case<'_>; 7] = [
            ("submit_brief", &[], "read_my_brief"),
            ("submit_handoff", &[("read_my_brief", "x")], "read_handoffs"),
            (
                "submit_reflection",
                &[("read_handoffs", verdict)],
                r#"{"re_dispatch":{"hint":"It prints 8."}}"#,
            ),
            ("submit_context_map", &[("list_files", "total.sh\ntest.sh")], "total.sh"),
            (
                "submit_verdict",
                &[("read_my_brief", ""), ("read_handoffs", ""), ("read_diff", "")],
                "cannot continue",
            ),
            ("submit_verdict", &[("submit_verdict", "it is refused")], "cannot continue: it is refused"),
            ("other", &[], "message 0 of this"),
        ];
        for (submit, calls, expected) in cases {
            let next = called(submit, calls);
            assert!(next.contains(expected), "{submit}: {next}");
        }
    }
}

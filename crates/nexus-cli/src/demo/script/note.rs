//! The task of any other project: a new file with one line.

use nexus_testbed::tool_answers::{content_hash, evidence_id};
use serde_json::json;

use super::{
    super::{reply::ModelReply, request::ModelRequest},
    CARELESS, brief, handoff, may_probe, patch, probe_output, verdict,
};

/// The line that the demo writes into a project.
pub(in crate::demo) const NOTE: &str = "A simulated agent of `nexus demo` wrote this.";

/// Names of the file. The first free one is used.
const FILES: [&str; 5] =
    ["NEXUS_DEMO.md", "NEXUS_DEMO_2.md", "NEXUS_DEMO_3.md", "NEXUS_DEMO_4.md", "NEXUS_DEMO_5.md"];

/// Looks for a free name, then submits a brief that asks for the file of this name.
pub(super) fn orchestrate(request: &ModelRequest) -> Option<ModelReply> {
    for file in FILES {
        let asked =
            request.calls.iter().find(|call| call.tool == "read_file" && call.arguments["path"] == file);
        let Some(asked) = asked else {
            return Some(ModelReply::call("read_file", json!({ "path": file })));
        };
        // An answer without a hash means that no file has this name yet.
        if content_hash(&asked.answer).is_none() {
            let criterion = json!({ "id": "line", "text": format!("{file} has one line: {NOTE}") });
            let problem = format!(
                "A simulated model cannot do what the goal asks. In its place, {file} gets one line: {NOTE}"
            );
            return Some(brief(&problem, &criterion, file, &format!("{file} has the line")));
        }
    }
    None
}

pub(super) fn implement(request: &ModelRequest, brief: &str) -> Option<ModelReply> {
    let file = file_of(brief)?;
    let Some(written) = request.answer_of("write_file") else {
        let line = if request.model == CARELESS { NOTE.replace("this", "that") } else { NOTE.to_owned() };
        let content = format!("{line}\n");
        return Some(ModelReply::call("write_file", json!({ "path": file, "content": content })));
    };
    let line = content_hash(written).map(|_| format!("diff:{file}:1"));
    Some(handoff(&format!("{file} has the line."), line.as_deref(), file))
}

pub(super) fn review(request: &ModelRequest, brief: &str, diff: &str) -> Option<ModelReply> {
    let file = file_of(brief)?;
    let changed = patch::changed_lines(diff);
    let mut evidence = changed.first().map(patch::ChangedLine::evidence);
    let mut seen: Vec<&str> =
        changed.iter().filter(|line| line.path == file && line.is_added).map(|line| line.text).collect();
    if may_probe(request) {
        let Some(answer) = request.answer_of("run_probe") else {
            let program = format!("test -e {file} && cat {file} || echo 'no {file}'");
            return Some(ModelReply::call("run_probe", json!({ "argv": ["sh", "-c", program] })));
        };
        let id = Some(evidence_id(answer).to_owned()).filter(|id| id.starts_with("probe-"));
        // Without a probe that ran, the diff remains the evidence.
        if id.is_some() {
            (evidence, seen) = (id, probe_output::lines_now(answer));
        }
    }
    let foreign = changed.iter().find(|line| line.path != file);
    let concern = match foreign {
        Some(line) => Some(format!("It changes {}, which is not part of the problem.", line.path)),
        None if seen == [NOTE] => None,
        None => Some(format!("{file} does not have the one line. It has: {}", seen.join(" / "))),
    };
    Some(verdict::submit(brief, evidence.as_deref(), concern.as_deref()))
}

/// Returns the file that the brief names.
fn file_of(brief: &str) -> Option<&'static str> {
    let names = |file: &&str| brief.contains(&format!("{file} has one line: "));
    FILES.into_iter().find(names)
}

//! Texts of new artifacts.

use std::fmt::Write as _;

use nexus_project::Time;

use super::{check::PlannedTask, document::NONE, id::SliceTaskId, task_block::inner, yaml};

/// Returns the current day.
pub(super) fn today() -> String {
    Time::now().to_string().chars().take(10).collect()
}

/// Returns a text, or [`NONE`] for a blank one.
pub(super) fn or_none(text: &str) -> &str {
    let text = text.trim();
    if text.is_empty() { NONE } else { text }
}

/// Returns sections between tags.
pub(super) fn tags(parts: &[(&str, &str)]) -> String {
    let written = parts.iter().map(|(name, text)| format!("<{name}>\n{text}\n</{name}>\n"));
    written.collect::<Vec<_>>().join("\n")
}

/// Returns a list in a frontmatter.
fn list(values: impl IntoIterator<Item = String>) -> String {
    let lines: String = values.into_iter().map(|value| format!("\n  - {}", yaml::quoted(&value))).collect();
    if lines.is_empty() { " []".to_owned() } else { lines }
}

/// Returns the plan of a task, from its block.
pub(super) fn plan_of(task: &PlannedTask) -> String {
    let PlannedTask { id, body, .. } = task;
    let name = inner(body, "name").unwrap_or("(unnamed)").split_whitespace().collect::<Vec<_>>().join(" ");
    let files = inner(body, "files_modified").or_else(|| inner(body, "files")).unwrap_or_default();
    let files = files.split([',', '\n']).map(|file| file.trim().trim_start_matches("- ").trim().to_owned());
    let mut text = format!(
        "---\nid: \"{id}\"\nslice: \"{}\"\nmilestone: \"{}\"\ntype: execute\nstatus: pending\ntier: {}\nowner: executor\nwave: {}\ndepends_on:{}\nfiles_modified:{}\nautonomous: true\nmust_haves: {{}}\n---\n\n# {id} — {name}\n\n",
        id.slice,
        id.slice.milestone,
        yaml::quoted(&task.tier),
        id.slice.number(),
        list(task.depends_on.iter().map(SliceTaskId::to_string)),
        list(files.filter(|file| !file.is_empty())),
    );
    let parts = ["read_first", "action", "verify", "acceptance_criteria", "done"];
    text += &tags(&parts.map(|part| (part, inner(body, part).unwrap_or(NONE))));
    let _ = write!(
        text,
        "\n<output>\nFill {}-SUMMARY.md in: what changed, which checks ran, what is left.\n</output>\n",
        id.short()
    );
    text
}

/// Returns an empty summary of a task.
pub(super) fn summary_of(id: SliceTaskId) -> String {
    format!(
        "---\nid: \"{id}\"\nslice: \"{}\"\nmilestone: \"{}\"\ntype: summary\nstatus: pending\n---\n\n# {id} — Summary\n\n## Changes\n\n{NONE}\n\n## Verification\n\n{NONE}\n\n## Follow-ups\n\n{NONE}\n",
        id.slice, id.slice.milestone
    )
}

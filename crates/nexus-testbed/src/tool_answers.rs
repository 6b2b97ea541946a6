//! Parts of the answers of a task's tools, as scripts that replace models read them.

use nexus_tasks::CRITERION_OF_STEP;

/// Returns the id of the evidence with which an answer of `run_tests` or `run_probe` begins: `test-1`, `probe-2`.
pub fn evidence_id(answer: &str) -> &str {
    first_word(answer)
}

/// Returns the hash of a file, from an answer of `read_file`, `edit_file` or `write_file`. The next change of the file needs it.
pub fn content_hash(answer: &str) -> Option<&str> {
    answer.split_once("hash ").map(|(_, after)| first_word(after))
}

/// Returns true if the tests of an answer of `run_tests` did not pass.
pub fn tests_failed(answer: &str) -> bool {
    answer.split_once(": ").is_none_or(|(_, outcome)| !outcome.starts_with("passed"))
}

/// Returns the criteria that a verdict must judge, by an answer of `read_my_brief`: the outcome of the step, and the criteria that
/// have to hold after it.
pub fn criteria_to_judge(brief: &str) -> Vec<&str> {
    let heads = brief.split("[criterion ").skip(1);
    let end = format!(", {CRITERION_OF_STEP}]");
    let ids = heads.filter_map(|head| Some(head.split_once(&end)?.0));
    std::iter::once("outcome").chain(ids.filter(|id| !id.contains(']'))).collect()
}

/// Returns the text before the first character that cannot be in an id.
fn first_word(text: &str) -> &str {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let text = text.trim_start_matches(|character| !is_part(character));
    &text[..text.find(|character| !is_part(character)).unwrap_or(text.len())]
}

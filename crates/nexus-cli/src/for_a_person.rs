//! Rewrites texts for a caller's agent into texts for a person: commands in place of tools.

/// Tool calls of an agent, each with the command for a person. A name comes before its own prefixes.
const COMMANDS: [(&str, &str); 18] = [
    ("task_create", "`nexus task new`"),
    ("task_orchestrate", "`nexus task run`"),
    ("task_run_turn", "`nexus task run`"),
    ("task_status with wait_s", "`nexus task watch`"),
    ("task_status", "`nexus task status`"),
    ("task_result", "`nexus task status`"),
    ("task_log", "`nexus task log`"),
    ("task_list", "`nexus task list`"),
    ("task_artifact", "`nexus task show`"),
    ("task_cancel", "`nexus task cancel`"),
    ("task_reopen", "`nexus task reopen`"),
    ("debate_create", "`nexus debate new`"),
    ("debate_advance", "`nexus debate advance`"),
    ("debate_status with wait_s", "`nexus debate watch`"),
    ("debate_status", "`nexus debate watch`"),
    ("debate_result", "`nexus debate show`"),
    ("debate_list", "`nexus debate list`"),
    ("debate_cancel", "`nexus debate cancel`"),
];

/// Rewrites a text for a caller's agent into one for a person.
pub(crate) fn for_a_person(words: &str) -> String {
    COMMANDS.iter().fold(words.to_owned(), |words, (call, command)| words.replace(call, command))
}

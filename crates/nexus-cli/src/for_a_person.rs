//! Words for a caller's agent, for a person: commands in place of tools.

/// What a caller's agent calls, and what a person does instead. A name comes before those that begin with it.
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

/// Words for a caller's agent, for a person.
pub(crate) fn for_a_person(words: &str) -> String {
    COMMANDS.iter().fold(words.to_owned(), |words, (call, command)| words.replace(call, command))
}

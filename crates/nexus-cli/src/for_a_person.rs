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

/// Tool calls on a project, each with the command for a person.
const PROJECT_COMMANDS: [(&str, &str); 10] = [
    ("plan_start", "`nexus project plan`"),
    ("plan_decide", "`nexus project decide`"),
    ("plan_update (`reopen`)", "`nexus project reopen`"),
    ("plan_update", "`nexus project plan`"),
    ("by calling task_add", "with `nexus project add`"),
    ("task_add", "`nexus project add`"),
    ("task_list", "`nexus project tasks`"),
    ("task_update", "`nexus project done`"),
    ("task_close", "`nexus project close`"),
    ("`force`", "`--force`"),
];

/// Rewrites a text for a caller's agent into one for a person.
pub(crate) fn for_a_person(words: &str) -> String {
    let words = words
        .replace("set `min_vendors` to a smaller number", "accept fewer with `--min-vendors N`")
        .replace("`min_vendors`", "`--min-vendors`");
    // Calls are replaced in this order, so a longer one stands before its own beginning.
    let words = COMMANDS.iter().fold(words, |words, (call, command)| words.replace(call, command));
    words.replace("call `nexus", "run `nexus")
}

/// Rewrites a text about a project.
pub(crate) fn of_project(words: &str) -> String {
    let replaced = |words: String, (call, command): &(&str, &str)| words.replace(call, command);
    PROJECT_COMMANDS.iter().fold(words.to_owned(), replaced).replace("call `nexus", "run `nexus")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_on_a_project_names_its_own_commands() {
        assert_eq!(of_project("first add a task with task_add"), "first add a task with `nexus project add`");
        assert_eq!(of_project("call task_list to see them"), "run `nexus project tasks` to see them");
        assert_eq!(for_a_person("call task_list to find the id"), "run `nexus task list` to find the id");
    }
}

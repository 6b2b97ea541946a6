//! `kind: acp` with the real agents that the environment names.
//!
//! What the Agent Client Protocol has no word for is not staged: when to try again, how many calls of the model a turn took, that a
//! text is taken back, what a turn used that was stopped.

use std::{path::PathBuf, sync::Arc};

use nexus_testkit::{conformance::DelegatedSubject, real, sim::Dialect};
use serde_json::json;

use crate::Subjects;

const ONE_NAME: &str =
    "the protocol tells calls of one reply apart by the names alone that the model gave them";

pub(crate) fn subjects() -> Subjects {
    let mut subjects: Subjects = Vec::new();
    for (name, variable, subject) in [
        ("real::acp_claude", "NEXUS_REAL_CLAUDE_ACP", claude as fn(PathBuf) -> DelegatedSubject),
        ("real::acp_codex", "NEXUS_REAL_CODEX_ACP", codex),
        ("real::acp_grok", "NEXUS_REAL_GROK", grok),
    ] {
        for executable in real::programs(variable) {
            subjects.push((name.to_owned(), Arc::new(subject(executable))));
        }
    }
    subjects
}

fn agent(name: &str, executable: PathBuf, dialect: Dialect) -> DelegatedSubject {
    let kind = nexus_backends::registry().kind("acp").cloned().expect("every build of these tests has it");
    let uncounted = "the protocol does not tell how often the model was asked";
    let untimed = "the protocol does not tell when to try again";
    let unrepeated = "the agent is told not to ask again, since it could not take the torn text back";
    let unused =
        "usage is told with the end of a turn alone, and a turn whose answer was handed in is stopped before";
    DelegatedSubject::real(format!("acp {name}"), kind, executable, dialect)
        .with_setting("agent", json!(name))
        .not_staging("the_spans_of_a_turn_are_one_tree", uncounted)
        .not_staging("a_plan_that_is_used_up_says_until_when", untimed)
        .not_staging("an_answer_torn_once_is_asked_for_again", unrepeated)
        .not_staging("a_submission_ends_the_turn", unused)
        .not_staging("text_before_a_submission_is_no_answer", unused)
}

fn claude(executable: PathBuf) -> DelegatedSubject {
    agent("claude-agent-acp", executable, Dialect::Anthropic)
        .with_model("claude-sonnet-4-5")
        .with_setting("billing", json!("plan"))
        .not_staging("two_commands_of_one_id_are_two_records", ONE_NAME)
        .not_staging(
            "usage_that_is_not_reported_is_not_invented",
            "the adapter counts what is not reported as nothing, which is how it ends a broken answer, too",
        )
}

fn codex(executable: PathBuf) -> DelegatedSubject {
    let unused = "the adapter tells how full the model's window is, and not what a turn used";
    agent("codex-acp", executable, Dialect::Responses)
        .with_model("gpt-5.5")
        // As it runs them at once, it is by chance that the first has ended when the second begins.
        .not_staging("two_commands_of_one_id_are_two_records", ONE_NAME)
        .not_staging("usage_is_what_the_vendor_counted", unused)
        .not_staging("usage_adds_up_over_the_calls_of_a_turn", unused)
        .not_staging("a_big_answer_arrives_whole", "the program shows its model an answer of a tool as JSON")
        .not_staging(
            "a_refusal_is_refused",
            "the adapter passes over a refusal: the answer is empty, and so incomplete",
        )
        .not_staging(
            "a_token_stops_a_turn_while_a_tool_runs",
            "the adapter does not tell of a command before it has said something or ended",
        )
}

fn grok(executable: PathBuf) -> DelegatedSubject {
    let ends = "Grok ends its turn where a command is not let through";
    let long = "Grok shows its model a part of a long prompt, so one beyond 64 KiB is refused: acp_agents";
    agent("grok", executable, Dialect::Xai)
        .with_model("grok-4.6")
        .not_staging("a_prompt_of_a_mebibyte_arrives_whole", long)
        .not_staging("two_commands_of_one_id_are_two_records", ONE_NAME)
        .not_staging("a_tool_sees_no_credential_and_no_variable_but_those_named", ends)
        .not_staging(
            "a_picture_that_a_tool_returns_reaches_the_model",
            "Grok gives its model a tool's picture as text",
        )
}

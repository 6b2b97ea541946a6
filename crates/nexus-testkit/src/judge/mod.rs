//! Judges a vendor's program against the simulator: a backend runs it through the scenarios below.
//!
//! The scenarios are cases of the conformance suite, so a row of `docs/reference/versions.md` summarizes the suite's report. The
//! results are stored in `versions.json` beside the vendor's code, where the backend reads them. `nexus status`,
//! `nexus check` and a turn's warnings are based on them.

mod agent;
mod judged_agents;
mod page;
mod program;
mod table;

use std::path::Path;

use futures::{StreamExt as _, stream};

pub use agent::{AGENT_PARTS, AgentUnderTest, judge_agent, verdict};
pub use judged_agents::JudgedAgents;
pub use page::page;
pub use program::Program;
pub use table::{Row, Table, repository};

use crate::conformance::{Outcome, Subject, run_case};

/// Scenarios tried at once. Each starts programs, and some measure time.
const AT_ONCE: usize = 4;

/// A part of what a version must do, and the cases of the suite that show it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Name and column header.
    pub name: &'static str,
    /// The cases.
    pub cases: &'static [&'static str],
}

/// Parts of the judgement of a version.
pub const PARTS: &[Part] = &[
    Part {
        name: "outcomes",
        cases: &[
            "a_short_answer_arrives",
            "a_refused_credential_is_unauthenticated",
            "a_model_that_is_not_there_is_unavailable",
            "a_rate_limit_that_names_its_time_asks_for_patience",
            "no_answer_is_no_success",
            "usage_is_what_the_vendor_counted",
        ],
    },
    Part { name: "understood", cases: &["an_ordinary_turn_is_understood"] },
    Part {
        name: "levels",
        cases: &[
            "scoped_only_offers_no_tool",
            "read_only_cannot_write",
            "workspace_write_cannot_write_outside",
        ],
    },
    Part {
        name: "tools",
        cases: &[
            "a_shell_command_runs_in_the_working_directory",
            "a_tool_of_the_callers_is_answered_by_the_caller",
            "an_answer_may_begin_with_text_where_tools_are_offered",
            "an_answer_may_begin_with_a_thought_where_tools_are_offered",
            "a_call_of_an_unknown_tool_is_answered",
            "calls_of_one_reply_are_each_answered_with_their_own",
            "effects_are_those_of_the_tools_called",
        ],
    },
    Part { name: "output", cases: &["an_answer_in_shape_is_a_value", "an_answer_out_of_shape_is_repaired"] },
    Part {
        name: "token hidden",
        cases: &[
            "a_tool_sees_no_credential_and_no_variable_but_those_named",
            "no_argument_list_holds_what_was_sent",
            "no_file_is_left_that_holds_what_was_sent",
        ],
    },
    Part {
        name: "bytes",
        cases: &[
            "an_answer_beyond_ascii_arrives_unharmed",
            "an_answer_of_a_mebibyte_arrives_byte_for_byte",
            "a_prompt_of_a_mebibyte_arrives_whole",
        ],
    },
    Part { name: "resume", cases: &["a_kept_conversation_goes_on", "a_lost_conversation_is_an_error"] },
    Part { name: "limits", cases: &["the_deadline_ends_a_turn", "tool_calls_are_limited"] },
    Part {
        name: "cancel",
        cases: &["a_token_stops_a_turn_while_a_tool_runs", "dropping_the_turn_stops_its_processes"],
    },
];

/// Tries `path`. The row names the cases that it failed; `told` is called with each finding as it comes.
///
/// # Errors
///
/// A sentence: no backend of this build runs the program, or its backend rejects it.
pub async fn judge(path: &Path, told: impl Fn(&str)) -> Result<(Program, Row), String> {
    let program = Program::find(path).await?;
    let subject = program.subject();
    let cases: Vec<&str> = PARTS.iter().flat_map(|part| part.cases).copied().collect();
    let verdicts = stream::iter(cases.iter().copied().map(|case| fails(&subject, case)));
    let verdicts: Vec<_> = verdicts.buffered(AT_ONCE).collect().await;
    let mut failed = Vec::new();
    for (case, finding) in cases.iter().zip(verdicts) {
        if let Some(finding) = finding {
            told(&format!("{case}: {finding}"));
            failed.push((*case).to_owned());
        }
    }
    let description_units = program.description_units().await?;
    let row =
        Row { version: program.version().to_owned(), failed, scenarios: cases.len(), description_units };
    Ok((program, row))
}

/// Part whose cases fail on the first finding: a token that leaks once in many runs has leaked.
const NEVER_TWICE: &str = "token hidden";

/// Returns the finding if the case fails. A failed case runs a second time, as a machine may be too busy for a case that measures
/// time. Cases of the part [`NEVER_TWICE`] run once. A case that does not apply does not count against the program.
async fn fails(subject: &dyn Subject, case: &str) -> Option<String> {
    let first = finding(subject, case).await?;
    let is_believed = PARTS.iter().any(|part| part.name == NEVER_TWICE && part.cases.contains(&case));
    if is_believed { Some(first) } else { finding(subject, case).await }
}

async fn finding(subject: &dyn Subject, case: &str) -> Option<String> {
    match run_case(subject, case).await {
        Ok(Outcome::Failed(finding)) | Err(finding) => Some(finding.to_string()),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::CASES;

    #[test]
    fn every_scenario_is_a_case_of_the_suite() {
        for case in PARTS.iter().chain(AGENT_PARTS).flat_map(|part| part.cases) {
            assert!(CASES.iter().any(|known| known.name == *case), "{case}");
        }
    }

    #[test]
    fn what_an_agent_cannot_do_is_a_case_of_its_judgement() {
        let agents = nexus_backends::acp::agents(&nexus_core::BuildContext::in_home("no-home")).agents;
        for (case, agent) in
            agents.iter().flat_map(|agent| agent.cannot.keys().map(|case| (case, &agent.name)))
        {
            let mut cases = AGENT_PARTS.iter().flat_map(|part| part.cases);
            assert!(cases.any(|known| known == case), "{agent}: {case}");
        }
    }

    #[test]
    fn the_page_shows_the_tables() {
        let tables = Table::all(&table::repository()).unwrap();
        let shown = std::fs::read_to_string(table::repository().join("docs/reference/versions.md"))
            .unwrap_or_default();
        assert!(
            shown == page(&tables),
            "docs/reference/versions.md is out of step: run `nexus-judge --page`"
        );
    }
}

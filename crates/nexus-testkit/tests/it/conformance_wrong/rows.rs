//! What is broken, and which check says so.

use std::{
    io::Write as _,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use nexus_core::{
    BackendId, CancelToken, ConversationMode, CostReport, Effects, ErrorKind, FinishReason, ForgetSupport,
    Limits, LoopMode, NoTools, OnLost, PromptBlock, Retry, Support, ToolAccess, TurnError, TurnEvent,
    TurnRequest, TurnResult, turn::Unrecognized,
};
use nexus_testkit::{
    conformance::{MARK_VARIABLE, Setting, TOKEN_VARIABLE},
    sim::{Part, Reply, Scenario, ToolCall},
};

use super::{
    tool_rows,
    wrong::{Forgetting, Life, Outcome, Wrong},
};

/// A backend that breaks a promise.
pub(crate) struct Row {
    /// The case that finds it.
    pub(crate) case: &'static str,
    /// The check that says so.
    pub(crate) check: &'static str,
    /// What is wrong.
    pub(crate) wrong: Wrong,
}

pub(crate) fn row(case: &'static str, check: &'static str, wrong: Wrong) -> Row {
    Row { case, check, wrong }
}

pub(crate) fn setting(change: fn(&mut Setting)) -> Wrong {
    Wrong { setting: Some(change), ..Wrong::default() }
}

pub(crate) fn request(change: fn(&mut TurnRequest)) -> Wrong {
    Wrong { request: Some(change), ..Wrong::default() }
}

pub(crate) fn event(change: fn(TurnEvent) -> Vec<TurnEvent>) -> Wrong {
    Wrong { event: Some(change), ..Wrong::default() }
}

pub(crate) fn outcome(change: fn(&mut Outcome, &Setting)) -> Wrong {
    Wrong { outcome: Some(change), ..Wrong::default() }
}

pub(crate) fn life(life: Life) -> Wrong {
    Wrong { life, ..Wrong::default() }
}

/// One row for each case.
pub(crate) fn promises() -> Vec<Row> {
    let families = [
        text(),
        prompt(),
        output(),
        tools(),
        tool_rows::caller_tools(),
        tool_rows::scope(),
        tool_rows::steering(),
        tool_rows::submission(),
        tool_rows::own_loop(),
        session(),
        forgetting(),
        usage(),
        limits(),
        failure(),
        credential(),
        telemetry(),
        cancel(),
        rest(),
    ];
    families.into_iter().flatten().collect()
}

fn text() -> Vec<Row> {
    vec![
        row("a_short_answer_arrives", "answer", setting(|it| it.script = Scenario::text("Something else."))),
        row(
            "an_answer_beyond_ascii_arrives_unharmed",
            "answer",
            setting(|it| {
                change_texts(&mut it.script, |text| text.replace(|letter: char| !letter.is_ascii(), "?"));
            }),
        ),
        row(
            "text_comes_in_pieces",
            "text deltas",
            event(|it| match it {
                TurnEvent::TextDelta(_) => vec![],
                it => vec![it],
            }),
        ),
        row(
            "thinking_is_shown_apart_from_the_answer",
            "thinking",
            event(|it| match it {
                TurnEvent::ThinkingDelta(_) => vec![],
                it => vec![it],
            }),
        ),
        row(
            "an_answer_of_a_mebibyte_arrives_byte_for_byte",
            "answer",
            setting(|it| {
                it.script = Reply::long((1 << 20) - 1).into();
            }),
        ),
        row(
            "a_piece_of_three_mebibytes_is_shown_whole",
            "text deltas",
            event(|it| match it {
                TurnEvent::TextDelta(delta) if delta.text.len() > 1 << 20 => vec![],
                it => vec![it],
            }),
        ),
        row(
            "a_slow_sink_costs_no_byte_of_the_answer",
            "answer",
            outcome(|it, _| {
                let Ok(result) = it else { return };
                result.text.pop();
                if let Some(last) = result.messages.last_mut() {
                    last.text.pop();
                }
            }),
        ),
    ]
}

fn prompt() -> Vec<Row> {
    vec![
        row(
            "a_prompt_of_a_mebibyte_arrives_whole",
            "prompt",
            request(|it| change_prompt(it, |text| text[..text.floor_char_boundary(1 << 19)].to_owned())),
        ),
        row(
            "a_prompt_with_a_slash_is_no_command",
            "prompt",
            request(|it| change_prompt(it, |text| text.replacen('/', "command ", 1))),
        ),
        row(
            "a_prompt_with_a_dash_is_no_option",
            "prompt",
            request(|it| change_prompt(it, |text| text.replacen('-', "option ", 1))),
        ),
        row(
            "a_prompt_with_an_at_sign_reads_no_file",
            "a file that is only named is not read",
            request(|it| {
                change_prompt(it, |text| {
                    let read = std::fs::read_to_string(text.trim_start_matches('@')).unwrap_or_default();
                    format!("{text}\n{read}")
                });
            }),
        ),
        row(
            "a_prompt_that_is_a_subcommand_is_a_prompt",
            "prompt",
            request(|it| change_prompt(it, |_| "usage: command [options]".to_owned())),
        ),
        row(
            "a_prompt_is_not_trimmed_or_expanded",
            "prompt",
            request(|it| change_prompt(it, |text| text.trim().to_owned())),
        ),
        row("every_text_of_the_prompt_arrives_in_order", "prompt", request(|it| it.prompt.reverse())),
        row("instructions_stand_above_the_prompt", "instructions", request(|it| it.system = None)),
        row("the_model_that_is_named_is_asked", "model", request(|it| it.model = Some("another".into()))),
        row("effort_arrives", "effort is reported", request(|it| it.effort = None)),
        row(
            "effort_out_of_range_is_clamped_and_reported",
            "effort is clamped",
            request(|it| it.effort = None),
        ),
        row(
            "a_tiny_picture_arrives_or_is_reported",
            "a warning says that the picture is left out",
            request(|it| {
                it.prompt.retain(|block| matches!(block, PromptBlock::Text { .. }));
            }),
        ),
        row(
            "a_picture_arrives",
            "pictures",
            request(|it| {
                it.prompt.retain(|block| matches!(block, PromptBlock::Text { .. }));
            }),
        ),
    ]
}

fn output() -> Vec<Row> {
    vec![
        row("an_answer_in_shape_is_a_value", "value", request(|it| it.output = None)),
        row(
            "an_answer_out_of_shape_is_repaired",
            "the turn ends well",
            request(|it| {
                it.output = it.output.take().map(|schema| schema.with_repairs(0));
            }),
        ),
        row(
            "an_answer_that_never_fits_is_given_up",
            "error kind",
            outcome(|it, _| kind(it, ErrorKind::Protocol)),
        ),
    ]
}

fn tools() -> Vec<Row> {
    let unrestricted = || request(|it| it.tool_access = ToolAccess::Unrestricted);
    vec![
        row(
            "a_shell_command_runs_in_the_working_directory",
            "the file",
            request(|it| {
                it.working_directory = None;
            }),
        ),
        row(
            "a_file_that_is_written_lands",
            "the file",
            setting(|it| {
                change_calls(&mut it.script, |call| {
                    if let ToolCall::WriteFile { text, .. } = call {
                        text.clear();
                    }
                });
            }),
        ),
        row(
            "a_tool_call_is_told_with_its_arguments_and_its_output",
            "arguments",
            outcome(|it, _| {
                well(it, |result| result.tool_calls.iter_mut().for_each(|call| call.arguments = None));
            }),
        ),
        row(
            "two_commands_of_one_id_are_two_records",
            "commands that ran",
            setting(|it| change_calls(&mut it.script, |call| *call = ToolCall::shell("echo done > one.txt"))),
        ),
        row("read_only_cannot_write", "the sandbox holds", unrestricted()),
        row("workspace_write_cannot_write_outside", "the sandbox holds", unrestricted()),
        row("an_extra_root_is_inside_the_sandbox", "the file", request(|it| it.extra_roots.clear())),
        row("scoped_only_offers_no_tool", "no tool is offered", unrestricted()),
        row(
            "a_tool_that_fails_is_told_to_the_model",
            "the model is told",
            setting(|it| {
                change_calls(&mut it.script, |call| *call = ToolCall::shell("exit 3"));
            }),
        ),
        row(
            "tools_called_together_are_all_answered",
            "calls of the result",
            setting(|it| {
                if let Some(first) = it.script.replies.first_mut() {
                    first.parts.truncate(1);
                }
            }),
        ),
        row(
            "a_level_that_is_a_list_of_tools_is_not_kept_unseen",
            "the turn fails",
            Wrong { capabilities: Some(|it, _| it.mode = LoopMode::Delegated), ..Wrong::default() },
        ),
        row(
            "an_ordinary_turn_is_understood",
            "everything is understood",
            event(|it| vec![it, Unrecognized::new(None, serde_json::Value::Null).harmless().into()]),
        ),
        row(
            "what_is_not_understood_may_have_changed_anything",
            "an unknown line is reported as an event",
            event(|it| match it {
                TurnEvent::Unrecognized(_) => vec![],
                it => vec![it],
            }),
        ),
        row(
            "a_tool_of_the_callers_is_answered_by_the_caller",
            "what the caller was asked",
            Wrong { host: Some(|host| host.with_tools(Arc::new(NoTools))), ..Wrong::default() },
        ),
    ]
}

fn session() -> Vec<Row> {
    vec![
        row("a_kept_conversation_goes_on", "history", request(|it| it.conversation = ConversationMode::Keep)),
        row(
            "an_older_handle_goes_on_where_its_backend_declares",
            "history",
            request(|it| it.conversation = ConversationMode::Keep),
        ),
        row("a_lost_conversation_is_an_error", "the turn fails", request(|it| if_lost(it, OnLost::Fresh))),
        row(
            "a_lost_conversation_begins_afresh_if_allowed",
            "the turn ends well",
            request(|it| {
                if_lost(it, OnLost::Fail);
            }),
        ),
        row(
            "a_handle_of_another_backend_is_refused",
            "the turn fails",
            request(|it| {
                it.conversation = ConversationMode::Ephemeral;
            }),
        ),
        row(
            "a_turn_that_is_not_kept_has_no_handle",
            "handle",
            request(|it| it.conversation = ConversationMode::Keep),
        ),
    ]
}

fn forgetting() -> Vec<Row> {
    let forgets = |forgetting| Wrong { forgetting, ..Wrong::default() };
    let stores =
        Wrong { capabilities: Some(|it, _| it.forget = ForgetSupport::InHandle), ..Wrong::default() };
    vec![
        row("a_forgotten_conversation_is_lost", "files that are kept", forgets(Forgetting::SaidOnly)),
        row("forgetting_twice_finds_nothing", "forgotten again", forgets(Forgetting::AlwaysDeleted)),
        row(
            "every_handle_of_a_conversation_is_forgotten_with_it",
            "the turn fails",
            forgets(Forgetting::SaidOnly),
        ),
        row("a_conversation_in_use_is_not_forgotten", "in use", forgets(Forgetting::Everything)),
        row(
            "a_handle_from_elsewhere_deletes_nothing",
            "nothing else is deleted",
            forgets(Forgetting::AnyPath),
        ),
        row("a_conversation_in_its_handle_is_stored_nowhere", "files that are kept", stores),
        row(
            "a_handle_of_another_backend_is_not_forgotten",
            "a strange handle",
            forgets(Forgetting::SaidOnly),
        ),
    ]
}

fn usage() -> Vec<Row> {
    vec![
        row(
            "usage_is_what_the_vendor_counted",
            "output tokens",
            outcome(|it, _| {
                well(it, |result| {
                    result.usage.reasoning_tokens = Some(8);
                });
            }),
        ),
        row(
            "usage_adds_up_over_the_calls_of_a_turn",
            "input tokens",
            outcome(|it, _| {
                well(it, |result| {
                    result.usage.input_tokens = result.usage.input_tokens.map(|tokens| tokens / 2);
                });
            }),
        ),
        row(
            "usage_that_is_not_reported_is_not_invented",
            "usage",
            outcome(|it, _| {
                well(it, |result| {
                    result.usage.output_tokens = Some(result.text.len() as u64 / 4);
                });
            }),
        ),
        row("the_cost_is_stated", "cost", outcome(|it, _| well(it, |result| result.cost = None))),
    ]
}

fn limits() -> Vec<Row> {
    let unlimited = || request(|it| it.limits = Limits::new());
    vec![
        row("the_deadline_ends_a_turn", "bounded time", unlimited()),
        row("a_model_that_never_begins_starves_the_turn", "bounded time", unlimited()),
        row("a_model_that_falls_silent_starves_the_turn", "bounded time", unlimited()),
        row(
            "a_long_silent_tool_is_left_alone",
            "the turn ends well",
            request(|it| {
                it.limits.idle.tool = Some(Duration::from_millis(50));
            }),
        ),
        row(
            "a_slow_model_that_speaks_is_left_alone",
            "the turn ends well",
            // Silent for longer than the limit, however late either is noticed.
            setting(|it| it.script.replies.iter_mut().for_each(|reply| reply.pace.gap_ms = 600_000)),
        ),
        row("tool_calls_are_limited", "the turn fails", unlimited()),
        row("model_calls_are_limited", "the turn fails", unlimited()),
        row("output_tokens_are_limited", "the turn fails", unlimited()),
        row("the_cost_is_limited", "the turn fails", unlimited()),
    ]
}

fn failure() -> Vec<Row> {
    let failing = || outcome(|it, _| kind(it, ErrorKind::Protocol));
    let never = || outcome(|it, _| error(it, |error| error.with_retry(Retry::Never)));
    let now = || outcome(|it, _| error(it, |error| error.with_retry(Retry::Now)));
    vec![
        row("a_refused_credential_is_unauthenticated", "error kind", failing()),
        row(
            "what_is_forbidden_is_forbidden",
            "error kind",
            outcome(|it, _| kind(it, ErrorKind::Unauthenticated)),
        ),
        row("a_model_that_is_not_there_is_unavailable", "retry", now()),
        row("a_rate_limit_that_names_its_time_asks_for_patience", "retry", never()),
        row("a_rate_limit_without_a_word_asks_for_patience", "retry", never()),
        row("a_rate_limit_of_a_century_is_cut_to_a_day", "retry", now()),
        row("silence_after_a_rate_limit_is_the_rate_limit", "error kind", failing()),
        row("a_plan_that_is_used_up_says_until_when", "retry", now()),
        row("a_server_that_fails_is_a_failure_of_the_vendor", "error kind", failing()),
        row(
            "a_vendor_without_capacity_is_overloaded",
            "error kind",
            outcome(|it, _| {
                kind(it, ErrorKind::RateLimited);
            }),
        ),
        row("a_request_that_the_vendor_cannot_use_is_invalid", "retry", now()),
        row("a_conversation_that_fills_the_window_is_too_long", "error kind", failing()),
        row("a_connection_that_is_refused_is_a_transport_error", "retry", never()),
        row(
            "an_answer_torn_once_is_asked_for_again",
            "messages are what was seen",
            event(|it| match it {
                TurnEvent::MessageVoided(_) => vec![],
                it => vec![it],
            }),
        ),
        row("an_answer_torn_every_time_is_a_transport_error", "error kind", failing()),
        row(
            "an_error_in_the_middle_of_an_answer_is_no_success",
            "the turn fails",
            setting(|it| it.script.replies.iter_mut().for_each(|reply| reply.fault = None)),
        ),
        row(
            "an_answer_that_cannot_be_read_is_no_success",
            "the turn fails",
            setting(|it| {
                if it.script.replies.iter().any(|reply| reply.fault.is_some()) {
                    it.script = Scenario::text("<html></html>");
                }
            }),
        ),
        row("a_page_of_html_is_a_transport_error", "error kind", failing()),
        row(
            "an_answer_without_its_end_is_no_success",
            "no abandoned try is kept beside another",
            Wrong {
                event: Some(|it| match it {
                    TurnEvent::MessageVoided(_) => vec![],
                    it => vec![it],
                }),
                ..outcome(|it, _| {
                    if let Err(error) = it {
                        let tries = [10, 11, 12].map(|number| format!("Try {number} breaks off behind its"));
                        error.partial_mut().text = tries.join("\n\n");
                    }
                })
            },
        ),
        row("an_answer_of_blanks_is_no_success", "error kind", failing()),
        row("an_answer_that_came_right_is_shown_once", "error kind", failing()),
        row("a_refusal_is_refused", "error kind", failing()),
        row("no_answer_is_no_success", "error kind", failing()),
        row("an_answer_cut_by_its_bound_is_incomplete", "error kind", failing()),
        row(
            "a_failure_after_a_tool_keeps_what_was_done",
            "partial tool calls",
            outcome(|it, _| {
                if let Err(error) = it {
                    error.partial_mut().tool_calls.clear();
                }
            }),
        ),
    ]
}

fn credential() -> Vec<Row> {
    vec![
        row("a_refused_credential_is_renewed_once", "the turn ends well", setting(|it| it.renewable = None)),
        row(
            "a_refused_credential_is_renewed_once",
            "a renewal is told",
            event(|it| match it {
                TurnEvent::Retrying(_) => vec![],
                it => vec![it],
            }),
        ),
        row("a_second_refusal_is_final", "renewals", life(Life::TriesTheTurnTwice)),
        row(
            "a_server_that_repeats_the_credential_is_not_repeated",
            "no secret comes back",
            outcome(|it, setting| {
                if let Err(error) = it {
                    let token = &setting.environment[TOKEN_VARIABLE];
                    *it = Err(TurnError::new(error.kind(), error.backend().clone()).with_message(token));
                }
            }),
        ),
        row("a_credential_in_pieces_is_not_repeated", "no secret comes back", redacting_whole_texts()),
        row("a_thought_of_the_credential_is_not_repeated", "no secret comes back", setting(forget)),
        row(
            "a_credential_in_a_call_reaches_no_tool_and_no_decision",
            "what the caller was asked",
            redacting_whole_texts(),
        ),
        row("a_credential_in_a_command_is_not_repeated", "no secret comes back", setting(forget)),
        row("a_kept_conversation_holds_no_credential", "no secret comes back", setting(forget)),
        row(
            "a_kept_conversation_holds_no_credential",
            "files that are kept",
            Wrong {
                beside: Some(|_, setting| {
                    std::fs::create_dir_all(&setting.home).unwrap();
                    std::fs::write(setting.home.join("auth.json"), &setting.environment[TOKEN_VARIABLE])
                        .unwrap();
                    None
                }),
                ..Wrong::default()
            },
        ),
        row(
            "what_was_done_is_not_done_again_for_a_credential",
            "the work is done once",
            setting(|it| {
                let again = it.script.replies.first().cloned();
                it.script.replies.splice(0..0, again);
            }),
        ),
    ]
}

/// Nothing is hidden any more.
fn forget(it: &mut Setting) {
    let token = it.environment.remove(TOKEN_VARIABLE).unwrap();
    it.environment.insert("FORGOTTEN".to_owned(), token);
}

/// Every text of an event and of the outcome is redacted, each for itself.
fn redacting_whole_texts() -> Wrong {
    fn clean<T: serde::Serialize + serde::de::DeserializeOwned>(it: &T) -> T {
        let mut text = serde_json::to_string(it).unwrap();
        while let Some(start) = text.find("canary-token-") {
            let end = text[start..].find(|it: char| !it.is_alphanumeric() && it != '-');
            text.replace_range(start..end.map_or(text.len(), |end| start + end), "[redacted]");
        }
        serde_json::from_str(&text).unwrap()
    }
    Wrong {
        setting: Some(forget),
        event: Some(|it| vec![clean(&it)]),
        outcome: Some(|it, _| well(it, |result| *result = clean(result))),
        ..Wrong::default()
    }
}

fn telemetry() -> Vec<Row> {
    vec![
        row("the_spans_of_a_turn_are_one_tree", "one span is the turn", life(Life::TriesTheTurnTwice)),
        row(
            "the_spans_of_a_turn_that_fails_say_why",
            "the span that failed",
            outcome(|it, _| {
                if let Err(error) = it {
                    *it = Err(TurnError::new(ErrorKind::Refused, error.backend().clone()));
                }
            }),
        ),
    ]
}

fn cancel() -> Vec<Row> {
    let deaf = || Wrong { host: Some(|host| host.with_cancel(CancelToken::new())), ..Wrong::default() };
    // Its only shell is the suite's own, which holds nobody.
    let delegated =
        || Wrong { capabilities: Some(|it, _| it.mode = LoopMode::Delegated), ..Wrong::default() };
    vec![
        row("a_process_that_hides_ends_with_the_token", "no hidden process is left", delegated()),
        row("a_process_that_hides_ends_with_the_drop", "no hidden process is left", delegated()),
        row("a_token_cancelled_before_the_start_spends_nothing", "the turn fails", deaf()),
        row("a_token_stops_a_turn_while_the_model_speaks", "bounded time", deaf()),
        row("a_token_stops_a_turn_while_a_tool_runs", "bounded time", deaf()),
        row("a_token_stops_a_turn_whose_sink_is_never_ready", "bounded time", deaf()),
        row(
            "dropping_the_turn_while_the_model_speaks_stops_its_processes",
            "the model is left alone",
            life(Life::BeginsAnewWhenDropped),
        ),
        row("dropping_the_turn_stops_its_processes", "no process is left", life(Life::OutlivesTheDrop)),
        row(
            "no_process_outlives_a_turn_that_ended_well",
            "no process is left",
            Wrong {
                capabilities: Some(|it, _| it.mode = LoopMode::Delegated),
                beside: Some(|_, setting| {
                    Command::new("sh").args(["-c", "sleep 20 & read end"]).beside(setting, &[])
                }),
                ..Wrong::default()
            },
        ),
    ]
}

fn rest() -> Vec<Row> {
    let nowhere = || request(|it| it.working_directory = None);
    let beside = |start| Wrong { beside: Some(start), ..Wrong::default() };
    vec![
        row("a_working_directory_that_is_missing_is_refused", "the turn fails", nowhere()),
        row("a_working_directory_that_is_a_file_is_refused", "the turn fails", nowhere()),
        row(
            "an_empty_prompt_is_refused",
            "the turn fails",
            request(|it| {
                it.prompt = vec![PromptBlock::text("Hello.")];
            }),
        ),
        row(
            "what_is_not_declared_is_refused",
            "the turn fails",
            Wrong { capabilities: Some(|it, _| it.images = Support::No), ..Wrong::default() },
        ),
        row(
            "capabilities_never_change",
            "capabilities",
            Wrong {
                capabilities: Some(|it, count| {
                    it.images = if count % 2 == 0 { Support::Yes } else { Support::No }
                }),
                ..Wrong::default()
            },
        ),
        row("a_probe_asks_no_model_and_leaves_nothing", "nothing is spent", life(Life::ProbeAsksTheModel)),
        row(
            "turns_at_once_do_not_see_each_other",
            "each turn has its own answer",
            setting(|it| {
                it.script.rules.reverse();
                for rule in &mut it.script.rules {
                    rule.when_prompt_contains = "question".into();
                }
            }),
        ),
        row(
            "the_credential_goes_to_the_model_and_nowhere_else",
            "the credential goes nowhere else",
            beside(|_, setting| {
                let (_, url) = &setting.script.replies[0].headers[0];
                let place = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
                let mut stream = std::net::TcpStream::connect(place).unwrap();
                stream.write_all(setting.environment[TOKEN_VARIABLE].as_bytes()).unwrap();
                None
            }),
        ),
        row(
            "no_argument_list_holds_what_was_sent",
            "argument lists",
            beside(|request, setting| {
                Command::new("sh").args(["-c", "read end", &request.prompt_text()]).beside(setting, &[])
            }),
        ),
        row(
            "no_file_is_left_that_holds_what_was_sent",
            "files left behind",
            beside(|request, setting| {
                std::fs::create_dir_all(&setting.home).unwrap();
                std::fs::write(setting.home.join("last-prompt.txt"), request.prompt_text()).unwrap();
                None
            }),
        ),
        row(
            "the_hosts_own_variables_reach_no_child",
            "foreign variables",
            beside(|_, setting| {
                let all: Vec<_> = std::env::vars().collect();
                Command::new("sh").args(["-c", "read end"]).beside(setting, &all)
            }),
        ),
        row(
            "a_tool_sees_no_credential_and_no_variable_but_those_named",
            "foreign variables",
            Wrong {
                setting: Some(|it| it.environment.extend(std::env::vars())),
                request: Some(|it| it.environment.extend(std::env::vars().map(|(name, _)| name))),
                ..Wrong::default()
            },
        ),
    ]
}

/// What holds for every turn.
pub(crate) fn contract() -> Vec<Row> {
    const ANY: &str = "a_short_answer_arrives";
    const SHELL: &str = "a_shell_command_runs_in_the_working_directory";
    const TORN: &str = "an_answer_torn_once_is_asked_for_again";
    const FAILED: &str = "an_answer_cut_by_its_bound_is_incomplete";
    vec![
        row(
            "what_is_not_understood_may_have_changed_anything",
            "an unknown message makes all effects possible",
            outcome(|it, _| well(it, |result| result.effects = Effects::None)),
        ),
        row(
            ANY,
            "no secret is traced",
            outcome(|_, setting| tracing::trace!(token = setting.environment[TOKEN_VARIABLE])),
        ),
        row(
            "what_was_done_is_not_done_again_for_a_credential",
            "a credential is declared",
            Wrong { denies_credential: true, ..Wrong::default() },
        ),
        row(ANY, "sequence has no gaps", Wrong { envelope: Some(|it| it.sequence += 1), ..Wrong::default() }),
        row(
            ANY,
            "time does not run backwards",
            Wrong {
                envelope: Some(|it| it.elapsed = Duration::from_secs(10).saturating_sub(it.elapsed)),
                ..Wrong::default()
            },
        ),
        row(
            ANY,
            "started comes first",
            event(|it| match it {
                TurnEvent::Started(_) => vec![],
                it => vec![it],
            }),
        ),
        row(
            ANY,
            "deltas add up to the message",
            event(|it| match it {
                TurnEvent::TextDelta(mut delta) => {
                    delta.text.push('!');
                    vec![delta.into()]
                }
                it => vec![it],
            }),
        ),
        row(
            ANY,
            "nothing comes after the end of a message",
            event(|it| match it {
                TurnEvent::MessageEnded(ended) => vec![ended.clone().into(), ended.into()],
                it => vec![it],
            }),
        ),
        row(
            TORN,
            "a message is voided once",
            event(|it| match it {
                TurnEvent::MessageVoided(gone) => vec![gone.clone().into(), gone.into()],
                it => vec![it],
            }),
        ),
        row(
            TORN,
            "nothing comes of a voided message",
            event(|it| match it {
                TurnEvent::MessageVoided(gone) => {
                    let late = nexus_core::turn::TextDelta::new(gone.message.clone(), "late");
                    vec![gone.into(), late.into()]
                }
                it => vec![it],
            }),
        ),
        row(
            SHELL,
            "tool events keep their order",
            event(|it| match it {
                TurnEvent::ToolCallStarted(_) => vec![],
                it => vec![it],
            }),
        ),
        row(
            SHELL,
            "tool calls are what was seen",
            outcome(|it, _| well(it, |result| result.tool_calls.clear())),
        ),
        row(
            SHELL,
            "effects are those of the tool calls",
            outcome(|it, _| {
                well(it, |result| {
                    result.effects = Effects::None;
                });
            }),
        ),
        row(
            ANY,
            "result text is the last message",
            outcome(|it, _| well(it, |result| result.text.push('!'))),
        ),
        row(
            ANY,
            "messages are what was seen",
            outcome(|it, _| {
                well(it, |result| {
                    result.text.push('!');
                    result.messages.iter_mut().for_each(|message| message.text.push('!'));
                });
            }),
        ),
        row(
            ANY,
            "provenance names the backend",
            outcome(|it, _| {
                well(it, |result| {
                    result.provenance.backend = BackendId::new("somebody-else");
                });
            }),
        ),
        row(
            ANY,
            "provenance counts attempts",
            outcome(|it, _| {
                well(it, |result| {
                    result.provenance.attempts = 0;
                });
            }),
        ),
        row(
            ANY,
            "cost was declared",
            Wrong { capabilities: Some(|it, _| it.cost = CostReport::Never), ..Wrong::default() },
        ),
        row(
            ANY,
            "thinking was declared",
            Wrong {
                setting: Some(|it| {
                    it.script = Reply::thinking("Hm.").and_text("Titan, Rhea and Iapetus.").into();
                }),
                capabilities: Some(|it, _| it.thinking = Support::No),
                ..Wrong::default()
            },
        ),
        row(
            ANY,
            "no secret comes back",
            outcome(|it, setting| {
                let token = setting.environment.get(TOKEN_VARIABLE).cloned().unwrap_or_default();
                if let Ok(result) = it {
                    result.finish = FinishReason::Other(token);
                }
            }),
        ),
        row(
            FAILED,
            "error names its backend",
            outcome(|it, _| {
                if it.is_err() {
                    *it = Err(TurnError::new(ErrorKind::Incomplete, BackendId::new("somebody-else")));
                }
            }),
        ),
        row(FAILED, "error kind", outcome(|it, _| kind(it, ErrorKind::Exhausted))),
        row(
            FAILED,
            "partial text",
            outcome(|it, _| {
                if let Err(error) = it {
                    error.partial_mut().text.clear();
                }
            }),
        ),
        row(
            "a_failure_after_a_tool_keeps_what_was_done",
            "partial effects",
            outcome(|it, _| {
                if let Err(error) = it {
                    error.partial_mut().effects = Effects::None;
                }
            }),
        ),
    ]
}

pub(crate) fn well(outcome: &mut Outcome, change: fn(&mut TurnResult)) {
    if let Ok(result) = outcome {
        change(result);
    }
}

fn error(outcome: &mut Outcome, change: fn(TurnError) -> TurnError) {
    if let Err(error) = outcome {
        *error = change(error.clone());
    }
}

/// The same error under another name.
fn kind(outcome: &mut Outcome, kind: ErrorKind) {
    if let Err(error) = outcome {
        let renamed = TurnError::new(kind, error.backend().clone()).with_retry(error.retry());
        *error = renamed.with_partial(error.partial().clone());
    }
}

fn if_lost(request: &mut TurnRequest, what: OnLost) {
    if let ConversationMode::Resume { on_lost, .. } = &mut request.conversation {
        *on_lost = what;
    }
}

fn change_prompt(request: &mut TurnRequest, change: fn(&str) -> String) {
    for block in &mut request.prompt {
        if let PromptBlock::Text { text } = block {
            *text = change(text);
        }
    }
}

fn change_texts(script: &mut Scenario, change: fn(&str) -> String) {
    for part in script.replies.iter_mut().flat_map(|reply| &mut reply.parts) {
        if let Part::Text { text } = part {
            *text = change(text);
        }
    }
}

pub(crate) fn change_calls(script: &mut Scenario, change: fn(&mut ToolCall)) {
    for part in script.replies.iter_mut().flat_map(|reply| &mut reply.parts) {
        if let Part::Call(call) = part {
            change(call);
        }
    }
}

/// A process that runs beside a turn, marked as the turn's.
pub(crate) trait BesideTurn {
    fn beside(&mut self, setting: &Setting, environment: &[(String, String)]) -> Option<Child>;
}

impl BesideTurn for Command {
    fn beside(&mut self, setting: &Setting, environment: &[(String, String)]) -> Option<Child> {
        let mark = setting.environment.get(MARK_VARIABLE)?;
        self.env_clear().envs(environment.iter().cloned()).env("PATH", "/usr/bin:/bin");
        Some(self.env(MARK_VARIABLE, mark).stdin(Stdio::piped()).spawn().unwrap())
    }
}

//! What is broken about the caller's tools.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use nexus_core::{
    Approval, Approver, CancelToken, Effects, Limits, LoopMode, Support, ToolCall as CallerCall, ToolContent,
    ToolDefinition, ToolResult, ToolRouter, TurnEvent, TurnHost,
};
use nexus_testkit::sim::{Reply, ToolCall};
use serde_json::json;

use super::{
    rows::{BesideTurn as _, Row, change_calls, event, life, outcome, request, row, setting, well},
    wrong::{Life, Wrong},
};

pub(crate) fn caller_tools() -> Vec<Row> {
    let gives_up = || {
        setting(|it| {
            it.script.replies.truncate(1);
            it.script.replies.push(Reply::status(400));
        })
    };
    let unlimited = || request(|it| it.limits = Limits::new());
    let deaf = || host(|it| it.with_cancel(CancelToken::new()));
    let refuses = || setting(|it| it.script.replies = vec![Reply::status(400)]);
    vec![
        row("an_answer_may_begin_with_text_where_tools_are_offered", "the turn ends well", refuses()),
        row("an_answer_may_begin_with_a_thought_where_tools_are_offered", "the turn ends well", refuses()),
        row("a_call_of_an_unknown_tool_is_answered", "status", known()),
        row(
            "an_error_of_a_tool_is_told_to_the_model",
            "status",
            host(|it| Meddling::host(it, |tools| tools.answers = |_, answer| ToolResult::ok(answer.content))),
        ),
        row("a_tool_that_panics_does_not_fail_the_turn", "the turn ends well", gives_up()),
        row("a_tool_that_hangs_is_ended_by_the_idle_limit", "bounded time", unlimited()),
        row("a_tool_that_hangs_is_ended_by_the_deadline", "bounded time", unlimited()),
        row("a_tool_that_hangs_is_ended_by_the_token", "bounded time", deaf()),
        row("dropping_the_turn_drops_the_running_tool", "the tool is let go", life(Life::OutlivesTheDrop)),
        row(
            "a_picture_that_a_tool_returns_reaches_the_model",
            "pictures",
            host(|it| {
                Meddling::host(it, |tools| {
                    tools.answers = |_, mut answer| {
                        answer.content.retain(|piece| matches!(piece, ToolContent::Text { .. }));
                        answer
                    };
                })
            }),
        ),
        row("a_terminal_tool_is_exempt_from_the_budget", "the turn ends well", unmarked()),
        row(
            "effects_are_those_of_the_tools_called",
            "effects",
            outcome(|it, _| well(it, |result| result.effects = Effects::Unknown)),
        ),
        row(
            "a_call_that_has_to_be_approved_is_made_once_it_is",
            "what the caller was asked",
            host(|mut it| {
                it.approver = None;
                it
            }),
        ),
        row(
            "a_call_that_is_not_approved_is_not_made",
            "what the caller was asked",
            host(|it| it.with_approver(Approver::new(|_| async { Approval::Granted }))),
        ),
    ]
}

pub(crate) fn steering() -> Vec<Row> {
    let unheard = || {
        host(|mut it| {
            it.steering = None;
            it
        })
    };
    let told = |times| match times {
        0 => event(|it| if matches!(it, TurnEvent::InputReceived(_)) { vec![] } else { vec![it] }),
        _ => event(
            |it| if matches!(it, TurnEvent::InputReceived(_)) { vec![it.clone(), it] } else { vec![it] },
        ),
    };
    vec![
        row("input_reaches_the_agent_between_its_calls", "what the senders are told", unheard()),
        row("input_is_delivered_once_and_stays_in_the_conversation", "what is told as received", told(2)),
        row("input_that_a_credential_is_in_shows_none_of_it", "what the senders are told", unheard()),
        row("a_flood_of_input_is_bounded", "what is told as received", told(0)),
        row("input_during_the_last_answer_is_not_delivered", "what the sender is told", unheard()),
        row(
            "input_is_refused_at_once_where_it_cannot_be_delivered",
            "report to the sender for a turn that does not start",
            unheard(),
        ),
        row(
            "input_is_refused_at_once_where_it_cannot_be_delivered",
            "report to the sender while the turn runs",
            Wrong { capabilities: Some(|it, _| it.steering = Support::No), ..Wrong::default() },
        ),
    ]
}

pub(crate) fn scope() -> Vec<Row> {
    // A router between backend and session that passes texts on and loses the rest, such as the status.
    let second_hand = || host(|it| Meddling::host(it, |_| {}));
    vec![
        row(
            "a_tool_out_of_scope_is_invisible_and_never_asked",
            "the request to the model does not contain it",
            request(|it| it.system = Some("Mind that there is open_the_vault, too.".to_owned())),
        ),
        row(
            "every_call_of_a_session_is_written_down",
            "decisions",
            host(|it| Meddling::host(it, |tools| tools.makes_up_answers = true)),
        ),
        row("a_path_out_of_scope_is_denied", "status", second_hand()),
        row(
            "a_denied_call_changes_nothing",
            "effects",
            outcome(|it, _| well(it, |result| result.effects = Effects::Wrote)),
        ),
        row("beyond_the_budget_an_answer_can_still_be_handed_in", "the turn ends well", unmarked()),
        row(
            "a_budget_without_a_way_out_ends_the_turn",
            "the turn fails",
            request(|it| it.limits = Limits::new()),
        ),
        row("turns_of_one_session_share_its_budget", "the turn fails", second_hand()),
        row(
            "what_a_failed_turn_did_is_put_back_and_done_anew",
            "effects of the failed turn",
            host(|it| {
                it.session().close();
                it
            }),
        ),
        row(
            "a_turn_that_is_over_holds_on_to_no_tool",
            "holders of the tools",
            host(|it| {
                std::mem::forget(it.tools());
                it
            }),
        ),
        row(
            "calls_of_one_reply_are_each_answered_with_their_own",
            "each call has its own answer",
            host(|it| {
                Meddling::host(it, |tools| tools.answers = |_, _| ToolResult::text("about the weather"))
            }),
        ),
        row(
            "a_big_answer_arrives_whole",
            "the answer in the tool calls",
            host(|it| Meddling::host(it, |tools| tools.answers = |_, answer| cut(answer, 64 << 10))),
        ),
        row("tools_and_an_output_schema_go_together", "value", request(|it| it.output = None)),
        row(
            "tools_that_the_program_does_not_reach_are_missed",
            "the turn fails",
            Wrong { capabilities: Some(|it, _| it.mode = LoopMode::Delegated), ..Wrong::default() },
        ),
    ]
}

pub(crate) fn submission() -> Vec<Row> {
    let believes =
        || host(|it| Meddling::host(it, |tools| tools.answers = |_, answer| ToolResult::ok(answer.content)));
    let overlapping =
        || host(|it| Meddling::host(it, |tools| tools.answers = |_, _| ToolResult::text("too early")));
    vec![
        row("a_submission_ends_the_turn", "bounded time", unmarked()),
        row("text_before_a_submission_is_no_answer", "bounded time", unmarked()),
        row("a_submission_that_does_not_fit_is_answered", "what was handed in", believes()),
        row("submissions_that_are_refused_end_the_turn", "the turn fails", believes()),
        row("of_two_submissions_the_first_counts", "finish reason", unmarked()),
        row("nothing_is_at_work_when_an_answer_is_handed_in", "calls at work", overlapping()),
        row("a_failure_after_a_submission_is_none", "the turn ends well", unmarked()),
        row("an_answer_in_shape_is_owed_beside_a_submission", "value", request(|it| it.output = None)),
        row(
            "a_conversation_goes_on_after_a_submission",
            "it can go on",
            outcome(|it, _| well(it, |result| result.resume = None)),
        ),
        row(
            "a_session_whose_answer_was_handed_in_takes_no_other_turn",
            "the turn fails",
            host(|it| Meddling::host(it, |_| {})),
        ),
        row("what_is_called_after_a_submission_is_not_asked", "status", unmarked()),
    ]
}

pub(crate) fn own_loop() -> Vec<Row> {
    vec![
        row(
            "calls_run_at_once_and_results_keep_their_order",
            "calls run at once",
            host(|it| Meddling::host(it, |tools| tools.one_by_one = true)),
        ),
        row("arguments_that_are_not_json_are_answered", "status", known()),
        row(
            "an_answer_of_ten_megabytes_arrives_whole",
            "the answer in the tool calls",
            host(|it| Meddling::host(it, |tools| tools.answers = |_, answer| cut(answer, 1 << 20))),
        ),
        row(
            "a_hundred_calls_at_once_are_each_answered_once",
            "calls that arrived",
            setting(|it| {
                if let Some(first) = it.script.replies.first_mut() {
                    first.parts.pop();
                }
            }),
        ),
        row(
            "calls_of_one_id_are_both_answered_and_told_apart",
            "calls of the result",
            setting(|it| {
                if let Some(first) = it.script.replies.first_mut() {
                    first.parts.truncate(1);
                }
            }),
        ),
        row(
            "a_call_repeated_for_ever_is_ended",
            "error kind",
            host(|it| {
                Meddling::host(it, |tools| {
                    tools.answers =
                        |count, _| ToolResult::ok(vec![ToolContent::text(format!("answer {count}"))]);
                })
            }),
        ),
        row(
            "a_turn_starts_no_process",
            "no process",
            Wrong {
                beside: Some(|_, setting| Command::new("sh").args(["-c", "read end"]).beside(setting, &[])),
                ..Wrong::default()
            },
        ),
    ]
}

/// No tool is one that hands in the answer.
fn unmarked() -> Wrong {
    host(|it| {
        Meddling::host(it, |tools| {
            tools.marks = |mut tool| {
                tool.terminal = false;
                tool
            };
        })
    })
}

/// The model calls a tool that is there, by its name and with good arguments.
fn known() -> Wrong {
    setting(|it| change_calls(&mut it.script, |call| *call = ToolCall::function("lookup", json!({}))))
}

/// The answer, with texts of this many bytes at most.
fn cut(mut answer: ToolResult, most: usize) -> ToolResult {
    for piece in &mut answer.content {
        if let ToolContent::Text { text } = piece {
            text.truncate(text.floor_char_boundary(most));
        }
    }
    answer
}

fn host(change: fn(TurnHost) -> TurnHost) -> Wrong {
    Wrong { host: Some(change), ..Wrong::default() }
}

/// The caller's tools, with something between them and the backend.
#[derive(Debug)]
struct Meddling {
    inner: Arc<dyn ToolRouter>,
    marks: fn(ToolDefinition) -> ToolDefinition,
    answers: fn(u32, ToolResult) -> ToolResult,
    one_by_one: bool,
    makes_up_answers: bool,
    turn: tokio::sync::Mutex<()>,
    count: AtomicU32,
}

impl Meddling {
    fn host(host: TurnHost, change: fn(&mut Self)) -> TurnHost {
        let mut meddling = Self {
            inner: host.tools(),
            marks: |tool| tool,
            answers: |_, answer| answer,
            one_by_one: false,
            makes_up_answers: false,
            turn: tokio::sync::Mutex::default(),
            count: AtomicU32::new(0),
        };
        change(&mut meddling);
        host.with_tools(Arc::new(meddling))
    }
}

#[async_trait]
impl ToolRouter for Meddling {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.inner.definitions().into_iter().map(self.marks).collect()
    }

    fn check_arguments(&self, _tool: &str, _arguments: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, call: CallerCall) -> ToolResult {
        let _alone = if self.one_by_one { Some(self.turn.lock().await) } else { None };
        if self.makes_up_answers {
            return ToolResult::text("a bird, I suppose");
        }
        let answer = self.inner.call(call).await;
        (self.answers)(self.count.fetch_add(1, Ordering::Relaxed), answer)
    }
}

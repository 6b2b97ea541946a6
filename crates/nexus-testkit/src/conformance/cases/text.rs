//! Answers: that they arrive whole, and how.

use std::time::Duration;

use nexus_core::{Effects, FinishReason, TurnEvent, TurnHost};

use crate::{
    conformance::{
        finding::{Verdict, ensure, same, same_text},
        trial::Trial,
        watch::SinkPace,
    },
    sim::{Reply, Scenario, long_text},
};

/// Bytes of a long answer.
const MEBIBYTE: usize = 1 << 20;

pub(crate) async fn a_short_answer_arrives(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Titan, Rhea and Iapetus.")).await?;
    let turn = staged.run(staged.request("Name the three largest moons of Saturn.")).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "Titan, Rhea and Iapetus.")?;
    same("finish reason", &result.finish, &FinishReason::Stop)?;
    same("no tool was called", &result.tool_calls.len(), &0)?;
    same("effects of pure text", &result.effects, &Effects::None)?;
    same("model calls", &staged.model_calls().len(), &1)
}

pub(crate) async fn an_answer_beyond_ascii_arrives_unharmed(trial: &Trial<'_>) -> Verdict {
    let answer = "naïve 水 🦀👩‍👩‍👧 \u{2028}\u{2029}\u{85}\u{feff} \"quoted\\\" \t tab, ﷽ 𝔘\nlast line e\u{301}";
    let staged = trial.stage(Reply::text(answer).paced(1, Duration::ZERO)).await?;
    let turn = staged.run(staged.request("Say something unusual.")).await?;
    same_text("answer", &turn.result()?.text, answer)
}

pub(crate) async fn text_comes_in_pieces(trial: &Trial<'_>) -> Verdict {
    let answer = "one two three four five six seven eight nine ten";
    let staged = trial.stage(Reply::text(answer).paced(6, Duration::from_millis(60))).await?;
    let turn = staged.run(staged.request("Count to ten.")).await?;
    same_text("answer", &turn.result()?.text, answer)?;
    let pieces =
        turn.events.iter().filter(|envelope| matches!(envelope.event, TurnEvent::TextDelta(_))).count();
    ensure(pieces >= 3, "text deltas", || format!("{pieces} pieces of an answer that came in eight"))
}

pub(crate) async fn thinking_is_shown_apart_from_the_answer(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::thinking("Let me weigh it.").and_text("It is heavy.")).await?;
    let turn = staged.run(staged.request("How heavy is it?")).await?;
    same_text("answer", &turn.result()?.text, "It is heavy.")?;
    let thinking: String = turn
        .events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TurnEvent::ThinkingDelta(delta) => Some(delta.text.as_str()),
            _ => None,
        })
        .collect();
    same_text("thinking", thinking.trim(), "Let me weigh it.")
}

pub(crate) async fn an_answer_of_a_mebibyte_arrives_byte_for_byte(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::long(MEBIBYTE)).await?;
    let turn = staged.run(staged.request("Tell me everything.")).await?;
    same_text("answer", &turn.result()?.text, &long_text(MEBIBYTE))
}

pub(crate) async fn a_piece_of_three_mebibytes_is_shown_whole(trial: &Trial<'_>) -> Verdict {
    let mut reply = Reply::long(3 * MEBIBYTE);
    reply.pace.piece_chars = usize::MAX;
    let staged = trial.stage(reply).await?;
    let turn = staged.run(staged.request("Tell me everything at once.")).await?;
    same_text("answer", &turn.result()?.text, &long_text(3 * MEBIBYTE))?;
    let events = || turn.events.iter().map(|envelope| &envelope.event);
    // A chain voids the text of a backend that failed before this one.
    let is_voided = |id: &nexus_core::MessageId| {
        events().any(|event| matches!(event, TurnEvent::MessageVoided(voided) if voided.message == *id))
    };
    let shown: String = events()
        .filter_map(|event| match event {
            TurnEvent::TextDelta(delta) if !is_voided(&delta.message) => Some(delta.text.as_str()),
            _ => None,
        })
        .collect();
    same_text("text deltas", &shown, &long_text(3 * MEBIBYTE))
}

pub(crate) async fn a_slow_sink_costs_no_byte_of_the_answer(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::long(MEBIBYTE)).await?;
    let pace = SinkPace::Slow(Duration::from_millis(2));
    let turn = staged.run_with(staged.request("Tell me everything."), TurnHost::new(), pace).await?;
    same_text("answer", &turn.result()?.text, &long_text(MEBIBYTE))?;
    let ended = turn.events.iter().find_map(|envelope| match &envelope.event {
        TurnEvent::MessageEnded(ended) => Some(ended.text.as_str()),
        _ => None,
    });
    same_text("message end", ended.unwrap_or_default(), &long_text(MEBIBYTE))
}

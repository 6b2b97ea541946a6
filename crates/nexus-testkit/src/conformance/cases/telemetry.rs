//! The spans of a turn: one tree by the OpenTelemetry conventions for generative AI, for native and delegated backends.

use nexus_core::ToolAccess;

use crate::{
    conformance::{
        finding::{Verdict, ensure, same, short},
        telemetry::SeenSpan,
        trial::Trial,
    },
    sim::{Reply, Scenario, Usage},
};

/// Usage of one model call. A dialect adds up the counts that its vendor adds up.
const USAGE: Usage =
    Usage { input: 100, cached: 20, cache_write: 0, output: 23, reasoning: 7, cost_ticks: None };

pub(crate) async fn the_spans_of_a_turn_are_one_tree(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let work = Reply::call(belt.shell("echo hello")).usage(USAGE);
    let staged = trial.stage(Scenario::new([work, Reply::text("Done.").usage(USAGE)])).await?;
    let turn = belt.run(&staged, "Work.").await?;
    let result = turn.result()?;
    let spans = turn.telemetry.spans();
    let of = |operation: &str| -> Vec<(usize, &SeenSpan)> {
        let is_such = |span: &SeenSpan| span.field("gen_ai.operation.name") == operation;
        spans.iter().enumerate().filter(|(_, span)| is_such(span)).collect()
    };

    let agents = of("invoke_agent");
    let [(agent, turns)] = agents.as_slice() else {
        return ensure(false, "one span is the turn", || format!("{} are", agents.len()));
    };
    same("span of the turn", &turns.field("otel.name"), &&*format!("invoke_agent {}", turn.backend))?;
    same("kind of the turn's span", &turns.field("otel.kind"), &"internal")?;
    same("agent of the turn's span", &turns.field("gen_ai.agent.name"), &turn.backend.as_str())?;
    let tokens = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    let used = [turns.field("gen_ai.usage.input_tokens"), turns.field("gen_ai.usage.output_tokens")];
    let counted = [tokens(result.usage.all_input_tokens()), tokens(result.usage.all_output_tokens())];
    same("tokens of the turn's span", &used, &[&*counted[0], &*counted[1]])?;

    let chats = of("chat");
    same("one span for each model call", &chats.len(), &staged.model_calls().len())?;
    for (_, chat) in &chats {
        same("a model call belongs to the turn", &chat.parent, &Some(*agent))?;
        same("kind of a model call's span", &chat.field("otel.kind"), &"client")?;
    }
    // Not every program reports the usage of each call.
    let each: Vec<u64> =
        chats.iter().filter_map(|(_, chat)| chat.field("gen_ai.usage.input_tokens").parse().ok()).collect();
    let input = result.usage.all_input_tokens().unwrap_or_default();
    let adds_up = each.len() < chats.len() || each.iter().sum::<u64>() == input;
    ensure(adds_up, "tokens of the model calls add up", || format!("{each:?}, of {input}"))?;

    let tools = of("execute_tool");
    same("one span for each call", &tools.len(), &result.tool_calls.len())?;
    for ((_, tool), call) in tools.iter().zip(&result.tool_calls) {
        let is_asked_for = tool.parent.is_some_and(|parent| chats.iter().any(|(chat, _)| *chat == parent));
        ensure(is_asked_for, "a call belongs to the model call that asked for it", || short(tool))?;
        same("kind of a call's span", &tool.field("otel.kind"), &"internal")?;
        same("tool of a call's span", &tool.field("gen_ai.tool.name"), &call.name.as_str())?;
        same("id of a call's span", &tool.field("gen_ai.tool.call.id"), &call.call.as_str())?;
    }
    let failed = spans.iter().find(|span| !span.field("error.type").is_empty());
    ensure(failed.is_none(), "no span of a turn that ended well failed", || short(&failed))
}

pub(crate) async fn the_spans_of_a_turn_that_fails_say_why(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Reply::status(400)).await?;
    let turn = staged.run(staged.request("Hello.")).await?;
    let kind = format!("{:?}", turn.error()?.kind());
    let spans = turn.telemetry.spans();
    for operation in ["invoke_agent", "chat"] {
        let is_such = |span: &&SeenSpan| span.field("gen_ai.operation.name") == operation;
        let last = spans.iter().rfind(is_such).map(|span| span.field("error.type").to_owned());
        same("the span that failed", &last.as_deref(), &Some(&*kind))?;
    }
    Ok(())
}

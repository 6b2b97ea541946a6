//! What the spans and metrics of a turn have to be. Source: OpenTelemetry semantic conventions for generative AI, version 1.41.

use nexus_core::TurnResult;
use opentelemetry_proto::tonic::{
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Histogram, HistogramDataPoint, Metric, metric::Data},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};

/// The spans of one turn that the conventions describe.
pub(crate) struct Tree {
    agent: Span,
    chats: Vec<Span>,
    tools: Vec<Span>,
}

impl Tree {
    pub(crate) fn of(spans: &[Span]) -> Result<Self, String> {
        let shown = || spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>().join(", ");
        let of = |operation: &str| {
            let is_such = |span: &&Span| text(span, "gen_ai.operation.name").as_deref() == Some(operation);
            spans.iter().filter(is_such).cloned().collect::<Vec<_>>()
        };
        let (agents, chats, tools) = (of("invoke_agent"), of("chat"), of("execute_tool"));
        let [agent] = agents.as_slice() else {
            return Err(format!("{} spans are invoke_agent: {}", agents.len(), shown()));
        };
        if spans.iter().any(|span| span.trace_id != agent.trace_id) {
            return Err(format!("more than one trace: {}", shown()));
        }
        if spans.iter().any(|span| !span.events.is_empty()) {
            return Err("a span has events".to_owned());
        }
        Ok(Self { agent: agent.clone(), chats, tools })
    }

    /// `invoke_agent` > two `chat`, the first of which asked for the `execute_tool`.
    pub(crate) fn is_a_turn_with_a_call(
        &self,
        backend: &str,
        provider: &str,
        model: &str,
        result: &TurnResult,
    ) -> Result<(), String> {
        let Self { agent, chats, tools } = self;
        same("chats", chats.len(), 2)?;
        same("tools", tools.len(), 1)?;
        same("name of the agent's span", agent.name.as_str(), &format!("invoke_agent {backend}"))?;
        same("kind of the agent's span", agent.kind(), SpanKind::Internal)?;
        same("agent", text(agent, "gen_ai.agent.name").as_deref(), Some(backend))?;
        same(
            "finish of the turn",
            list(agent, "gen_ai.response.finish_reasons"),
            Some(vec!["stop".to_owned()]),
        )?;
        let id = text(agent, "gen_ai.conversation.id").ok_or("the turn names no conversation")?;
        for span in chats.iter().chain([agent]) {
            same("provider", text(span, "gen_ai.provider.name").as_deref(), Some(provider))?;
            same("model that was asked", text(span, "gen_ai.request.model").as_deref(), Some(model))?;
            same("conversation", text(span, "gen_ai.conversation.id").as_deref(), Some(id.as_str()))?;
            if text(span, "gen_ai.response.model").is_none() {
                return Err(format!("{} does not say which model answered", span.name));
            }
        }
        for span in chats.iter().chain(tools).chain([agent]) {
            same(
                "status",
                span.status.as_ref().map_or(StatusCode::Unset, |status| status.code()),
                StatusCode::Unset,
            )?;
            same("error", text(span, "error.type"), None)?;
            if span.end_time_unix_nano < span.start_time_unix_nano
                || span.end_time_unix_nano > agent.end_time_unix_nano
            {
                return Err(format!("{} does not end within the turn", span.name));
            }
        }
        for chat in chats {
            same("name of a chat", chat.name.as_str(), &format!("chat {model}"))?;
            same("kind of a chat", chat.kind(), SpanKind::Client)?;
            same("parent of a chat", &chat.parent_span_id, &agent.span_id)?;
        }
        let [first, second] = chats.as_slice() else { unreachable!("counted above") };
        if second.start_time_unix_nano < first.end_time_unix_nano {
            return Err("the second chat begins before the first has ended".to_owned());
        }
        for tool in tools {
            same("name of a call", tool.name.as_str(), "execute_tool lookup")?;
            same("kind of a call", tool.kind(), SpanKind::Internal)?;
            same("parent of a call", &tool.parent_span_id, &first.span_id)?;
            same("tool", text(tool, "gen_ai.tool.name").as_deref(), Some("lookup"))?;
            let id = result.tool_calls.first().map(|call| call.call.as_str().to_owned());
            same("call id", text(tool, "gen_ai.tool.call.id"), id)?;
            if tool.end_time_unix_nano > second.end_time_unix_nano {
                return Err("the call ends after the model has read its answer".to_owned());
            }
        }
        let usage = &result.usage;
        for (key, whole) in [
            ("gen_ai.usage.input_tokens", usage.all_input_tokens()),
            ("gen_ai.usage.output_tokens", usage.all_output_tokens()),
            ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ] {
            let whole = whole.map(|tokens| i64::try_from(tokens).unwrap());
            same(key, number(agent, key), whole)?;
            let sum: Option<i64> = chats.iter().map(|chat| number(chat, key)).sum();
            same(&format!("{key}, over the chats"), sum, whole)?;
        }
        Ok(())
    }

    /// What names the turn's span to other processes.
    pub(crate) fn traceparent(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("00-{}-{}-01", hex(&self.agent.trace_id), hex(&self.agent.span_id))
    }

    pub(crate) fn is_a_turn_that_failed(&self, kind: &str) -> Result<(), String> {
        let Self { agent, chats, tools } = self;
        same("tools", tools.len(), 0)?;
        if chats.is_empty() {
            return Err("no model call is there".to_owned());
        }
        same("error of the turn", text(agent, "error.type").as_deref(), Some(kind))?;
        for span in chats.iter().chain([agent]) {
            let status = span.status.clone().unwrap_or_default();
            same("status", status.code(), StatusCode::Error)?;
            same("message of the status", status.message.as_str(), "")?;
            if text(span, "error.type").is_none() {
                return Err(format!("{} names no error", span.name));
            }
        }
        Ok(())
    }
}

/// The metrics count what the turn used, in the units and steps of the conventions.
pub(crate) fn has_metrics(metrics: &[Metric], provider: &str, result: &TurnResult) -> Result<(), String> {
    let duration = histogram(metrics, "gen_ai.client.operation.duration", "s")?;
    same("model calls measured", duration.data_points.iter().map(|point| point.count).sum(), 2_u64)?;
    let steps = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
    let tokens = histogram(metrics, "gen_ai.client.token.usage", "{token}")?;
    let powers: Vec<f64> = (0..14).map(|power| f64::from(4_u32.pow(power))).collect();
    for (points, bounds) in [(&duration.data_points, &steps[..]), (&tokens.data_points, &powers[..])] {
        for point in points {
            same("boundaries", point.explicit_bounds.as_slice(), bounds)?;
            same("provider", of_point(point, "gen_ai.provider.name").as_deref(), Some(provider))?;
            same("operation", of_point(point, "gen_ai.operation.name").as_deref(), Some("chat"))?;
        }
    }
    let sum = |kind: &str| -> f64 {
        let is_such =
            |point: &&HistogramDataPoint| of_point(point, "gen_ai.token.type").as_deref() == Some(kind);
        tokens.data_points.iter().filter(is_such).filter_map(|point| point.sum).sum()
    };
    let whole = |tokens: Option<u64>| tokens.unwrap_or_default() as f64;
    same("input tokens", sum("input"), whole(result.usage.all_input_tokens()))?;
    same("output tokens", sum("output"), whole(result.usage.all_output_tokens()))
}

fn histogram<'m>(metrics: &'m [Metric], name: &str, unit: &str) -> Result<&'m Histogram, String> {
    let metric = metrics.iter().rfind(|metric| metric.name == name).ok_or(format!("{name} is missing"))?;
    same("unit", metric.unit.as_str(), unit)?;
    match &metric.data {
        Some(Data::Histogram(histogram)) if !histogram.data_points.is_empty() => Ok(histogram),
        other => Err(format!("{name} is {other:?}")),
    }
}

fn of_point(point: &HistogramDataPoint, key: &str) -> Option<String> {
    match value(&point.attributes, key)? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()
}

fn text(span: &Span, key: &str) -> Option<String> {
    match value(&span.attributes, key)? {
        Value::StringValue(text) => Some(text.clone()),
        other => panic!("{key} is {other:?}"),
    }
}

fn number(span: &Span, key: &str) -> Option<i64> {
    match value(&span.attributes, key)? {
        Value::IntValue(number) => Some(*number),
        other => panic!("{key} is {other:?}"),
    }
}

fn list(span: &Span, key: &str) -> Option<Vec<String>> {
    let Value::ArrayValue(list) = value(&span.attributes, key)? else { return None };
    let texts = list.values.iter().map(|item| match &item.value {
        Some(Value::StringValue(text)) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

#[allow(clippy::needless_pass_by_value, reason = "calls read better")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Result<(), String> {
    let (is, should) = (&is, &should);
    if is == should { Ok(()) } else { Err(format!("{what}: {is:?}, not {should:?}")) }
}

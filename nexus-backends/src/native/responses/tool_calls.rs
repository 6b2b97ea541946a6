//! Answers the calls of one reply: in parallel as far as allowed, told as they end, handed back in call order.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use nexus_core::{Effects, ToolCall, ToolCallStatus, ToolDefinition, ToolResult, ToolRouter};
use serde_json::{Value, json, value::RawValue};
use tracing::Instrument as _;

use super::{
    reader::{FunctionCall, OutputItem},
    request::bare_call,
};

/// The caller's tools, as this turn offers them.
#[derive(Debug)]
pub(super) struct ToolDesk {
    router: Arc<dyn ToolRouter>,
    marks: BTreeMap<String, Marks>,
    at_once: usize,
    budget: Option<u32>,
    spent: u32,
    has_warned: bool,
    seen: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    effects: Effects,
    is_terminal: bool,
}

/// A call that is to be answered.
#[derive(Debug)]
pub(super) struct Call {
    /// Pairs it with its answer; no two of a turn are the same.
    pub(super) id: String,
    /// The tool.
    pub(super) name: String,
    /// The arguments, as the model wrote them.
    pub(super) text: String,
    /// The arguments; text that is not JSON is a JSON string.
    pub(super) arguments: Value,
    /// What it may change.
    pub(super) effects: Effects,
    /// Whether it is a custom call, which is free text.
    pub(super) is_custom: bool,
    /// Whether its tool hands in the answer.
    pub(super) is_terminal: bool,
    /// The answer, where it is decided without asking anybody.
    pub(super) refusal: Option<Refusal>,
}

/// Why a call is answered without asking the caller.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The model is told what is wrong with its call.
    Mistaken(String),
    /// The budget is used up; the model is told what it may still call.
    OverBudget(String),
    /// The budget is used up, and the model knew or cannot hand in an answer by a tool.
    EndOfTurn,
}

impl ToolDesk {
    /// Offers `definitions` of `router`; at most `at_once` calls run at a time, and `budget` calls in all,
    /// terminal tools excepted. `seen` are the ids of calls that were made before the turn.
    pub(super) fn new(
        router: Arc<dyn ToolRouter>,
        definitions: &[&ToolDefinition],
        at_once: usize,
        budget: Option<u32>,
        seen: BTreeSet<String>,
    ) -> Self {
        let marks = definitions
            .iter()
            .map(|tool| (tool.name.clone(), Marks { effects: tool.effects, is_terminal: tool.terminal }));
        Self {
            router,
            marks: marks.collect(),
            at_once: at_once.max(1),
            budget,
            spent: 0,
            has_warned: false,
            seen,
        }
    }

    /// Withdraws a tool that the server refused.
    pub(super) fn withdraw(&mut self, name: &str) {
        self.marks.remove(name);
    }

    /// Gives calls whose id was there before another one: a server that repeats ids means two calls.
    pub(super) fn tell_apart(&mut self, items: &mut [OutputItem]) {
        for (index, item) in items.iter_mut().enumerate() {
            let id = match item {
                OutputItem::Call(call) => &call.call_id,
                OutputItem::CustomCall { call_id, .. } => call_id,
                _ => continue,
            };
            if !id.is_empty() && self.seen.insert(id.clone()) {
                continue;
            }
            let fresh = (1..).map(|n| format!("{id}-{}", index + n));
            if let Some(id) = fresh.into_iter().find(|id| !self.seen.contains(id)) {
                self.seen.insert(id.clone());
                rename(item, id);
            }
        }
    }

    /// The calls of a reply, in order, each with what is decided about it beforehand.
    pub(super) fn calls(&mut self, items: &[OutputItem]) -> Vec<Call> {
        let mut calls = Vec::new();
        for item in items {
            match item {
                OutputItem::Call(call) => calls.push(self.call(call)),
                OutputItem::CustomCall { call_id, name, input, .. } => {
                    let refusal = self.spend().unwrap_or_else(|| Refusal::Mistaken(self.unknown(name)));
                    calls.push(Call {
                        id: call_id.clone(),
                        name: name.clone(),
                        text: input.clone(),
                        arguments: Value::String(input.clone()),
                        effects: Effects::None,
                        is_custom: true,
                        is_terminal: false,
                        refusal: Some(refusal),
                    });
                }
                _ => {}
            }
        }
        // What was refused for its budget in one reply was refused in ignorance; in the next one it was not.
        self.has_warned |= calls.iter().any(|call| matches!(call.refusal, Some(Refusal::OverBudget(_))));
        calls
    }

    fn call(&mut self, call: &FunctionCall) -> Call {
        let marks = self.marks.get(&call.name).copied();
        // No arguments at all are what some models write for a tool that takes none.
        let text = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() };
        let (arguments, mistake) = match serde_json::from_str::<Value>(text) {
            Ok(arguments) => (arguments, None),
            Err(error) => {
                let mistake = format!("the arguments are not JSON: {error}; write one JSON object");
                (Value::String(call.arguments.clone()), Some(mistake))
            }
        };
        let is_terminal = marks.is_some_and(|marks| marks.is_terminal);
        let mistake = match marks {
            None => Some(self.unknown(&call.name)),
            Some(_) => mistake,
        };
        // A mistake counts as a call: the model was asked for it, and is asked for another.
        let over_budget = if is_terminal { None } else { self.spend() };
        let refusal = over_budget.or(mistake.map(Refusal::Mistaken));
        let effects = match (&refusal, marks) {
            (None, Some(marks)) => marks.effects,
            _ => Effects::None,
        };
        Call {
            id: call.call_id.clone(),
            name: call.name.clone(),
            text: call.arguments.clone(),
            arguments,
            effects,
            is_custom: false,
            is_terminal,
            refusal,
        }
    }

    /// Takes a call out of the budget.
    fn spend(&mut self) -> Option<Refusal> {
        let budget = self.budget?;
        if self.spent < budget {
            self.spent += 1;
            return None;
        }
        let terminal: Vec<&str> = self.terminal_tools().collect();
        if self.has_warned || terminal.is_empty() {
            return Some(Refusal::EndOfTurn);
        }
        let names = terminal.join(", ");
        Some(Refusal::OverBudget(format!(
            "the budget of {budget} tool calls is used up; you may still call: {names}"
        )))
    }

    fn terminal_tools(&self) -> impl Iterator<Item = &str> {
        self.marks.iter().filter(|(_, marks)| marks.is_terminal).map(|(name, _)| name.as_str())
    }

    fn unknown(&self, name: &str) -> String {
        // The model may call anything a tool, at any length.
        let name: String = name.chars().take(100).collect();
        let names: Vec<&str> = self.marks.keys().map(String::as_str).collect();
        match names.is_empty() {
            true => format!("there is no tool named {name:?}; you have no tools"),
            false => format!("there is no tool named {name:?}; there are: {}", names.join(", ")),
        }
    }

    /// The answers to `calls`, each with its place among them, as they come. Dropping the stream gives up
    /// what is not answered yet.
    pub(super) fn answers<'c>(
        &self,
        calls: &'c [Call],
    ) -> impl Stream<Item = (usize, ToolResult, ToolCallStatus)> + use<'c> {
        let router = Arc::clone(&self.router);
        let answer = move |(index, call): (usize, &'c Call)| {
            let router = Arc::clone(&router);
            async move {
                let (result, status) = answer(&*router, call).await;
                (index, result, status)
            }
        };
        stream::iter(calls.iter().enumerate()).map(answer).buffer_unordered(self.at_once)
    }
}

async fn answer(router: &dyn ToolRouter, call: &Call) -> (ToolResult, ToolCallStatus) {
    match &call.refusal {
        Some(Refusal::Mistaken(reason)) => return (ToolResult::error(reason), ToolCallStatus::Failed),
        Some(Refusal::OverBudget(reason)) => return (ToolResult::error(reason), ToolCallStatus::Denied),
        Some(Refusal::EndOfTurn) => {
            return (ToolResult::error("the budget of tool calls is used up"), ToolCallStatus::Denied);
        }
        None => {}
    }
    let span = tracing::info_span!(
        "execute_tool",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name,
        gen_ai.tool.call.id = call.id,
    );
    let asked = ToolCall::new(call.id.as_str(), call.name.as_str(), call.arguments.clone());
    // Also the making of the future may panic, so that happens inside.
    let answered = async move { router.call(asked).await };
    let result = AssertUnwindSafe(answered).catch_unwind().instrument(span).await;
    let result = result.unwrap_or_else(|_| ToolResult::error(format!("the tool {} broke down", call.name)));
    let status = if result.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Succeeded };
    (result, status)
}

/// Gives a call another id, also where it goes back to the model.
fn rename(item: &mut OutputItem, id: String) {
    let (bare, raw) = match item {
        OutputItem::Call(call) => {
            call.call_id = id;
            (bare_call(call), &mut call.raw)
        }
        OutputItem::CustomCall { call_id, name, input, raw } => {
            *call_id = id;
            (json!({ "type": "custom_tool_call", "call_id": call_id, "name": name, "input": input }), raw)
        }
        _ => return,
    };
    if let Ok(bare) = RawValue::from_string(bare.to_string()) {
        *raw = bare;
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::NoTools;

    use super::*;

    #[test]
    fn no_two_calls_of_a_turn_have_one_id_whatever_kind_they_are() {
        let raw = || RawValue::from_string(r#"{"call_id":"x"}"#.to_owned()).unwrap();
        let custom = || OutputItem::CustomCall {
            call_id: "x".to_owned(),
            name: "a".to_owned(),
            input: "b".to_owned(),
            raw: raw(),
        };
        let function = FunctionCall {
            call_id: "x".to_owned(),
            name: "a".to_owned(),
            namespace: None,
            arguments: "{}".to_owned(),
            raw: raw(),
        };
        let mut items = [custom(), OutputItem::Call(function), custom()];
        let mut desk = ToolDesk::new(Arc::new(NoTools), &[], 1, None, BTreeSet::new());
        desk.tell_apart(&mut items);
        let ids: Vec<String> = desk.calls(&items).into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["x", "x-2", "x-3"]);
        for (item, id) in items.iter().zip(&ids) {
            let sent: Value = serde_json::from_str(item.raw().get()).unwrap();
            assert_eq!(sent["call_id"], id.as_str());
        }
    }
}

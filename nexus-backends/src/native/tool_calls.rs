//! The calls of one reply. The turn's session authorises each call, then the tools run in parallel up to a limit.
//! Results arrive as the calls end, each with its position among the calls.

use std::collections::{BTreeSet, HashMap};

use futures::{Stream, StreamExt as _, stream};
use nexus_core::{
    Denial, Effects, Permit, Session, ToolCallStatus, ToolResult, TurnSession,
    harness::{ToolSpan, batches},
    turn::ToolOrigin,
};
use serde_json::{Map, Value};

use super::own_tools::OwnTools;
use super::reply::OutputItem;

/// Dispatcher of calls to the tools of this turn: the caller's, and those of the loop.
#[derive(Debug)]
pub(super) struct ToolDispatcher {
    session: TurnSession,
    own: Option<OwnTools>,
    at_once: usize,
    seen: BTreeSet<String>,
    /// For each id that occurred again, the number of its next name.
    next_numbers: HashMap<String, usize>,
}

/// Call that the model requested.
#[derive(Debug)]
pub(super) struct RequestedCall {
    /// Call id, unique within the turn, with which the server pairs a call with its result.
    pub(super) id: String,
    /// Name of the tool.
    pub(super) name: String,
    /// Arguments as the model wrote them.
    pub(super) text: String,
    /// Parsed arguments; text that is not JSON becomes a JSON string.
    pub(super) arguments: Value,
    /// Owner of the tool.
    pub(super) origin: ToolOrigin,
    /// Possible effects of the call.
    pub(super) effects: Effects,
    /// True for a custom call, whose arguments are free text.
    pub(super) is_custom: bool,
}

/// The session's decision on a call.
pub(super) type Decided<'s> = Result<Permit<'s>, Denial>;

impl ToolDispatcher {
    /// Creates a dispatcher for the tools of `session` and `own`, without those that are `left_out`. At most `at_once` calls run at the same
    /// time. `seen` contains the ids of calls made before the turn.
    pub(super) fn new(
        session: TurnSession,
        own: Option<OwnTools>,
        left_out: &[String],
        at_once: usize,
        seen: BTreeSet<String>,
    ) -> Self {
        for session in [Some(&*session), own.as_ref().map(OwnTools::session)].into_iter().flatten() {
            let has = |name: &&String| session.definitions().iter().any(|tool| tool.name == **name);
            // The server's request does not offer these tools, so a call of one is a guess of the model.
            left_out.iter().filter(has).for_each(|name| session.withdraw(name));
        }
        Self { session, own, at_once: at_once.max(1), seen, next_numbers: HashMap::new() }
    }

    /// Returns the session that decides about the calls of the caller's tools.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Withdraws a tool that the server rejected.
    pub(super) fn withdraw(&self, name: &str) {
        self.session_of(name).0.withdraw(name);
    }

    /// Returns true if the loop has tools of its own in this turn.
    pub(super) fn has_own_tools(&self) -> bool {
        self.own.is_some()
    }

    /// Returns warnings about the calls of the loop's own tools since the last call of this function.
    pub(super) fn new_warnings(&self) -> Vec<String> {
        self.own.as_ref().map(OwnTools::network_warnings).unwrap_or_default()
    }

    /// Returns the number of calls in this turn, allowed and denied, without those of terminal tools.
    pub(super) fn calls_made(&self) -> u32 {
        let own =
            self.own.as_ref().map_or(0, |own| own.session().calls_made() + own.session().over_budget_calls());
        self.session.calls_made() + own
    }

    /// Returns the session that decides about calls of this tool, and the tool's owner.
    fn session_of(&self, name: &str) -> (&Session, ToolOrigin) {
        match &self.own {
            Some(own) if own.has(name) => (own.session(), ToolOrigin::Harness),
            _ => (&self.session, ToolOrigin::Caller),
        }
    }

    /// Renames calls whose id occurred before: a server that repeats an id means another call.
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
            let id = id.clone();
            let fresh = self.fresh_id(&id, index + 1);
            self.seen.insert(fresh.clone());
            rename(item, fresh);
        }
    }

    /// Returns a name that no call of the turn has, with a number that is at least `least`. A server may give every call of a long turn
    /// the same id, so the search begins after the number that was found last.
    fn fresh_id(&mut self, id: &str, least: usize) -> String {
        let mut number = self.next_numbers.get(id).map_or(least, |next| least.max(*next));
        let mut fresh = format!("{id}-{number}");
        while self.seen.contains(&fresh) {
            number += 1;
            fresh = format!("{id}-{number}");
        }
        self.next_numbers.insert(id.to_owned(), number + 1);
        fresh
    }

    /// Returns the calls of a reply in batches, which are decided and answered one after another: see [`batches`].
    pub(super) fn batches<'i>(&self, items: &'i [OutputItem]) -> Vec<Vec<&'i OutputItem>> {
        let calls = items.iter().filter(|item| name(item).is_some());
        batches(calls.collect(), |item| name(item).is_some_and(|name| self.session.is_terminal(name)))
    }

    /// Returns the calls of a batch in order, and the decision about each.
    pub(super) fn calls(&self, batch: &[&OutputItem]) -> (Vec<RequestedCall>, Vec<Decided<'_>>) {
        // All calls are authorised in the order of the reply before one runs, so budgets do not depend on timing.
        batch.iter().filter_map(|item| self.call(item)).unzip()
    }

    fn call(&self, item: &OutputItem) -> Option<(RequestedCall, Decided<'_>)> {
        let (id, name, text, is_custom) = match item {
            OutputItem::Call(call) => (&call.call_id, &call.name, &call.arguments, false),
            OutputItem::CustomCall { call_id, name, input, .. } => (call_id, name, input, true),
            _ => return None,
        };
        let arguments = read(text, is_custom);
        let (session, origin) = self.session_of(name);
        let decided = session.authorize(session.token(), name, &arguments);
        let tool = decided.as_ref().ok().map(Permit::definition);
        let call = RequestedCall {
            id: id.clone(),
            name: name.clone(),
            text: text.clone(),
            arguments,
            origin,
            // A denied call has no effects.
            effects: tool.map_or(Effects::None, |tool| tool.effects),
            is_custom,
        };
        Some((call, decided))
    }

    /// Returns the results of `calls` with their indexes, in the order in which the calls end. Each call runs in its
    /// span of `spans`. Dropping the stream cancels the calls that still run.
    pub(super) fn answers<'c>(
        &'c self,
        calls: &'c [RequestedCall],
        decided: Vec<Decided<'c>>,
        spans: Vec<ToolSpan>,
    ) -> impl Stream<Item = (usize, ToolResult, ToolCallStatus)> + use<'c> {
        let answer = move |(index, ((call, decided), span)): (
            usize,
            ((&'c RequestedCall, Decided<'c>), ToolSpan),
        )| async move {
            let (result, status) = span.run(answer(self.session_of(&call.name).0, call, decided)).await;
            (index, result, status)
        };
        stream::iter(calls.iter().zip(decided).zip(spans).enumerate())
            .map(answer)
            // Unordered, so that a quick result does not wait for a slow call before it.
            .buffer_unordered(self.at_once)
    }
}

/// Returns the name of the called tool, if the item is a call.
fn name(item: &OutputItem) -> Option<&str> {
    match item {
        OutputItem::Call(call) => Some(&call.name),
        OutputItem::CustomCall { name, .. } => Some(name),
        _ => None,
    }
}

/// Parses arguments as a model writes them: JSON, or nothing for a tool without arguments. Other text stays a string,
/// and the session reports its fault. The arguments of a custom call are free text, but may be an object.
fn read(text: &str, is_custom: bool) -> Value {
    if text.trim().is_empty() && !is_custom {
        return Value::Object(Map::new());
    }
    let read = nexus_core::lenient_json::read_decision(text).ok();
    read.filter(|read: &Value| read.is_object() || !is_custom)
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

async fn answer(
    session: &Session,
    call: &RequestedCall,
    decided: Decided<'_>,
) -> (ToolResult, ToolCallStatus) {
    let answered = match decided {
        Ok(permit) => session.answer(call.id.as_str().into(), permit).await,
        Err(denial) => Err(denial),
    };
    match answered {
        Ok(result) if result.is_error => (result, ToolCallStatus::Failed),
        Ok(result) => (result, ToolCallStatus::Succeeded),
        Err(denial) => (ToolResult::error(denial.to_string()), ToolCallStatus::Denied),
    }
}

/// Changes the id of a call. Its raw form is dropped, because it contains the old id.
fn rename(item: &mut OutputItem, id: String) {
    match item {
        OutputItem::Call(call) => {
            call.call_id = id;
            call.raw = None;
        }
        OutputItem::CustomCall { call_id, raw, .. } => {
            *call_id = id;
            *raw = None;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::{TurnHost, TurnRequest};
    use serde_json::value::RawValue;

    use crate::native::reply::FunctionCall;
    use crate::native::tool_calls::*;

    #[test]
    fn the_name_of_a_repeated_id_is_found_at_once() {
        let session = TurnHost::new().open_turn(&TurnRequest::new("x"));
        let mut dispatcher = ToolDispatcher::new(session, None, &[], 1, BTreeSet::from(["x-3".to_owned()]));
        let mut tried = 0;
        for round in 0..800 {
            let mut items = [OutputItem::CustomCall {
                call_id: "x".to_owned(),
                name: "a".to_owned(),
                input: "b".to_owned(),
                raw: None,
            }];
            let first = dispatcher.next_numbers.get("x").copied().unwrap_or(1);
            dispatcher.tell_apart(&mut items);
            // The number after the new name's is the next one. Those in between were tried.
            let next = dispatcher.next_numbers.get("x").copied();
            tried += next.map_or(0, |next| next - first);
            assert_eq!(next.is_some(), round > 0, "only a repeated id needs a number");
        }
        assert_eq!(dispatcher.seen.len(), 801, "each call has a name of its own");
        // 799 names, and the one that another call had.
        assert_eq!(tried, 800);
    }

    #[test]
    fn no_two_calls_of_a_turn_have_one_id_whatever_kind_they_are() {
        let raw = || RawValue::from_string(r#"{"call_id":"x"}"#.to_owned()).unwrap();
        let custom = || OutputItem::CustomCall {
            call_id: "x".to_owned(),
            name: "a".to_owned(),
            input: "b".to_owned(),
            raw: Some(raw()),
        };
        let function = FunctionCall {
            call_id: "x".to_owned(),
            name: "a".to_owned(),
            namespace: None,
            arguments: "{}".to_owned(),
            raw: Some(raw()),
        };
        let mut items = [custom(), OutputItem::Call(function), custom()];
        let session = TurnHost::new().open_turn(&TurnRequest::new("x"));
        let mut dispatcher = ToolDispatcher::new(session, None, &[], 1, BTreeSet::new());
        dispatcher.tell_apart(&mut items);
        let calls = dispatcher.calls(&items.iter().collect::<Vec<_>>()).0;
        let ids: Vec<String> = calls.into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["x", "x-2", "x-3"]);
        let has_raw = |item: &OutputItem| match item {
            OutputItem::Call(call) => call.raw.is_some(),
            OutputItem::CustomCall { raw, .. } => raw.is_some(),
            _ => false,
        };
        assert_eq!(items.each_ref().map(has_raw), [true, false, false], "an old id is sent back by none");
    }
}

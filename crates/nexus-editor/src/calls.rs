//! Tool calls of one prompt, shared by updates and permission requests.

use std::path::PathBuf;

use agent_client_protocol_schema::v1::ToolCallId;
use nexus_core::{CallId, Effects};
use serde_json::Value;

use crate::diff::SeenContent;

/// Tool calls of one prompt that have not ended.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    /// Prefix of every id. The client's ids are unique in a session, but a turn's own ids only within the turn.
    prefix: String,
    open: Vec<OpenCall>,
    /// Names and ids of calls whose permission request came before their first event.
    ahead: Vec<(String, ToolCallId)>,
    next_ahead: u64,
}

/// Call that has not ended.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) call: CallId,
    /// The client's id of the call.
    pub(crate) id: ToolCallId,
    pub(crate) name: String,
    pub(crate) effects: Effects,
    pub(crate) arguments: Option<Value>,
    /// Files that the call names, with their content before the call.
    pub(crate) before: Vec<(PathBuf, SeenContent)>,
    /// True after a permission request.
    is_asked: bool,
}

impl OpenCalls {
    pub(crate) fn new(prefix: String) -> Self {
        Self { prefix, open: Vec::new(), ahead: Vec::new(), next_ahead: 0 }
    }

    /// Adds a call that has begun. Returns its id, and true if the client knows the id already.
    pub(crate) fn begin(&mut self, call: &CallId, name: &str, effects: Effects) -> (ToolCallId, bool) {
        let ahead = self.ahead.iter().position(|(asked, _)| asked == name);
        let known = ahead.map(|place| self.ahead.remove(place).1);
        let is_known = known.is_some();
        let id = known.unwrap_or_else(|| ToolCallId::new(format!("{}-{call}", self.prefix)));
        self.open.push(OpenCall {
            call: call.clone(),
            id: id.clone(),
            name: name.to_owned(),
            effects,
            arguments: None,
            before: Vec::new(),
            is_asked: is_known,
        });
        (id, is_known)
    }

    pub(crate) fn find(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.open.iter_mut().find(|open| open.call == *call)
    }

    /// Removes and returns a call that has ended.
    pub(crate) fn end(&mut self, call: &CallId) -> Option<OpenCall> {
        let place = self.open.iter().position(|open| open.call == *call)?;
        Some(self.open.remove(place))
    }

    /// Returns the call of a permission request: the first with this name and these arguments that had no request yet. A
    /// call with unknown arguments counts only if no other call has its name.
    pub(crate) fn asked(&mut self, name: &str, arguments: &Value) -> Option<ToolCallId> {
        let is_open = |open: &OpenCall| open.name == name && !open.is_asked;
        let fits = |open: &OpenCall| is_open(open) && open.arguments.as_ref() == Some(arguments);
        let place = self.open.iter().position(fits).or_else(|| {
            let mut of_name = (0..).zip(&self.open).filter(|(_, open)| is_open(open));
            let (place, only) = of_name.next()?;
            (of_name.next().is_none() && only.arguments.is_none()).then_some(place)
        })?;
        let call = self.open.get_mut(place)?;
        call.is_asked = true;
        Some(call.id.clone())
    }

    /// Returns an id for a call whose permission request precedes its first event.
    pub(crate) fn ahead(&mut self, name: &str) -> ToolCallId {
        self.next_ahead += 1;
        let id = ToolCallId::new(format!("{}-asked-{}", self.prefix, self.next_ahead));
        self.ahead.push((name.to_owned(), id.clone()));
        id
    }

    /// Removes all calls that have not ended, and returns their ids.
    pub(crate) fn end_all(&mut self) -> Vec<ToolCallId> {
        let open = self.open.drain(..).map(|call| call.id);
        open.chain(self.ahead.drain(..).map(|(_, id)| id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_is_shown_with_its_own_call() {
        let mut calls = OpenCalls::new("p".into());
        for call in ["one", "two"] {
            calls.begin(&CallId::new(call), "Bash", Effects::Unknown);
        }
        assert_eq!(calls.asked("Bash", &json!({ "command": "two" })), None, "it may be either");
        let id = calls.find(&CallId::new("two")).map(|call| {
            call.arguments = Some(json!({ "command": "two" }));
            call.id.clone()
        });
        assert_eq!(calls.asked("Bash", &json!({ "command": "two" })), id);
        let only = calls.asked("Bash", &json!({ "command": "one" }));
        assert_eq!(only, calls.find(&CallId::new("one")).map(|call| call.id.clone()));
        assert_eq!(calls.asked("Bash", &json!({ "command": "one" })), None, "it was asked for");
    }
}

//! A request of an agent's program, as its model goes by it.

use nexus_testkit::sim::{Conversation, Item, Reply, ToolCall};
use serde_json::Value;

use super::stage::everything;

/// What a model goes by.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Which agent it is.
    pub(crate) agent: String,
    /// The type of the message that came last.
    pub(crate) kind: String,
    /// What tools have answered since, without blanks and backslashes: some programs hand on JSON within JSON.
    pub(crate) answers: Vec<String>,
    /// All that it was told.
    pub(crate) all: String,
}

impl Seen {
    /// Nothing where the request is none of a turn's.
    pub(crate) fn of(conversation: &Conversation) -> Option<Self> {
        let all = everything(conversation);
        let agent = all.split_once("You are the agent ")?.1.split_once('.')?.0.to_owned();
        let mut heads = conversation.items.iter().enumerate().filter_map(|(at, item)| match item {
            Item::User(text) => Some((at, text.lines().rev().find_map(head)?)),
            _ => None,
        });
        let (at, kind) = heads.next_back()?;
        let answers = conversation.items[at..].iter().filter_map(|item| match item {
            Item::ToolResult { text, .. } => Some(text),
            _ => None,
        });
        let compact = |text: &String| text.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect();
        Some(Self { agent, kind: kind.to_owned(), answers: answers.map(compact).collect(), all })
    }

    /// What the last tool answered.
    pub(crate) fn last_answer(&self) -> &str {
        self.answers.last().map_or("", String::as_str)
    }
}

/// The type of a message whose first line this is: `[query from poet, id …]`.
fn head(line: &str) -> Option<&str> {
    let (kind, rest) = line.trim_start().strip_prefix('[')?.split_once(" from ")?;
    rest.contains(", id ").then_some(kind)
}

/// A call of a tool of the agent's.
pub(crate) fn call(tool: &str, arguments: Value) -> Reply {
    Reply::call(ToolCall::mcp("nexus", tool, arguments))
}

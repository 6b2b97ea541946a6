//! The script: which reply each model call gets.

use serde::{Deserialize, Serialize};

use super::conversation::Conversation;
use super::model::Model;
use super::reply::Reply;
use super::tool_call::ToolCall;

/// Replies in order, one per main model call; the last one repeats unless `then` is set.
///
/// Rules divide one server among turns: the first rule whose words occur in the newest user text takes
/// the call. Each rule counts its own calls.
///
/// ```
/// use nexus_testkit::sim::{Reply, Scenario, ToolCall};
///
/// let scenario = Scenario::new([Reply::call(ToolCall::shell("date")), Reply::text("done")])
///     .when_prompt("say no", [Reply::status(403)]);
/// let written = serde_json::to_string(&scenario).unwrap();
/// assert_eq!(serde_json::from_str::<Scenario>(&written).unwrap(), scenario);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Replies to calls that no rule takes.
    pub replies: Vec<Reply>,
    /// Reply to every call after the last of `replies`; if absent, the last one repeats.
    pub then: Option<Reply>,
    /// Scripts for particular prompts.
    pub rules: Vec<Rule>,
    /// Scope of the count of calls: the server, or each conversation.
    pub count: Count,
    /// Catalogue that `GET /models` answers; empty leaves the client to its own.
    pub models: Vec<Model>,
    /// True if requests are refused that the vendor is known to refuse: a field it does not take, a header that
    /// is missing, the shape of another kind of model. No effect where the vendor's rules are not known.
    pub strict_shape: bool,
    /// The only accepted credential. A call with another is refused with 401, and does not count in the script.
    pub accepts: Option<String>,
}

/// A script for the turns whose prompt contains certain words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The words.
    pub when_prompt_contains: String,
    /// The replies, in order.
    pub replies: Vec<Reply>,
    /// Reply to every later call; if absent, the last one repeats.
    #[serde(default)]
    pub then: Option<Reply>,
}

/// Scope of the count of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// All calls that one script takes.
    #[default]
    Script,
    /// The calls of one conversation, by the vendor's session id, so that many concurrent turns can run one
    /// script. A resumed session continues where it stopped.
    Conversation,
}

impl Scenario {
    /// A script of `replies`.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { replies: replies.into_iter().collect(), ..Self::default() }
    }

    /// Answers every call with `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([Reply::text(text)])
    }

    /// Calls one tool, then answers with `text`.
    pub fn tool_then_text(call: ToolCall, text: impl Into<String>) -> Self {
        Self::new([Reply::call(call), Reply::text(text)])
    }

    /// Gives `reply` to every call after the last one scripted.
    pub fn then(mut self, reply: Reply) -> Self {
        self.then = Some(reply);
        self
    }

    /// Gives turns whose prompt contains `words` their own script.
    pub fn when_prompt(mut self, words: impl Into<String>, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.rules.push(Rule {
            when_prompt_contains: words.into(),
            replies: replies.into_iter().collect(),
            then: None,
        });
        self
    }

    /// Restarts the script for each conversation.
    pub fn per_conversation(mut self) -> Self {
        self.count = Count::Conversation;
        self
    }

    /// Offers `models` in the catalogue.
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<Model>>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// Refuses requests that the vendor is known to refuse.
    pub fn strict(mut self) -> Self {
        self.strict_shape = true;
        self
    }

    /// Returns true if every call with `credential` is refused.
    pub(crate) fn refuses(&self, credential: Option<&str>) -> bool {
        self.accepts.is_some() && self.accepts.as_deref() != credential
    }

    /// Returns the catalogue entry of the model that `conversation` requests.
    pub(super) fn model_of(&self, conversation: &Conversation) -> Option<&Model> {
        self.models.iter().find(|model| Some(&model.name) == conversation.model.as_ref())
    }

    /// The rule that takes a call with these user texts, oldest first: the newest text decides.
    pub(crate) fn rule_for(&self, user_texts: &[String]) -> Option<usize> {
        user_texts
            .iter()
            // Earlier prompts stay in the history, so a resumed conversation may contain the words of several rules.
            .rev()
            .find_map(|text| self.rules.iter().position(|rule| text.contains(&rule.when_prompt_contains)))
    }

    /// The `index`-th reply of `rule`, or of the scenario itself.
    pub(crate) fn reply(&self, rule: Option<usize>, index: usize) -> Reply {
        let (replies, then) = match rule.and_then(|rule| self.rules.get(rule)) {
            Some(rule) => (&rule.replies, &rule.then),
            None => (&self.replies, &self.then),
        };
        // The last reply repeats, because clients call again after their own retries.
        replies.get(index).or(then.as_ref()).or_else(|| replies.last()).cloned().unwrap_or_else(Reply::empty)
    }
}

impl From<Reply> for Scenario {
    fn from(reply: Reply) -> Self {
        Self::new([reply])
    }
}

impl<const N: usize> From<[Reply; N]> for Scenario {
    fn from(replies: [Reply; N]) -> Self {
        Self::new(replies)
    }
}

impl From<Vec<Reply>> for Scenario {
    fn from(replies: Vec<Reply>) -> Self {
        Self::new(replies)
    }
}

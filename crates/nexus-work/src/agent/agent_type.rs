//! One type of agent.

use std::collections::BTreeSet;

use super::{AgentTypeError, Surface};

/// Maximum length of a description, in bytes. Source: MCP clients pass on tool descriptions up to this length, and such a
/// description lists the types.
const MAX_DESCRIPTION_BYTES: usize = 2_048;
/// Maximum number of topics, and maximum length of one, in bytes. Source: our own bounds.
const MAX_TOPICS: usize = 32;
const MAX_TOPIC_BYTES: usize = 64;
/// Longest prompt, in bytes. Source: our own bound, far below any context.
const MAX_PROMPT_BYTES: usize = 64 << 10;

/// One type of agent: its name, tier and phase, its instructions and its tools.
///
/// It is checked when it is registered: see [`AgentTypes::with_type`](super::AgentTypes::with_type).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentType {
    /// The name of the type.
    pub name: String,
    /// The level at which it works.
    pub tier: String,
    /// The step of the work that it does.
    pub phase: String,
    /// Purpose, for a caller that chooses among types. At most 2,048 bytes, without control characters except line ends and
    /// tabs. May be empty.
    pub description: String,
    /// Topics of its expertise: at most 32 of 1 to 64 bytes each, without control characters.
    pub topics: BTreeSet<String>,
    /// Instructions in addition to its task: at most 64 KiB, without NUL. With `None`, the agent gets only the instructions
    /// of its tier and phase.
    pub prompt: Option<String>,
    /// Tools of the tier that the agent gets.
    pub surface: Surface,
}

impl AgentType {
    /// Creates the type `name`, which works at `tier` in `phase`. It has every tool of its tier, no description and no
    /// topics.
    pub fn new(name: impl Into<String>, tier: impl Into<String>, phase: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tier: tier.into(),
            phase: phase.into(),
            description: String::new(),
            topics: BTreeSet::new(),
            prompt: None,
            surface: Surface::all(),
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds a topic.
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.insert(topic.into());
        self
    }

    /// Sets the instructions.
    #[must_use]
    pub fn with_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Sets the tools of the tier that the agent gets.
    #[must_use]
    pub fn with_surface(mut self, surface: Surface) -> Self {
        self.surface = surface;
        self
    }

    /// Checks the texts against their bounds.
    pub(super) fn check_texts(&self) -> Result<(), AgentTypeError> {
        let unfit = |field: &'static str, rule: String| {
            Err(AgentTypeError::UnfitText { name: self.name.clone(), field, rule })
        };
        let is_odd = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
        if self.description.len() > MAX_DESCRIPTION_BYTES || self.description.chars().any(is_odd) {
            let rule = format!(
                "it must have at most {MAX_DESCRIPTION_BYTES} bytes, and no control characters except line \
                ends and tabs"
            );
            return unfit("description", rule);
        }
        let fits = |topic: &String| {
            (1..=MAX_TOPIC_BYTES).contains(&topic.len()) && !topic.chars().any(char::is_control)
        };
        if self.topics.len() > MAX_TOPICS || !self.topics.iter().all(fits) {
            let rule = format!(
                "give at most {MAX_TOPICS}, of 1 to {MAX_TOPIC_BYTES} bytes each, without control characters"
            );
            return unfit("topics", rule);
        }
        match &self.prompt {
            Some(prompt) if prompt.len() > MAX_PROMPT_BYTES || prompt.contains('\0') => {
                unfit("prompt", format!("it must have at most {MAX_PROMPT_BYTES} bytes, and no NUL"))
            }
            _ => Ok(()),
        }
    }
}

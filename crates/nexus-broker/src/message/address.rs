//! Addresses of messages.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::BrokerError;

/// Maximum length of the name of an agent, a context or a caller, in bytes.
const MAX_NAME_BYTES: usize = 40;

/// Recipient or sender of a message. Its text has one of the forms below.
///
/// A name has 1 to 40 bytes of `a-z`, `0-9`, `_` and `-`, and begins with a letter or a digit. So two different
/// names are two different file names on every file system.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// `NAME`: an agent, in any session.
    Agent(String),
    /// `agent:NAME:CONTEXT`: one session of an agent.
    Session {
        /// The agent.
        agent: String,
        /// Context of the session.
        context: String,
    },
    /// `manager-of:NAME`: the agent that started this one.
    ManagerOf(String),
    /// `caller:NAME`: a program or person outside of all agents, with an inbox.
    Caller(String),
}

impl Address {
    /// Returns the address of an agent. Fails with [`Invalid`](crate::BrokerErrorKind::Invalid) for an invalid
    /// name.
    pub fn agent(name: &str) -> Result<Self, BrokerError> {
        Ok(Self::Agent(checked(name, name)?))
    }

    /// Returns the agent that the address names. `None` for a caller, and for a manager, which is known only at routing.
    #[must_use]
    pub fn agent_name(&self) -> Option<&str> {
        match self {
            Self::Agent(agent) | Self::Session { agent, .. } => Some(agent),
            Self::ManagerOf(_) | Self::Caller(_) => None,
        }
    }
}

fn checked(name: &str, whole: &str) -> Result<String, BrokerError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if begins && name.len() <= MAX_NAME_BYTES && name.bytes().all(fits) {
        return Ok(name.to_owned());
    }
    let shown: String = whole.chars().take(80).collect();
    Err(BrokerError::invalid(
        format!("{shown:?} is not an address"),
        "write NAME, agent:NAME:CONTEXT, manager-of:NAME or caller:NAME, each name of 1 to 40 small letters, digits, `_` and `-`",
    ))
}

impl FromStr for Address {
    type Err = BrokerError;

    fn from_str(text: &str) -> Result<Self, BrokerError> {
        let name = |name| checked(name, text);
        match text.split_once(':') {
            None => Ok(Self::Agent(name(text)?)),
            Some(("manager-of", worker)) => Ok(Self::ManagerOf(name(worker)?)),
            Some(("caller", caller)) => Ok(Self::Caller(name(caller)?)),
            Some(("agent", rest)) => {
                let (agent, context) = rest.split_once(':').unwrap_or((rest, ""));
                Ok(Self::Session { agent: name(agent)?, context: name(context)? })
            }
            Some(_) => Err(name("").expect_err("an empty name is not valid")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => f.write_str(name),
            Self::Session { agent, context } => write!(f, "agent:{agent}:{context}"),
            Self::ManagerOf(worker) => write!(f, "manager-of:{worker}"),
            Self::Caller(name) => write!(f, "caller:{name}"),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "NAME, agent:NAME:CONTEXT, manager-of:NAME or caller:NAME"
        })
    }
}

//! Format of a file of fixtures.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Component, Path},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A file of fixtures: of a tool, or of a scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixtureFile {
    /// Subject of the fixtures, for people.
    pub about: String,
    /// The fixtures.
    pub fixtures: Vec<Fixture>,
}

/// A project, the steps to execute in it, and the conditions that must hold after each step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// Property that the fixture tests: a sentence.
    pub name: String,
    /// State of the project before the first step.
    #[serde(default)]
    pub precondition: Precondition,
    /// Steps, one after the other.
    pub steps: Vec<FixtureStep>,
}

/// State of a project before the first step.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Precondition {
    /// Existing files, by path. A text is the content itself; any other value is written as JSON.
    pub files: BTreeMap<String, Value>,
    /// Calls to make before the first step. Each must succeed.
    pub calls: Vec<Call>,
}

/// A call of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name, without a prefix.
    pub tool: String,
    /// Arguments of the tool.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// An action, and the conditions that must hold after it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixtureStep {
    /// Action of the step.
    pub action: Action,
    /// Conditions that must hold afterwards.
    #[serde(default)]
    pub postcondition: Postcondition,
}

/// Action of a step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A call.
    Call(Call),
    /// The server is ended and started again.
    Restart,
    /// The same call by several servers of one project at once. Each server repeats the call `times` times, one after the
    /// other. Every call must succeed.
    Together {
        /// Number of servers.
        servers: usize,
        /// Number of calls of each server.
        times: usize,
        /// The call.
        call: Call,
    },
    /// Kills the server in the middle of the call, after a time that is chosen again in each round; each round
    /// begins with the same project. Then another server is started, and the postcondition must hold.
    Kill {
        /// Number of rounds.
        rounds: usize,
        /// The call.
        call: Call,
    },
}

/// Conditions that must hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Postcondition {
    /// Text that the error must contain, ignoring case. An empty text accepts any error. Without this field the call
    /// must succeed.
    pub error: Option<String>,
    /// Expected values of the result, by JSONPath.
    pub result: BTreeMap<String, Expected>,
    /// Expected values of files, by path and JSONPath. `null`: the file must not exist.
    pub files: BTreeMap<String, Option<BTreeMap<String, Expected>>>,
    /// One of these postconditions must hold, too.
    pub any_of: Vec<Postcondition>,
    /// Calls to make before the other conditions are checked, each with the expected values of its result.
    pub then: Vec<Then>,
}

/// A call that reads the effect of another call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Then {
    /// The call.
    pub call: Call,
    /// Expected values of its result, by JSONPath.
    pub result: BTreeMap<String, Expected>,
}

/// Expected value at a path. A path with several values has them as a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Expected {
    /// `{"any": true}`: any value. `{"length": 2}`: a list or text of this length. `{"contains": "text"}`: a text that
    /// contains this text.
    Rule(Rule),
    /// Exactly this value. `null` means that the path has no value.
    Value(Value),
}

/// Expectation of a value that is not known in advance.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Rule {
    /// The path has a value.
    Any(bool),
    /// A list, or a text, of this length.
    Length(usize),
    /// A text that contains this text, ignoring case.
    Contains(String),
}

/// A file of fixtures cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureError {
    /// The file.
    pub file: String,
    /// The fault, and its position.
    pub reason: String,
}

impl fmt::Display for FixtureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} contains no fixtures: {}", self.file, self.reason)
    }
}

impl std::error::Error for FixtureError {}

impl FixtureFile {
    /// Reads a file of fixtures.
    ///
    /// # Errors
    ///
    /// [`FixtureError`], with the line and column.
    pub fn read(file: &str, text: &str) -> Result<Self, FixtureError> {
        let failed = |reason: String| FixtureError { file: file.to_owned(), reason };
        let mut reader = serde_json::Deserializer::from_str(text);
        let read: Self = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| failed(format!("{}, at {}", error.inner(), error.path())))?;
        reader.end().map_err(|error| failed(error.to_string()))?;
        let is_inside =
            |name: &str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        for fixture in &read.fixtures {
            let mut names = fixture.precondition.files.keys();
            if let Some(name) = names.find(|name| !is_inside(name)) {
                return Err(failed(format!("{name:?} of {:?} leads out of the project", fixture.name)));
            }
        }
        Ok(read)
    }
}

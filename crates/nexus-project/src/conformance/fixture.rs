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

/// A project, what is done with it, and what must hold then.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// Property that it shows: a sentence.
    pub name: String,
    /// The project before.
    #[serde(default)]
    pub precondition: Precondition,
    /// Steps, one after the other.
    pub steps: Vec<FixtureStep>,
}

/// A project before anything is done.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Precondition {
    /// Files that are there: a text as it is, anything else as JSON.
    pub files: BTreeMap<String, Value>,
    /// Calls that were made. Each must succeed.
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

/// Something that is done, and what must hold then.
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
    /// A text that the error has to contain, in capitals or not; an empty one for any error. Without it the call has to succeed.
    pub error: Option<String>,
    /// Expected values of the result, by JSONPath.
    pub result: BTreeMap<String, Expected>,
    /// Expected values of files, by path and JSONPath. `null`: the file must not exist.
    pub files: BTreeMap<String, Option<BTreeMap<String, Expected>>>,
    /// One of these postconditions must hold, too.
    pub any_of: Vec<Postcondition>,
    /// Calls that are made first, and what must hold of each.
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
    /// `{"any": true}`: something is there. `{"length": 2}`: a list of so many. `{"contains": "text"}`: a text with this in it.
    Rule(Rule),
    /// Exactly this; `null`: nothing is there.
    Value(Value),
}

/// Expectation of a value that is not known in advance.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Rule {
    /// Something is there.
    Any(bool),
    /// A list, or a text, of this length.
    Length(usize),
    /// A text with this in it, in capitals or not.
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

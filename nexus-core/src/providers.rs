//! Providers by name, as data: the rows that [`Providers`](crate::Providers) lists, and the entries that it completes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An entry, after its provider's row was applied.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedEntry {
    /// Kind of the backend.
    pub kind: String,
    /// Settings of that kind.
    pub settings: Map<String, Value>,
}

/// A provider, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSummary {
    /// Name, as an entry names it.
    pub name: String,
    /// Kind of backend that speaks the wire of the server.
    pub wire: String,
    /// Address of the server, with parameters in braces.
    pub base_url: String,
    /// Settings that an entry needs for the address.
    pub parameters: Vec<String>,
    /// Environment variable that usually holds the key.
    pub variable: Option<String>,
    /// Evidence for the row.
    pub checked: ProviderCheck,
    /// True for a row of the file.
    pub is_of_the_file: bool,
    /// Page that describes the server's interface.
    pub source: Option<String>,
}

/// Evidence that a provider's row is right, strongest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderCheck {
    /// Turns ran at the real server.
    RealServer,
    /// The server's answers were recorded.
    Recorded,
    /// A simulator of the server passed the tests.
    Simulator,
    /// The row follows the server's documentation. Nothing was sent to the service.
    #[default]
    Documentation,
}

impl ProviderCheck {
    /// Returns the word for a list.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RealServer => "real-server",
            Self::Recorded => "recorded",
            Self::Simulator => "simulator",
            Self::Documentation => "documentation",
        }
    }
}

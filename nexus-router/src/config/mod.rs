//! Reads `nexus.yaml`, checks it, and builds the router's configuration.

mod check;
mod configuration;
mod error;
#[cfg(feature = "yaml")]
mod file;
mod json_schema;
mod load;
mod mask;
mod nearest;
mod node;
mod report;
mod schema;
mod settings;
mod sources;
mod value;
mod variables;
#[cfg(feature = "yaml")]
mod yaml;

pub(crate) use configuration::{Configuration, ConfiguredBackend, DEFAULT_MIN_VENDORS, EntryState, Target};
pub use error::{ConfigError, Problem};
#[cfg(feature = "yaml")]
pub use file::{ConfigFile, MAX_FILE_BYTES};
#[cfg(feature = "yaml")]
pub(crate) use file::{load_file, load_text};
pub use json_schema::json_schema;
pub(crate) use load::load_value;
pub(crate) use nearest::nearest;
pub use node::Position;
pub(crate) use schema::Distinct;
pub use schema::FallbackRule;
pub(crate) use sources::Sources;

//! `nexus.yaml`: read, checked, and turned into what the router works with.

mod check;
mod configuration;
mod error;
mod json_schema;
mod load;
mod mask;
mod nearest;
mod node;
mod report;
mod schema;
mod settings;
mod sources;

pub(crate) use configuration::{Configuration, Entry, EntryState, PanelSeat, Target};
pub use error::{ConfigError, Problem};
pub use json_schema::json_schema;
pub use load::MAX_FILE_BYTES;
pub(crate) use load::{load_file, load_text};
pub(crate) use nearest::nearest;
pub use node::Position;
pub use schema::FallbackRule;
pub(crate) use sources::Sources;

//! The command line of `nexus run`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};
use nexus::{ConversationName, Effort, ToolAccess, WhenLost};

use super::seconds;

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// A type of the configuration
    pub(crate) kind: String,
    /// The prompt; `-` or nothing reads standard input
    pub(crate) prompt: Option<String>,
    /// Where the turn works. Default: an empty private folder
    #[arg(long = "cd", value_name = "FOLDER")]
    pub(crate) directory: Option<PathBuf>,
    /// Which tools the turn may use
    #[arg(long, value_enum, default_value_t = Access::ScopedOnly)]
    pub(crate) access: Access,
    /// Instructions that stand above the prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// The model, in the vendor's words, instead of the configuration's
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// How hard the model is asked to think, instead of the configuration's: minimal, low, medium, high, xhigh, max
    #[arg(long)]
    pub(crate) effort: Option<Effort>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// File with a JSON Schema that the answer must satisfy
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// A PNG, JPEG, GIF or WebP file to show to the model. May be given more than once
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,
    /// Keep the conversation, and append the record of the turn to this file: what was asked, what happened, how it ended, who
    /// ran it, at what cost, and how to go on. `nexus show FILE` prints it. Of a panel every seat is recorded, and no
    /// conversation is kept
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Go on from the last conversation that was kept in this file, and append to it, or to that of `--keep`
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Run the turn in the conversation of this name, and store it there; the first turn creates it. Any type can take the next
    /// one: see `--on-lost`. `nexus conversation --help` tells of them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "keep"])]
    pub(crate) conversation: Option<ConversationName>,
    /// What to do where the backend cannot go on with the conversation by itself: another one takes the turn, the vendor lost it, or
    /// it was forked
    #[arg(long, value_enum, default_value_t = OnLostChoice::Reseed, requires = "conversation")]
    pub(crate) on_lost: OnLostChoice,
    /// Wait for this many seconds while another turn runs in the conversation. Default: fail at once
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "conversation")]
    pub(crate) wait: Option<Duration>,
    /// Send traces and metrics to the OpenTelemetry collector at this base URL, by OTLP over HTTP, such as
    /// http://127.0.0.1:4318. Headers for it are read in OTEL_EXPORTER_OTLP_HEADERS
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Show nothing but the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnLostChoice {
    /// End the turn with an error
    Fail,
    /// Go on without the earlier messages; they stay stored
    Fresh,
    /// Show the model the earlier messages as text, and warn of what they lack
    Reseed,
}

impl From<OnLostChoice> for WhenLost {
    fn from(choice: OnLostChoice) -> Self {
        match choice {
            OnLostChoice::Fail => Self::Fail,
            OnLostChoice::Fresh => Self::Fresh,
            OnLostChoice::Reseed => Self::Reseed,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Access {
    /// No tools: pure text
    ScopedOnly,
    /// The vendor's own tools, as far as they only read
    ReadOnly,
    /// The vendor's own tools, writing inside the folder
    WorkspaceWrite,
    /// The vendor's own tools without a sandbox
    Unrestricted,
}

impl From<Access> for ToolAccess {
    fn from(access: Access) -> Self {
        match access {
            Access::ScopedOnly => Self::ScopedOnly,
            Access::ReadOnly => Self::ReadOnly,
            Access::WorkspaceWrite => Self::WorkspaceWrite,
            Access::Unrestricted => Self::Unrestricted,
        }
    }
}

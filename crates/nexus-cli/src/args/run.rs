//! The command line of `nexus run`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};
use nexus::{ConversationName, Effort, ToolAccess, WhenLost};

use super::{positive_seconds, seconds, time_with_unit};

/// Longest wait of `--wait-for-reset` without a time. The longest windows of plans are weeks.
const LONGEST_RESET: &str = "8d";

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// Type of the configuration. A single argument that is no type is the prompt
    #[arg(value_name = "TYPE")]
    pub(crate) first: Option<String>,
    /// Prompt of the turn. `-` or no prompt reads standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) second: Option<String>,
    /// Type of the turn, if the only argument is the prompt. Default: executor
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    /// Working folder of the turn. Default: an empty private folder
    #[arg(long = "cd", value_name = "FOLDER")]
    pub(crate) directory: Option<PathBuf>,
    /// Tools that the turn may use
    #[arg(long, value_enum, default_value_t = Access::ScopedOnly)]
    pub(crate) access: Access,
    /// Instructions above the prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Model, by the vendor's name, in place of the configured one
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Effort of the model, in place of the configured one: minimal, low, medium, high, xhigh, max
    #[arg(long)]
    pub(crate) effort: Option<Effort>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, allow_negative_numbers = true)]
    pub(crate) deadline: Option<Duration>,
    /// File with a JSON Schema that the answer must satisfy
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// PNG, JPEG, GIF or WebP file to show to the model. May be repeated
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,
    /// Store the conversation, and append a record of the turn to this file: prompt, events, result, backend, cost and how to
    /// resume. `nexus show FILE` prints it. For a panel, every seat is recorded and no conversation is stored
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Resume the last conversation recorded in this file. The new record is appended to it, or to the file of `--keep`
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Run the turn in the conversation of this name and store it there; the first turn creates it. Any type can run the next
    /// turn: see `--on-lost`. See also `nexus conversation --help`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "keep"])]
    pub(crate) conversation: Option<ConversationName>,
    /// Action if the backend cannot resume the conversation itself: another backend takes the turn, the vendor lost it, or it was
    /// forked
    #[arg(long, value_enum, default_value_t = OnLostChoice::Reseed, requires = "conversation")]
    pub(crate) on_lost: OnLostChoice,
    /// Wait this many seconds while another turn runs in the conversation. Default: fail at once
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, requires = "conversation")]
    pub(crate) wait: Option<Duration>,
    /// If every backend that could run the turn refuses turns until a time, such as the reset of a plan, wait for it and go on. With
    /// a TIME such as 2h, at most that long; a longer wait does not begin
    #[arg(long, value_name = "TIME", value_parser = time_with_unit, num_args = 0..=1, require_equals = true, default_missing_value = LONGEST_RESET)]
    pub(crate) wait_for_reset: Option<Duration>,
    /// Send traces and metrics to the OpenTelemetry collector at this base URL by OTLP over HTTP, such as
    /// http://127.0.0.1:4318. OTEL_EXPORTER_OTLP_HEADERS sets extra headers
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Show only the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnLostChoice {
    /// End the turn with an error
    Fail,
    /// Continue without the earlier messages; they stay stored
    Fresh,
    /// Send the earlier messages to the model as text, and warn about missing parts
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
    /// The vendor's read-only tools
    ReadOnly,
    /// The vendor's tools, with writes inside the folder
    WorkspaceWrite,
    /// The vendor's tools without a sandbox
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

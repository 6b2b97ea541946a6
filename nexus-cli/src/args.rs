//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use nexus::{Effort, ToolAccess};

/// Runs one turn of agent work on whichever vendor nexus.yaml names.
#[derive(Debug, Parser)]
#[command(
    name = "nexus",
    version,
    after_help = "Exit codes: 0 done, 1 the turn failed, 2 bad command line \
or configuration, 130 cancelled."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigArgs {
    /// Configuration. Default: ./nexus.yaml, else nexus.yaml in $NEXUS_HOME (~/.nexus)
    #[arg(long, global = true, value_name = "FILE", env = "NEXUS_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one turn, and show it as it happens. The answer alone goes to standard output
    Run(Box<RunArgs>),
    /// Say which backends a work-kind would run on, and why, without starting anything
    Explain {
        /// A type of the configuration. Default: all
        kind: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read the configuration, and say what is in it or what is wrong with it
    Check {
        /// Also ask each backend whether it could start: its program, its version, its credential. No model call
        #[arg(long)]
        probe: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

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
    /// Keep the conversation, and write the handle to go on with to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Go on from the conversation whose handle is in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Print every event, and then the outcome, as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show nothing but the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Access {
    /// No tools: pure text
    ScopedOnly,
    /// The vendor's own tools, as far as they only read
    ReadOnly,
    /// The vendor's own tools, writing inside the folder
    WorkspaceWrite,
    /// The vendor's own tools without a fence
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

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_prompt_may_begin_with_a_dash_after_two() {
        let args = Args::try_parse_from(["nexus", "run", "writer", "--", "-x"]).unwrap();
        assert!(matches!(args.command, Command::Run(run) if run.prompt.as_deref() == Some("-x")));
    }

    #[test]
    fn a_deadline_is_a_number_of_seconds() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("-1").is_err());
        assert!(seconds("soon").is_err());
    }
}

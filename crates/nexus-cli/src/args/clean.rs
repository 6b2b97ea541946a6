//! The command line of `nexus clean`.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

use super::time_with_unit;

/// Text below the options of `nexus clean`.
pub(crate) const CLEAN_HELP: &str = "\
Without --older-than, --status and --keep, the command only lists what the home holds, the largest first. With them, it removes what all of \
them select, after a question. Age is the time since the last change. A running task or debate stays, and so does a task whose commits are not \
landed, or whose unfinished work a reopening would continue, unless you add --unlanded. The sessions of agents and editors and the demo stay unless you name their kind. The configuration, logins, holds and \
the messages of the broker always stay.\n\
Exit codes: 0 done, or nothing to remove; 1 something could not be removed, or you declined; 2 bad command line.";

#[derive(Debug, ClapArgs)]
pub(crate) struct CleanArgs {
    /// Kinds to list or remove. Default: task, debate, conversation and undo to remove, all to list
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) kinds: Vec<HomeItemKind>,
    /// Remove what has not changed for this time, such as 30d or 12h
    #[arg(long, value_name = "TIME", value_parser = time_with_unit)]
    pub(crate) older_than: Option<Duration>,
    /// Remove tasks and debates with this status, as `nexus task list` shows it. May be repeated
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(crate) status: Vec<String>,
    /// Remove all but the newest N of each kind
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
    /// Also remove tasks whose work is not landed. It is lost
    #[arg(long)]
    pub(crate) unlanded: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Kind of item in a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum HomeItemKind {
    /// A task, with its tree, evidence and records
    Task,
    /// A debate, with its records
    Debate,
    /// A named conversation
    Conversation,
    /// The conversation of an agent or an editor
    Session,
    /// The snapshots of a folder for `nexus undo`
    Undo,
    /// The home of `nexus demo`
    Demo,
    /// Everything else. It is never removed
    State,
}

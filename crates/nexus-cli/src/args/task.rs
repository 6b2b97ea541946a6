//! The command line of `nexus task`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use nexus_tasks::WorkBudget;

/// What `TASK` may be.
const TASK_HELP: &str = "The task: its id, the beginning of it, or `last` for the newest";

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Create a task from a goal, and run the project's tests once before anything is changed. Its id alone goes to standard output
    New(Box<NewTaskArgs>),
    /// Walk a task to its end: frame it, then do each step, with its review. Ctrl-C puts the step back; the next run begins it anew
    #[command(
        after_help = "Exit codes: 0 it is complete, or with --step the step advanced; 1 it is not; 2 bad command line or \
configuration; 130 cancelled."
    )]
    Run(RunTaskArgs),
    /// Say where a task is: its plan, its criteria, what it used
    Status(OneTaskArgs),
    /// Print what happened in a task, the oldest first, with who ran each turn and what it cost
    Log(OneTaskArgs),
    /// Print something that a task made: brief, patch, patch-N, step-N, verdict-N, handoff-N-U, probe-N, turn-ID, context-map
    Show {
        #[arg(help = TASK_HELP)]
        task: String,
        /// What to print
        artifact: String,
    },
    /// End a task; a step that runs is stopped and put back
    Cancel(OneTaskArgs),
    /// Go on with a task that ended
    Reopen(ReopenTaskArgs),
    /// Remove a task that ended, with all that it made and did not land, and its ref in the repository of the project
    Remove(OneTaskArgs),
    /// List the tasks, the newest first
    List {
        /// Only those in this status: framing, clarification_needed, active, complete, blocked, escalated or cancelled
        #[arg(long)]
        status: Option<String>,
        /// Only those of the project in this folder
        #[arg(long, value_name = "FOLDER")]
        project: Option<PathBuf>,
    },
    /// Show live what each agent of a task does, also one that another program runs, until the task ends or Ctrl-C
    Watch(OneTaskArgs),
    /// Move your branch to what a task committed; where that cannot be, say why and how to apply its patch
    #[command(after_help = "Exit codes: 0 the branch was moved, or there is nothing to land; 1 it was not.")]
    Land(OneTaskArgs),
    /// Write the report of a task: one HTML page that loads nothing
    Report {
        #[arg(help = TASK_HELP)]
        task: String,
        /// The file. Default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// What every command on one task takes.
#[derive(Debug, ClapArgs)]
pub(crate) struct OneTaskArgs {
    #[arg(help = TASK_HELP)]
    pub(crate) task: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewTaskArgs {
    /// What is to be reached, and how anybody can see that it is. Default: standard input
    pub(crate) goal: Option<String>,
    /// The project: the top of a git repository, or a folder that is in none
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) project: PathBuf,
    /// A file with what you know about it: findings, decisions, places
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
    /// Take along what is not committed
    #[arg(long)]
    pub(crate) include_uncommitted: bool,
    /// Read the project whatever its size. Without it, more than 200 MiB or 50,000 files that are not in git are read after a question,
    /// and only from a terminal
    #[arg(long)]
    pub(crate) allow_large: bool,
    /// The program that runs the tests, with its arguments, parted by blanks: `--test "cargo test --offline"`. No shell reads it
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test: Option<String>,
    /// A path in the project that is not in git and that tests need, such as node_modules. Can be given again
    #[arg(long, value_name = "PATH")]
    pub(crate) keep: Vec<String>,
    /// A program, with its arguments, that prepares a copy of the project before its first test. Can be given again
    #[arg(long, value_name = "COMMAND")]
    pub(crate) setup: Vec<String>,
    /// How often a step is done anew because a review asks for it
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Votes of how many vendors a step needs; 1 says that one will do
    #[arg(long, value_name = "N")]
    pub(crate) min_vendors: Option<usize>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// A name and a value by which you find it again. Can be given again
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<String>,
}

/// What all turns of a task together may use.
#[derive(Debug, ClapArgs)]
pub(crate) struct BudgetArgs {
    /// Most US dollars that all its turns may cost, as far as the vendors tell
    #[arg(long, value_name = "DOLLARS")]
    usd: Option<f64>,
    /// Most tokens that the models may write in all its turns
    #[arg(long, value_name = "N")]
    output_tokens: Option<u64>,
}

impl BudgetArgs {
    /// What was named, if anything was.
    pub(crate) fn named(&self) -> Option<WorkBudget> {
        let Self { usd, output_tokens } = *self;
        (usd.is_some() || output_tokens.is_some()).then_some(WorkBudget { usd, output_tokens })
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReopenTaskArgs {
    #[arg(help = TASK_HELP)]
    pub(crate) task: String,
    /// What the agents are to know: what changed since, what to do otherwise
    pub(crate) note: String,
    /// The entry of the plan to go on with, counted from 1. Default: the one that ended it
    #[arg(long, value_name = "N")]
    pub(crate) from: Option<usize>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunTaskArgs {
    #[arg(help = TASK_HELP)]
    pub(crate) task: String,
    /// Stop after one step
    #[arg(long)]
    pub(crate) step: bool,
    /// An answer to a question that was asked; once for each, in their order. On a terminal you are asked
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Vec<String>,
}

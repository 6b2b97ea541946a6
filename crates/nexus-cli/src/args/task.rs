//! The command line of `nexus task`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand};
use nexus_tasks::WorkBudget;

use super::time_or_zero;

/// Help of the argument `TASK`.
const TASK_HELP: &str = "The task: its id, the beginning of it, or `last` for the newest";

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Create a task from a goal, and run the project's tests once before any change. Prints only its id to standard output
    New(Box<NewTaskArgs>),
    /// Run a task to its end: frame it, then do and review each step. Ctrl-C rolls the step back; the next run repeats it
    #[command(
        after_help = "Exit codes: 0 the task is complete, or with --step the step advanced; 1 it is not; 2 \
bad command line or configuration; 130 cancelled."
    )]
    Run(RunTaskArgs),
    /// Follow a task that another process runs, to its end. Ctrl-C ends only this command
    #[command(
        after_help = "Exit codes: 0 the task is complete; 1 it is not; 2 bad command line; 130 you left."
    )]
    Attach(OneTaskArgs),
    /// Queue a task for `nexus serve`, which runs it to its end. Without TASK, list the queue
    Queue(QueueTaskArgs),
    /// Show the plan, the criteria and the usage of a task
    Status(OneTaskArgs),
    /// Print the events of a task, oldest first, with the backend and the cost of each turn
    Log(OneTaskArgs),
    /// Print an artifact of a task: brief, patch, patch-N, step-N, verdict-N, handoff-N-U, probe-N, turn-ID, context-map
    Show {
        #[arg(help = TASK_HELP)]
        task: String,
        /// Artifact to print
        artifact: String,
    },
    /// End a task; a running step is stopped and rolled back
    Cancel(OneTaskArgs),
    /// Reopen a task that ended
    Reopen(ReopenTaskArgs),
    /// Remove a task that ended, with its unlanded results and its ref in the project's repository
    Remove(OneTaskArgs),
    /// List the tasks, newest first
    List {
        /// Only tasks with this status: framing, clarification_needed, active, complete, blocked, escalated or cancelled
        #[arg(long)]
        status: Option<String>,
        /// Only tasks of the project in this folder
        #[arg(long, value_name = "FOLDER")]
        project: Option<PathBuf>,
    },
    /// Show each agent of a task live until the task ends or Ctrl-C, even if another process runs it
    Watch(OneTaskArgs),
    /// Move your branch to the commits of a task. If that is impossible, print the reason and how to apply its patch
    #[command(
        after_help = "Exit codes: 0 the branch was moved, or nothing was to be landed; 1 the branch was not moved."
    )]
    Land(LandTaskArgs),
    /// Write the report of a task: one self-contained HTML page
    Report {
        #[arg(help = TASK_HELP)]
        task: String,
        /// The file. Default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Arguments of every command on one task.
#[derive(Debug, ClapArgs)]
pub(crate) struct OneTaskArgs {
    #[arg(help = TASK_HELP)]
    pub(crate) task: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LandTaskArgs {
    #[arg(help = TASK_HELP)]
    pub(crate) task: String,
    /// If the branch has moved on: merge it, run the task's tests on the merge, and move the branch to it if they pass
    #[arg(long)]
    pub(crate) merge: bool,
    /// If the branch has moved on: replay the commits on it, run the task's tests, and move the branch to the last one if they pass
    #[arg(long, conflicts_with = "merge")]
    pub(crate) rebase: bool,
    /// Land the commits unchanged in a new branch of this name. No other branch moves
    #[arg(long, value_name = "NAME", conflicts_with_all = ["merge", "rebase"])]
    pub(crate) branch: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewTaskArgs {
    /// Goal of the task, and how to verify that it is reached. Default: standard input
    pub(crate) goal: Option<String>,
    /// Folder of the project: the top of a git repository, or a folder outside of any repository
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) project: PathBuf,
    /// File with background: findings, decisions, paths
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
    /// Include uncommitted changes
    #[arg(long)]
    pub(crate) include_uncommitted: bool,
    /// Read the project at any size. Without it, more than 200 MiB or 50,000 files outside git need a confirmation at a terminal
    #[arg(long)]
    pub(crate) allow_large: bool,
    /// Program that runs the tests, with its arguments, separated by spaces: `--test "cargo test --offline"`. No shell is used
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test: Option<String>,
    /// Path in the project that is not in git but needed by tests, such as node_modules. May be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) keep: Vec<String>,
    /// Program, with its arguments, that prepares a copy of the project before its first test. May be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) setup: Vec<String>,
    /// Maximum number of times that a review may send a step back
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Number of vendors whose votes a step needs; 1 accepts a single vendor
    #[arg(long, value_name = "N")]
    pub(crate) min_vendors: Option<usize>,
    /// Longest time that a turn waits for the reset of a vendor's limit, such as 2h or 7d; 0 does not wait. Default: as configured,
    /// else 1d
    #[arg(long, value_name = "TIME", value_parser = time_or_zero)]
    pub(crate) max_wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// Name and value to find the task by. May be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<String>,
}

/// Limits for all turns of one task or debate together.
#[derive(Debug, ClapArgs)]
pub(crate) struct BudgetArgs {
    /// Maximum cost of all turns in US dollars, as far as the vendors report it
    #[arg(long, value_name = "DOLLARS")]
    usd: Option<f64>,
    /// Maximum number of output tokens of all turns
    #[arg(long, value_name = "N")]
    output_tokens: Option<u64>,
}

impl BudgetArgs {
    /// Returns the limits, or `None` if no option was given.
    pub(crate) fn named(&self) -> Option<WorkBudget> {
        let Self { usd, output_tokens } = *self;
        (usd.is_some() || output_tokens.is_some()).then_some(WorkBudget { usd, output_tokens })
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReopenTaskArgs {
    #[arg(help = TASK_HELP)]
    pub(crate) task: String,
    /// Note for the agents: changes since the end, and what to do differently
    pub(crate) note: String,
    /// Plan entry to resume at, counted from 1. Default: the entry at which the task ended
    #[arg(long, value_name = "N")]
    pub(crate) from: Option<usize>,
    /// Number of vendors whose votes a step needs from now on; 1 accepts a single vendor
    #[arg(long, value_name = "N")]
    pub(crate) min_vendors: Option<usize>,
    /// Longest time that a turn waits from now on for the reset of a vendor's limit, such as 2h or 7d; 0 does not wait
    #[arg(long, value_name = "TIME", value_parser = time_or_zero)]
    pub(crate) max_wait: Option<Duration>,
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
    /// Queue the task, and return at once. `nexus serve` runs it; if none runs, one starts in the background and ends with the queue
    #[arg(long, conflicts_with_all = ["step", "answer"])]
    pub(crate) detach: bool,
    /// Answer to a question of the task; give one for each, in order. On a terminal the command prompts for it
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct QueueTaskArgs {
    /// The task: its id, the beginning of it, or `last` for the newest. Default: list the queue
    pub(crate) task: Option<String>,
    /// Priority from -100 to 100. Tasks with a larger number run first. Default: 0, or the present one of a queued task
    #[arg(long, value_name = "N", allow_negative_numbers = true, requires = "task")]
    pub(crate) priority: Option<i32>,
    /// Take the task off the queue. A running step continues to its end
    #[arg(long, requires = "task", conflicts_with = "priority")]
    pub(crate) remove: bool,
}

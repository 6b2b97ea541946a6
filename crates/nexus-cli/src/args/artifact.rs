//! The command line of `nexus artifact`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use nexus_artifacts::{HandoffStatus, Kind, MilestoneId, SliceId, SliceTaskId, WorkStatus};

/// What follows the options of `nexus artifact`.
pub(super) const HELP: &str = "\
A milestone, by hand:
    nexus artifact new milestone \"Sign-in\" --criterion \"The form is shown\"
    nexus artifact new slice M001 \"Form\"
    nexus artifact new task M001-S001 \"Write the form\" --tier sonnet
    nexus artifact scaffold M001
    nexus artifact mark M001-S001-T0001 in-progress
    nexus artifact lint --enforce
    nexus artifact status M001

Everything lies in .nubos-pilot/ of the project: the nearest folder, from this one up, that has it, else this one. `nexus artifact schema`
names the kinds of files and what each must have.";

/// What follows the options of `nexus artifact lint`.
const LINT_HELP: &str = "\
A line for each finding: FILE:LINE:COLUMN: RULE: MESSAGE. `nexus artifact rules` says what each rule asks for. A file's name says its
kind; files below .nubos-pilot/ are held against each other too.

Exit codes: 0 nothing was found, or --enforce was not given; 1 something was found; 2 bad command line or configuration.";

/// What follows the options of `nexus artifact gate`.
const GATE_HELP: &str = "\
The verdict comes from research/spawn-*.md of the milestone, and from what its RESEARCH says of contested decisions:
  clean            nothing is contested, and agreement_score is 0.8 or more
  issues_flagged   who plans must know what is contested
  needs_re_spawn   agreement_score is below 0.5, more than two are contested, or one is unresolved

Exit codes: 0 clean or issues_flagged, 1 needs_re_spawn, 2 bad command line.";

#[derive(Debug, ClapArgs)]
pub(crate) struct ArtifactArgs {
    /// The project. Default: the one that this folder belongs to
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: ArtifactCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactCommand {
    /// Say what is wrong with artifacts, with file, line and column
    #[command(after_help = LINT_HELP)]
    Lint {
        /// Files and folders. Default: all artifacts of the project
        path: Vec<PathBuf>,
        /// The kind of the files that are named, for names that do not say it
        #[arg(long, value_name = "KIND", value_parser = kind)]
        schema: Option<Kind>,
        /// End with 1 if something is found
        #[arg(long)]
        enforce: bool,
    },
    /// List the rules of the lint
    Rules,
    /// Print the JSON Schema of a kind's frontmatter; without a kind, list the kinds
    Schema {
        /// The kind
        #[arg(value_parser = kind)]
        kind: Option<Kind>,
    },
    /// Make a milestone, a slice or a task with the next number. Its name alone goes to standard output
    #[command(subcommand)]
    New(NewArtifact),
    /// Make the files of the tasks in a slice's plan. What is there stays; a block that is not as it must be stops all of it
    Scaffold {
        /// A slice such as M001-S001, or a milestone for all of its slices
        of: String,
    },
    /// Move a task to another status, and write its slice's TODO again
    Mark {
        /// The task, such as M001-S001-T0001
        task: SliceTaskId,
        /// pending, in-progress, done, skipped or parked
        #[arg(value_parser = task_status)]
        status: WorkStatus,
    },
    /// Write TODO again, from what the tasks say
    Todo {
        /// A slice such as M001-S001, or a milestone for all of its slices
        of: String,
    },
    /// Say what became of a milestone, and how far its slices are. Any Fail: failed; else any Defer or Pending: deferred; else verified
    Status {
        /// The milestone, such as M001
        milestone: MilestoneId,
    },
    /// Append an entry to a milestone's PLAN-REVIEW, with a seal that names the SHA-256 of all before it. Nothing is ever taken away
    Append {
        /// The milestone, such as M001
        milestone: MilestoneId,
        /// The entry. Default: standard input
        file: Option<PathBuf>,
        /// Append only if the file has this SHA-256
        #[arg(long, value_name = "SHA256")]
        expect: Option<String>,
        /// Append nothing but a seal, to what was cut off or appended by hand
        #[arg(long, conflicts_with = "file")]
        seal: bool,
    },
    /// Write RESEARCH from the outputs of a milestone's researchers. Contested decisions are unresolved in it until somebody picks
    Reconcile {
        /// The milestone, such as M001
        milestone: MilestoneId,
    },
    /// Say whether a milestone's research can be planned on
    #[command(after_help = GATE_HELP)]
    Gate {
        /// The milestone, such as M001
        milestone: MilestoneId,
    },
    /// Messages from one agent to another
    #[command(subcommand)]
    Handoff(HandoffCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum NewArtifact {
    /// Make a milestone
    Milestone {
        /// Its name
        name: String,
        /// What it is for
        #[arg(long, value_name = "TEXT", default_value = "")]
        goal: String,
        /// A requirement that it covers. Can be given again
        #[arg(long, value_name = "ID")]
        requirement: Vec<String>,
        /// What must hold at its end. Can be given again
        #[arg(long, value_name = "TEXT")]
        criterion: Vec<String>,
    },
    /// Make a slice
    Slice {
        /// The milestone, such as M001
        milestone: MilestoneId,
        /// Its name
        name: String,
    },
    /// Put a task into a slice's plan; `nexus artifact scaffold` makes its files
    Task {
        /// The slice, such as M001-S001
        slice: SliceId,
        /// Its name
        name: String,
        /// haiku, sonnet, opus, or a portable model of the configuration
        #[arg(long)]
        tier: String,
        /// A task of an earlier slice that must be done before. Can be given again
        #[arg(long, value_name = "TASK")]
        after: Vec<SliceTaskId>,
        /// A file that it changes. Can be given again
        #[arg(long)]
        file: Vec<String>,
        /// What to do
        #[arg(long, value_name = "TEXT", default_value = "")]
        action: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HandoffCommand {
    /// Write a handoff. Its id alone goes to standard output
    New {
        /// What it is about
        topic: String,
        /// Who writes it
        #[arg(long, value_name = "AGENT")]
        from: String,
        /// Who it is for; * is everybody
        #[arg(long, value_name = "AGENT")]
        to: String,
        /// What it says. Default: nothing
        #[arg(long, value_name = "TEXT", default_value = "")]
        body: String,
        /// The milestone that it belongs to. Default: none
        #[arg(long)]
        milestone: Option<MilestoneId>,
    },
    /// List handoffs, the oldest first
    List {
        /// Only those for this agent, and for everybody
        #[arg(long)]
        agent: Option<String>,
        /// Only those in this status: open, read, acted or archived
        #[arg(long, value_parser = handoff_status)]
        status: Option<HandoffStatus>,
        /// Only those of this milestone
        #[arg(long)]
        milestone: Option<MilestoneId>,
        /// Only those of no milestone
        #[arg(long, conflicts_with = "milestone")]
        global: bool,
    },
    /// Write another status into a handoff, and touch no other byte
    Mark {
        /// Its 8 hexadecimal digits
        id: String,
        /// open, read, acted or archived
        #[arg(value_parser = handoff_status)]
        status: HandoffStatus,
    },
}

fn kind(name: &str) -> Result<Kind, String> {
    let names = Kind::all().map(Kind::name).collect::<Vec<_>>().join(", ");
    Kind::named(name).ok_or_else(|| format!("the kinds are {names}"))
}

fn task_status(word: &str) -> Result<WorkStatus, String> {
    WorkStatus::of(word).ok_or_else(|| "write pending, in-progress, done, skipped or parked".to_owned())
}

fn handoff_status(word: &str) -> Result<HandoffStatus, String> {
    HandoffStatus::of(word).ok_or_else(|| "write open, read, acted or archived".to_owned())
}

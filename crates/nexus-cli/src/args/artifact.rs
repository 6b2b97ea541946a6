//! The command line of `nexus artifact`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use nexus_artifacts::{HandoffStatus, Kind, MilestoneId, SliceId, SliceTaskId, WorkStatus};

/// Text below the options of `nexus artifact`.
pub(super) const HELP: &str = "\
A milestone, by hand:
    nexus artifact new milestone \"Sign-in\" --criterion \"The form is shown\"
    nexus artifact new slice M001 \"Form\"
    nexus artifact new task M001-S001 \"Write the form\" --tier sonnet
    nexus artifact scaffold M001
    nexus artifact mark M001-S001-T0001 in-progress
    nexus artifact lint --enforce
    nexus artifact status M001

All files are in .nubos-pilot/ of the project: the nearest folder, from the current one up, that contains it, or the current one. `nexus \
artifact schema` lists the kinds of files and their required fields.";

/// Text below the options of `nexus artifact lint`.
const LINT_HELP: &str = "\
Prints a line for each finding: FILE:LINE:COLUMN: RULE: MESSAGE. `nexus artifact rules` explains each rule. The name of a file decides its \
kind; files below .nubos-pilot/ are also compared with each other.

Exit codes: 0 no findings, or --enforce was not given; 1 findings; 2 bad command line or configuration.";

/// Text below the options of `nexus artifact gate`.
const GATE_HELP: &str = "\
The verdict depends on research/spawn-*.md of the milestone, and on the contested decisions in its RESEARCH:
  clean            no decision is contested, and agreement_score is 0.8 or more
  issues_flagged   the plan must consider the contested decisions
  needs_re_spawn   agreement_score is below 0.5, more than two decisions are contested, or one is unresolved

Exit codes: 0 clean or issues_flagged, 1 needs_re_spawn, 2 bad command line.";

#[derive(Debug, ClapArgs)]
pub(crate) struct ArtifactArgs {
    /// Folder of the project. Default: the project that contains the current folder
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: ArtifactCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactCommand {
    /// Check artifacts, and print each finding with file, line and column
    #[command(after_help = LINT_HELP)]
    Lint {
        /// Files and folders. Default: all artifacts of the project
        path: Vec<PathBuf>,
        /// Kind of the named files, if their names do not show it
        #[arg(long, value_name = "KIND", value_parser = kind)]
        schema: Option<Kind>,
        /// Exit with 1 if there are findings
        #[arg(long)]
        enforce: bool,
    },
    /// List the lint rules
    Rules,
    /// Print the JSON Schema of a kind's frontmatter; without a kind, list the kinds
    Schema {
        /// The kind
        #[arg(value_parser = kind)]
        kind: Option<Kind>,
    },
    /// Create a milestone, a slice or a task with the next number. Prints only its name to standard output
    #[command(subcommand)]
    New(NewArtifact),
    /// Create the files of the tasks in a slice's plan. Existing files are kept; one malformed block rejects the whole plan
    Scaffold {
        /// A slice such as M001-S001, or a milestone for all of its slices
        of: String,
    },
    /// Change the status of a task, and rewrite the TODO of its slice
    Mark {
        /// The task, such as M001-S001-T0001
        task: SliceTaskId,
        /// pending, in-progress, done, skipped or parked
        #[arg(value_parser = task_status)]
        status: WorkStatus,
    },
    /// Rewrite TODO from the tasks
    Todo {
        /// A slice such as M001-S001, or a milestone for all of its slices
        of: String,
    },
    /// Print the result of a milestone and the progress of its slices. Any Fail: failed; else any Defer or Pending: deferred; else verified
    Status {
        /// The milestone, such as M001
        milestone: MilestoneId,
    },
    /// Append an entry to a milestone's PLAN-REVIEW, with a seal that contains the SHA-256 of everything before it. Nothing is ever removed
    Append {
        /// The milestone, such as M001
        milestone: MilestoneId,
        /// The entry. Default: standard input
        file: Option<PathBuf>,
        /// Append only if the file has this SHA-256
        #[arg(long, value_name = "SHA256")]
        expect: Option<String>,
        /// Append only a seal, after an entry that was cut off or appended by hand
        #[arg(long, conflicts_with = "file")]
        seal: bool,
    },
    /// Write RESEARCH from the outputs of a milestone's researchers. A contested decision stays unresolved until a person picks
    Reconcile {
        /// The milestone, such as M001
        milestone: MilestoneId,
    },
    /// Check that a milestone's research is ready for planning
    #[command(after_help = GATE_HELP)]
    Gate {
        /// The milestone, such as M001
        milestone: MilestoneId,
    },
    /// Manage messages from one agent to another
    #[command(subcommand)]
    Handoff(HandoffCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum NewArtifact {
    /// Create a milestone
    Milestone {
        /// Name of the milestone
        name: String,
        /// Goal of the milestone
        #[arg(long, value_name = "TEXT", default_value = "")]
        goal: String,
        /// Requirement that the milestone covers. May be repeated
        #[arg(long, value_name = "ID")]
        requirement: Vec<String>,
        /// Criterion that must hold at the end of the milestone. May be repeated
        #[arg(long, value_name = "TEXT")]
        criterion: Vec<String>,
    },
    /// Create a slice
    Slice {
        /// The milestone, such as M001
        milestone: MilestoneId,
        /// Name of the slice
        name: String,
    },
    /// Add a task to a slice's plan; `nexus artifact scaffold` creates its files
    Task {
        /// The slice, such as M001-S001
        slice: SliceId,
        /// Name of the task
        name: String,
        /// haiku, sonnet, opus, or a portable model of the configuration
        #[arg(long)]
        tier: String,
        /// Task of an earlier slice that must be done first. May be repeated
        #[arg(long, value_name = "TASK")]
        after: Vec<SliceTaskId>,
        /// File that the task changes. May be repeated
        #[arg(long)]
        file: Vec<String>,
        /// Instructions of the task
        #[arg(long, value_name = "TEXT", default_value = "")]
        action: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HandoffCommand {
    /// Create a handoff. Prints only its id to standard output
    New {
        /// Topic of the message
        topic: String,
        /// Agent that sends the message
        #[arg(long, value_name = "AGENT")]
        from: String,
        /// Agent that receives the message; * means every agent
        #[arg(long, value_name = "AGENT")]
        to: String,
        /// Text of the message. Default: empty
        #[arg(long, value_name = "TEXT", default_value = "")]
        body: String,
        /// Milestone that the message belongs to. Default: none
        #[arg(long)]
        milestone: Option<MilestoneId>,
    },
    /// List handoffs, oldest first
    List {
        /// Only messages to this agent or to every agent
        #[arg(long)]
        agent: Option<String>,
        /// Only messages with this status: open, read, acted or archived
        #[arg(long, value_parser = handoff_status)]
        status: Option<HandoffStatus>,
        /// Only messages of this milestone
        #[arg(long)]
        milestone: Option<MilestoneId>,
        /// Only messages without a milestone
        #[arg(long, conflicts_with = "milestone")]
        global: bool,
    },
    /// Change the status of a handoff, and no other byte of its file
    Mark {
        /// Id of the handoff: 8 hexadecimal digits
        id: String,
        /// open, read, acted or archived
        #[arg(value_parser = handoff_status)]
        status: HandoffStatus,
    },
}

fn kind(name: &str) -> Result<Kind, String> {
    let names = Kind::all().map(Kind::name).collect::<Vec<_>>().join(", ");
    Kind::named(name).ok_or_else(|| format!("write one of the kinds {names}"))
}

fn task_status(word: &str) -> Result<WorkStatus, String> {
    WorkStatus::of(word).ok_or_else(|| "write pending, in-progress, done, skipped or parked".to_owned())
}

fn handoff_status(word: &str) -> Result<HandoffStatus, String> {
    HandoffStatus::of(word).ok_or_else(|| "write open, read, acted or archived".to_owned())
}

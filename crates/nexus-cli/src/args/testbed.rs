//! The command line of `nexus testbed`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// List the traps: small projects with an answer that looks right and is wrong
    List(TrapArgs),
    /// Prove that traps are traps: run their tests, ground truth and probe on both answers. No model call
    #[command(after_help = "Exit codes: 0 every trap is valid, 1 a trap is not valid or cannot be run.")]
    Prove(TrapArgs),
    /// Run each arm on each answer of each trap, alternating, and record the results. Ctrl-C abandons only the current run; the same
    /// command resumes after it
    #[command(
        after_help = "An arm is a script without a model (anchored, probing or wary), or NAME=FILE with a \
nexus.yaml. Of the file, the type `reviewer` is measured, or with --whole every type of a task. A file with \
a vendor's backend needs --real; the number of turns is printed before the first one.\n\nExit codes: 0 all \
runs are finished, 1 they are not, 2 bad command line or configuration, 130 cancelled."
    )]
    Run(Box<RunTestbedArgs>),
    /// Write the report of an experiment: one self-contained HTML page, or Markdown
    Report {
        /// The folder of the experiment
        folder: PathBuf,
        /// Write Markdown
        #[arg(long)]
        markdown: bool,
        /// The file. Default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Selection of traps.
#[derive(Debug, ClapArgs)]
pub(crate) struct TrapArgs {
    /// Folder of traps in place of the built-in ones; docs/reference/traps.md explains how to write one
    #[arg(long, value_name = "FOLDER")]
    pub(crate) traps: Option<PathBuf>,
    /// Only the trap of this name. May be repeated
    #[arg(long = "trap", value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunTestbedArgs {
    /// Folder of the experiment. It is created; an unfinished experiment in it is resumed
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) traps: TrapArgs,
    /// Arm: anchored, probing, wary, or NAME=FILE. May be repeated. Default: anchored and probing
    #[arg(long = "arm", value_name = "ARM")]
    pub(crate) arms: Vec<String>,
    /// Answer of each trap to review: planted (the wrong one) or right. Default: both
    #[arg(long = "answer", value_name = "ANSWER")]
    pub(crate) answers: Vec<nexus_testbed::Answer>,
    /// Number of runs of each arm on each answer
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) runs: u32,
    /// Run the whole task from its goal, in place of the review alone
    #[arg(long, conflicts_with = "answers")]
    pub(crate) whole: bool,
    /// Also run arms with vendors' backends: their turns cost money
    #[arg(long)]
    pub(crate) real: bool,
    /// Do not ask for confirmation before the first turn that costs money
    #[arg(long, requires = "real")]
    pub(crate) yes: bool,
}

//! The command line of `nexus testbed`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// List the traps: small projects with an answer that looks right and is wrong
    List(TrapArgs),
    /// Show that traps are traps: run their tests, their ground truth and their probe on both answers. No model call
    #[command(after_help = "Exit codes: 0 every trap is one, 1 one of them is not, or cannot be run.")]
    Prove(TrapArgs),
    /// Let each arm meet each answer of each trap, in turns, and write down what came of it. Ctrl-C gives up the run in flight alone;
    /// the same command goes on behind it
    #[command(
        after_help = "An arm is a script (anchored, probing, wary), which asks no model, or NAME=FILE: a nexus.yaml whose type \
`reviewer` is measured, and with --whole every type of a task. One that names a vendor's backend needs --real; how many turns it \
takes is said before the first one.\n\nExit codes: 0 all runs are finished, 1 they are not, 2 bad command line or configuration, \
130 cancelled."
    )]
    Run(Box<RunTestbedArgs>),
    /// Write the report of an experiment: one HTML page that loads nothing, or Markdown
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

/// Which traps.
#[derive(Debug, ClapArgs)]
pub(crate) struct TrapArgs {
    /// A folder of traps in place of those of this command; TRAPS.md of nexus-testbed says how to write one
    #[arg(long, value_name = "FOLDER")]
    pub(crate) traps: Option<PathBuf>,
    /// Only the trap of this name. May be given more than once
    #[arg(long = "trap", value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunTestbedArgs {
    /// The folder of the experiment, which is made; of one that was begun there, the rest is run
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) traps: TrapArgs,
    /// An arm: anchored, probing, wary, or NAME=FILE. May be given more than once. Default: anchored and probing
    #[arg(long = "arm", value_name = "ARM")]
    pub(crate) arms: Vec<String>,
    /// Only this answer: planted or right. Default: both
    #[arg(long = "answer", value_name = "ANSWER")]
    pub(crate) answers: Vec<nexus_testbed::Answer>,
    /// How often each arm meets each answer
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) runs: u32,
    /// Run the whole task, from its goal on, in place of review alone
    #[arg(long, conflicts_with = "answers")]
    pub(crate) whole: bool,
    /// Also run arms that name backends of vendors: their turns cost something
    #[arg(long)]
    pub(crate) real: bool,
    /// Do not ask before the first turn of such an arm
    #[arg(long, requires = "real")]
    pub(crate) yes: bool,
}

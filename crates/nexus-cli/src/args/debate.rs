//! The command line of `nexus debate`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::task::BudgetArgs;

/// Help of the argument `DEBATE`.
const DEBATE_HELP: &str = "The debate: its id, the beginning of it, or `last` for the newest";

#[derive(Debug, Subcommand)]
pub(crate) enum DebateCommand {
    /// Create a debate on a question, and copy its sources. No agent runs yet. Prints only its id to standard output
    New(Box<NewDebateArgs>),
    /// Run the next stage of a debate, or with --all every stage to its end. Ctrl-C stops the stage; the next call restarts it
    #[command(
        after_help = "Exit codes: 0 the stage was run; 1 it failed; 2 bad command line or configuration; 130 cancelled."
    )]
    Advance {
        #[arg(help = DEBATE_HELP)]
        debate: String,
        /// Continue until the debate is done
        #[arg(long)]
        all: bool,
    },
    /// Show a debate live until it ends or Ctrl-C, even if another process runs it
    Watch(OneDebateArgs),
    /// Write the report of a debate: one self-contained HTML page
    Report {
        #[arg(help = DEBATE_HELP)]
        debate: String,
        /// The file. Default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the record of a debate: every argument word for word, the positions of the panel, and the arbiter's interpretation
    Show(OneDebateArgs),
    /// List the debates, newest first
    List {
        /// Only debates with this status: framing, opening, analysing, cross_examining, checking_close, converging, final, synthesising,
        /// done or cancelled
        #[arg(long)]
        status: Option<String>,
    },
    /// End a debate. A running stage is stopped, and the arguments so far are kept
    Cancel(OneDebateArgs),
    /// Remove a debate that ended, with all its records. Tasks that follow from it remain
    Remove(OneDebateArgs),
}

/// Arguments of every command on one debate.
#[derive(Debug, ClapArgs)]
pub(crate) struct OneDebateArgs {
    #[arg(help = DEBATE_HELP)]
    pub(crate) debate: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewDebateArgs {
    /// Question of the debate. Default: standard input
    pub(crate) question: Option<String>,
    /// File or folder for one panelist to read, with a name: `--source costs=notes/costs.md`. May be repeated; each source goes to
    /// at most one panelist
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) source: Vec<String>,
    /// File with background for every panelist
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
    /// Panelist that must take part: a registered agent, or a name for a new panelist. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) pin: Vec<String>,
    /// Number of panelists, 2 to 9
    #[arg(long, value_name = "N")]
    pub(crate) panelists: Option<usize>,
    /// Minimum number of cross-examination rounds
    #[arg(long, value_name = "N")]
    pub(crate) min_rounds: Option<u32>,
    /// Maximum number of cross-examination rounds
    #[arg(long, value_name = "N")]
    pub(crate) max_rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// Name and value to find the debate by. May be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<String>,
}

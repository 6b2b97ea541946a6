//! The command line of `nexus debate`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::task::BudgetArgs;

/// What `DEBATE` may be.
const DEBATE_HELP: &str = "The debate: its id, the beginning of it, or `last` for the newest";

#[derive(Debug, Subcommand)]
pub(crate) enum DebateCommand {
    /// Create a debate on a question, and copy its sources. No agent is asked yet. Its id alone goes to standard output
    New(Box<NewDebateArgs>),
    /// Run the next stage of a debate, or with --all every stage up to its end. Ctrl-C stops the stage; the next call begins it anew
    #[command(
        after_help = "Exit codes: 0 the stage was run; 1 it failed; 2 bad command line or configuration; 130 cancelled."
    )]
    Advance {
        #[arg(help = DEBATE_HELP)]
        debate: String,
        /// Go on until the debate is done
        #[arg(long)]
        all: bool,
    },
    /// Show live what happens in a debate, also one that another program runs, until it ends or Ctrl-C
    Watch(OneDebateArgs),
    /// Write the report of a debate: one HTML page that loads nothing
    Report {
        #[arg(help = DEBATE_HELP)]
        debate: String,
        /// The file. Default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the record of a debate: every argument word for word, where the panel stands, and the arbiter's interpretation
    Show(OneDebateArgs),
    /// List the debates, the newest first
    List {
        /// Only those in this status: framing, opening, analysing, cross_examining, checking_close, converging, final, synthesising,
        /// done or cancelled
        #[arg(long)]
        status: Option<String>,
    },
    /// End a debate; a stage that runs is stopped, and what was said before stays
    Cancel(OneDebateArgs),
}

/// What every command on one debate takes.
#[derive(Debug, ClapArgs)]
pub(crate) struct OneDebateArgs {
    #[arg(help = DEBATE_HELP)]
    pub(crate) debate: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewDebateArgs {
    /// What is debated. Default: standard input
    pub(crate) question: Option<String>,
    /// A file or folder that one panelist is to read, by a name: `--source costs=notes/costs.md`. Can be given again; each goes to one
    /// panelist at most
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) source: Vec<String>,
    /// A file with what you know about it, for everybody
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
    /// Who has to sit: a registered agent, or a name that a panelist is to have. Can be given again
    #[arg(long, value_name = "NAME")]
    pub(crate) pin: Vec<String>,
    /// How many panelists there are, 2 to 9
    #[arg(long, value_name = "N")]
    pub(crate) panelists: Option<usize>,
    /// How many rounds of cross-examination are held at least
    #[arg(long, value_name = "N")]
    pub(crate) min_rounds: Option<u32>,
    /// How many are held at most
    #[arg(long, value_name = "N")]
    pub(crate) max_rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// A name and a value by which you find it again. Can be given again
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<String>,
}

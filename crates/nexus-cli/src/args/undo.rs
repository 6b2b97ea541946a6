//! The command lines of `nexus undo` and `nexus diff`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Text below the options of `nexus undo`.
pub(crate) const UNDO_HELP: &str = "\
Before each turn of `nexus run` and `nexus chat` that may write, the working folder is recorded, if it is in a git repository. The \
snapshots are in the folder `undo` of the home. Your repository, index and branches are only read. A snapshot covers the files that git tracks or does not \
ignore, up to 50,000 files, 32 MiB for one and 512 MiB for all. Ignored files, larger files, submodules and other repositories are neither \
recorded nor changed. Of each folder, the last 50 turns are retained.";

#[derive(Debug, ClapArgs)]
pub(crate) struct UndoArgs {
    /// Restore the files although you changed them after the turn. `nexus undo --redo` restores your changes
    #[arg(long)]
    pub(crate) force: bool,
    /// Undo the last undo
    #[arg(long, conflicts_with = "force")]
    pub(crate) redo: bool,
    /// List the turns that have a snapshot, the oldest first
    #[arg(long, conflicts_with_all = ["force", "redo"])]
    pub(crate) list: bool,
    /// Working folder of the turns. Default: the current folder
    #[arg(long = "cd", value_name = "FOLDER")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DiffArgs {
    /// Turn whose own changes are shown, as `nexus undo --list` numbers it. Default: all changes since the last turn began
    #[arg(value_name = "TURN")]
    pub(crate) turn: Option<u64>,
    /// Working folder of the turns. Default: the current folder
    #[arg(long = "cd", value_name = "FOLDER")]
    pub(crate) directory: Option<PathBuf>,
}

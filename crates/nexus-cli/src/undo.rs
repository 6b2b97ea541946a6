//! Snapshots around the turns of a folder, and the commands that show and undo what a turn changed.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use nexus::{BuildContext, CancelToken, ToolAccess};
use nexus_files::{FileLock, counted, hex, rfc3339};
use nexus_trees::{FolderHistory, FolderTurn, Git, LaterChanges, RestoredFiles, TreeError};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::{
    activity::Activity,
    args::{DiffArgs, UndoArgs},
    command_error::CommandError,
    output::{AnswerWriter, printable, say, say_bytes},
    terminal::takes_escapes,
    works::{blocking, note},
};

/// Folder of the home with the histories of all folders.
pub(crate) const STORES: &str = "undo";

/// A turn with a snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedSnapshot {
    /// Number of the turn in its folder, from 1.
    turn: u64,
    /// Time of the first snapshot.
    began: String,
    /// The type that ran the turn, and its conversation.
    label: String,
    /// True if the end of the turn is recorded.
    has_end: bool,
    /// True if the turn is undone.
    is_undone: bool,
}

/// Files that an undo or a redo restored.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UndoneTurn {
    /// The turn.
    turn: ListedSnapshot,
    /// The restored files, below the folder.
    restored: Vec<String>,
    /// Changed files that no snapshot covers. They are unchanged.
    left_out: Vec<String>,
}

/// Changes of a turn.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TurnDiff {
    /// The turn.
    turn: ListedSnapshot,
    /// The changes as a patch, with every invisible character spelled out.
    patch: String,
}

impl From<FolderTurn> for ListedSnapshot {
    fn from(turn: FolderTurn) -> Self {
        let FolderTurn { number, began, label, has_end, is_undone, .. } = turn;
        Self { turn: number, began: rfc3339::seconds(began), label, has_end, is_undone }
    }
}

/// The snapshots of a turn that runs.
#[derive(Debug)]
pub(crate) struct TurnSnapshots {
    folder: PathBuf,
    number: u64,
    /// Prevents the deletion of the snapshots until the turn has ended.
    _in_use: Option<FileLock>,
}

impl TurnSnapshots {
    /// Records the working folder of a turn with this access. `None` for a turn that may not write there.
    ///
    /// # Errors
    ///
    /// The reason why the turn cannot be undone.
    pub(crate) async fn begin(
        folder: Option<PathBuf>,
        access: ToolAccess,
        label: String,
        cancel: CancelToken,
    ) -> Result<Option<Self>, CommandError> {
        let Some(folder) = folder.filter(|_| access >= ToolAccess::WorkspaceWrite) else { return Ok(None) };
        let _activity = Activity::start("recording the folder for `nexus undo`");
        let began = blocking(move || -> Result<Self, CommandError> {
            FolderHistory::sweep(BuildContext::from_process().home.join(STORES));
            let history = history_by(&Git::find()?.with_cancel(cancel), &folder)?;
            let in_use = history.retain()?;
            let number = history.begin(&label)?;
            Ok(Self { folder, number, _in_use: in_use })
        });
        began.await.map(Some)
    }

    /// Records the folder after the turn.
    pub(crate) async fn end(self) {
        let number = self.number;
        // Without the token of the turn, because the end of a cancelled turn is recorded as well.
        let ended = blocking(move || Ok::<_, CommandError>(history(&self.folder)?.end(self.number)?)).await;
        if let Err(error) = ended {
            note(&format!(
                "the folder is not recorded after turn {number}, so `nexus undo` needs --force: {error}"
            ));
        }
    }
}

/// Opens the history of a folder.
fn history(folder: &Path) -> Result<FolderHistory, TreeError> {
    history_by(&Git::find()?, folder)
}

fn history_by(git: &Git, folder: &Path) -> Result<FolderHistory, TreeError> {
    // The resolved path names the store, so that all links to a folder share one history.
    let known = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = hex(&Sha256::digest(known.as_os_str().as_encoded_bytes())[..16]);
    let home = BuildContext::from_process().home;
    // The home has the credentials and the snapshots themselves.
    Ok(FolderHistory::open(git, home.join(STORES).join(name), folder)?.without(home))
}

pub(crate) async fn undo(out: AnswerWriter, args: &UndoArgs) -> Result<ExitCode, CommandError> {
    let folder = args.directory.clone().unwrap_or_else(|| ".".into());
    if args.list {
        let turns = blocking(move || history(&folder)?.turns()).await?;
        if turns.is_empty() {
            out.nothing("no turn has a snapshot of this folder yet; a turn that may write records it");
        }
        for turn in turns {
            out.show(&ListedSnapshot::from(turn), |turn| say(printable(&described(turn))));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let step = match (args.redo, args.force) {
        (true, _) => UndoStep::Redo,
        (false, true) => UndoStep::Undo(LaterChanges::Overwrite),
        (false, false) => UndoStep::Undo(LaterChanges::Refuse),
    };
    let restored = restore(folder, step).await?;
    let text = restored_text(&restored, step);
    let RestoredFiles { turn, paths, left_out, .. } = restored;
    // JSON has no bytes: in a name that is not UTF-8, each invalid part is U+FFFD.
    let as_text = |paths: Vec<PathBuf>| -> Vec<String> {
        paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let (restored, left_out) = (as_text(paths), as_text(left_out));
    out.line(&UndoneTurn { turn: turn.into(), restored, left_out }, text);
    Ok(ExitCode::SUCCESS)
}

/// Direction of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoStep {
    Undo(LaterChanges),
    Redo,
}

/// Undoes the last turn of a folder, or redoes the last undone turn.
pub(crate) async fn restore(folder: PathBuf, step: UndoStep) -> Result<RestoredFiles, CommandError> {
    let _activity = Activity::start("restoring the files");
    blocking(move || match step {
        UndoStep::Undo(later) => history(&folder)?.undo(later),
        UndoStep::Redo => history(&folder)?.redo(),
    })
    .await
}

/// Describes a restore for people.
pub(crate) fn restored_text(restored: &RestoredFiles, step: UndoStep) -> String {
    let (number, files) = (restored.turn.number, counted(restored.paths.len(), "file"));
    let mut text = match step {
        UndoStep::Undo(_) => {
            format!("turn {number} is undone: {files} restored; `nexus undo --redo` takes this back")
        }
        UndoStep::Redo => format!("turn {number} is done again: {files} restored"),
    };
    for path in &restored.paths {
        text.push_str(&format!("\n  {}", printable(&path.to_string_lossy())));
    }
    for path in &restored.left_out {
        text.push_str(&format!(
            "\n  {} is not recorded, and is unchanged",
            printable(&path.to_string_lossy())
        ));
    }
    text
}

pub(crate) async fn diff(out: AnswerWriter, args: &DiffArgs) -> Result<ExitCode, CommandError> {
    let (turn, patch) = changes(args.directory.clone().unwrap_or_else(|| ".".into()), args.turn).await?;
    if out.is_json() {
        out.line(&TurnDiff { turn: turn.into(), patch: patch.text() }, "");
    } else if patch.is_empty() {
        out.nothing(format_args!("no file differs from its state before turn {}", turn.number));
    } else if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        say(diff_text(&patch).trim_end());
    } else {
        // A file or a program gets the exact bytes, because the text spells out invisible characters.
        say_bytes(patch.as_bytes());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the changes of a turn, or all since the last turn began.
pub(crate) async fn changes(
    folder: PathBuf,
    turn: Option<u64>,
) -> Result<(FolderTurn, nexus_trees::Patch), CommandError> {
    let _activity = Activity::start("comparing the files");
    blocking(move || history(&folder)?.diff(turn)).await
}

/// Formats a patch for a terminal: with colours if it takes them.
pub(crate) fn diff_text(patch: &nexus_trees::Patch) -> String {
    let text = patch.text();
    if !takes_escapes(&std::io::stdout()) {
        return text;
    }
    let lines = text.lines().map(|line| match line.as_bytes().first() {
        // Lines with the names of files begin like changed lines, but stay uncoloured.
        Some(b'+') if !line.starts_with("+++ ") => format!("\u{1b}[32m{line}\u{1b}[0m\n"),
        Some(b'-') if !line.starts_with("--- ") => format!("\u{1b}[31m{line}\u{1b}[0m\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

fn described(turn: &ListedSnapshot) -> String {
    let state = match (turn.is_undone, turn.has_end) {
        (true, _) => " · undone",
        (false, true) => "",
        (false, false) => " · its end is not recorded",
    };
    format!("{} · {} · {}{state}", turn.turn, turn.began, turn.label)
}

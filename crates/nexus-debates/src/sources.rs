//! Sources of a debate: copied into its folder before any agent runs.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use nexus_core::{
    Brief, FileTools, ParticipantScope, ScopeError, ScopedFiles, Tool, ToolPattern, scope::EntryKind,
};
use nexus_files::make_private_folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    debate_error::{DebateError, DebateErrorKind},
    names::is_name,
};

/// Limits of all sources of a debate: total bytes, number of files, and depth of folders. Source: our own bounds.
const MOST_BYTES: u64 = 32 << 20;
const MOST_FILES: u64 = 2_000;
const MOST_DEPTH: usize = 32;

/// A source that panelists may read: a text, or a file or folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceDraft {
    /// Names it: a letter, then letters, digits, `-` and `_`, at most 40 in all.
    pub name: String,
    /// Its text. Either this or `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The absolute path of a file or folder below the configured roots. It is copied when the debate is created; links in it are left
    /// out, and so are folders that are called `.git`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// A copied source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Name of the source, and of its folder.
    pub name: String,
    /// Number of files.
    pub files: u64,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// Number of links, pipes and similar entries that were left out.
    pub left_out: u64,
}

/// Totals of the copies so far.
#[derive(Debug, Default)]
struct Copied {
    files: u64,
    bytes: u64,
}

/// Copies sources into `folder`, each into a separate folder, and returns the counts of each. It reads nothing outside of a
/// source, even if the source contains links.
pub(crate) fn copy(
    drafts: &[SourceDraft],
    roots: &[PathBuf],
    folder: &Path,
) -> Result<Vec<Source>, DebateError> {
    make_private_folder(folder).map_err(DebateError::at(folder))?;
    let mut all = Copied::default();
    let mut sources = Vec::new();
    for draft in drafts {
        let into = folder.join(&draft.name);
        make_private_folder(&into).map_err(DebateError::at(&into))?;
        let before = (all.files, all.bytes);
        let mut left_out = 0;
        match (&draft.text, &draft.path) {
            (Some(text), None) => {
                all.add(&draft.name, text.len() as u64)?;
                let path = into.join("text.md");
                write(&path, &mut text.as_bytes(), u64::MAX).map_err(DebateError::at(&path))?;
            }
            (None, Some(path)) => {
                let (files, start) = open(path, roots)?;
                copy_path(&files, &start, &into, &draft.name, &mut all, &mut left_out)?;
            }
            _ => {
                let message = format!("the source {:?} must have either a text or a path", draft.name);
                return Err(DebateError::invalid(message, "give it exactly one of `text` and `path`"));
            }
        }
        let (files, bytes) = (all.files - before.0, all.bytes - before.1);
        sources.push(Source { name: draft.name.clone(), files, bytes, left_out });
    }
    Ok(sources)
}

/// Checks that the names of sources are valid and different.
pub(crate) fn check_names(drafts: &[SourceDraft]) -> Result<(), DebateError> {
    for (at, draft) in drafts.iter().enumerate() {
        // Names become folders, and some file systems ignore case.
        let is_taken = drafts[..at].iter().any(|other| other.name.eq_ignore_ascii_case(&draft.name));
        if !is_name(&draft.name) || is_taken {
            let message = format!("{:?} is not a name of a source, or occurs twice", draft.name);
            let instead = "write each name as a letter, then letters, digits, `-` and `_`, at most 40 in \
                total";
            return Err(DebateError::invalid(message, instead));
        }
    }
    Ok(())
}

/// Returns the scope of a panelist: its own sources below the folder of sources, and the tools with these names.
pub(crate) fn scope(
    folder: &Path,
    sources: &[String],
    tools: &[&str],
) -> Result<ParticipantScope, ScopeError> {
    let patterns = tools.iter().filter_map(|name| name.parse::<ToolPattern>().ok());
    let brief = patterns.fold(Brief::new(folder), Brief::tool);
    ParticipantScope::assemble(&sources.iter().fold(brief, Brief::reading), None, None)
}

/// Returns the read-only tools for the files of a scope.
pub(crate) fn file_tools(scope: &ParticipantScope) -> [Tool; 3] {
    FileTools::new(scope.files()).reading()
}

/// Opens the files of a source. Returns them with the path in them at which the source begins.
fn open(path: &Path, roots: &[PathBuf]) -> Result<(ScopedFiles, String), DebateError> {
    let refused = |reason: &str| {
        DebateError::invalid(
            format!("the source {path:?} cannot be read: {reason}"),
            "name a file or folder by its absolute path",
        )
    };
    if !path.is_absolute() {
        return Err(refused("it is not an absolute path, as required"));
    }
    let found = path.canonicalize().map_err(|error| refused(&error.to_string()))?;
    let is_below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| found.starts_with(root));
    if !roots.iter().any(is_below) {
        let message = format!("the source {path:?} is outside of {roots:?}, the readable folders");
        let instead = "name a path in them, give the source as a text, or ask the person to add its folder \
            to `tasks: { roots: [...] }` in nexus.yaml";
        return Err(DebateError::new(DebateErrorKind::OutsideRoots, message, instead));
    }
    let metadata = found.symlink_metadata().map_err(|error| refused(&error.to_string()))?;
    let (root, start) = match (metadata.is_dir(), metadata.is_file()) {
        (true, _) => (found.clone(), ".".to_owned()),
        (_, true) => {
            let name = found.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| refused("its name is not Unicode"))?.to_owned();
            (found.parent().unwrap_or(&found).to_owned(), name)
        }
        _ => return Err(refused("it is neither a file nor a folder")),
    };
    let scope = ParticipantScope::assemble(
        // A source is only read, so a hard link cannot change a file elsewhere.
        &Brief::new(root).reading(&start).allow_hard_links_for_reading(),
        None,
        None,
    );
    Ok((scope.map_err(|error| refused(&error.to_string()))?.files(), start))
}

fn copy_path(
    files: &ScopedFiles,
    start: &str,
    into: &Path,
    name: &str,
    all: &mut Copied,
    left_out: &mut u64,
) -> Result<(), DebateError> {
    let refused = |error: &dyn std::fmt::Display| {
        DebateError::invalid(
            format!("the source {name:?} cannot be copied: {error}"),
            "correct the source, or name another one",
        )
    };
    if start != "." {
        return copy_file(files, start, &into.join(start), name, all);
    }
    let mut folders = vec![(String::from("."), into.to_owned(), 0)];
    while let Some((from, to, depth)) = folders.pop() {
        if depth > MOST_DEPTH {
            return Err(refused(&"its folders are nested too deep"));
        }
        make_private_folder(&to).map_err(DebateError::at(&to))?;
        for entry in files.list(&from).map_err(|error| refused(&error))? {
            let path = if from == "." { entry.name.clone() } else { format!("{from}/{}", entry.name) };
            match entry.kind {
                EntryKind::File => copy_file(files, &path, &to.join(&entry.name), name, all)?,
                EntryKind::Folder if entry.name == ".git" => *left_out += 1,
                EntryKind::Folder => folders.push((path, to.join(&entry.name), depth + 1)),
                _ => *left_out += 1,
            }
        }
    }
    Ok(())
}

fn copy_file(
    files: &ScopedFiles,
    from: &str,
    to: &Path,
    name: &str,
    all: &mut Copied,
) -> Result<(), DebateError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        DebateError::invalid(
            format!("the source {name:?} cannot be copied: {error}"),
            "correct the source, or name another one",
        )
    };
    let mut file: File = files.open(from).map_err(|error| unreadable(&error))?;
    let metadata = file.metadata().map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err(unreadable(&format!("{from:?} is not a regular file")));
    }
    // Check the size before the file is read, because it may be huge.
    all.fits(name, metadata.len())?;
    // The file may grow while it is copied, so the copy has a limit of its own.
    let left = MOST_BYTES - all.bytes;
    let written = write(to, &mut file, left).map_err(DebateError::at(to))?;
    all.add(name, written)
}

impl Copied {
    fn add(&mut self, name: &str, bytes: u64) -> Result<(), DebateError> {
        self.fits(name, bytes)?;
        self.files += 1;
        self.bytes += bytes;
        Ok(())
    }

    fn fits(&self, name: &str, bytes: u64) -> Result<(), DebateError> {
        if self.files < MOST_FILES && self.bytes.saturating_add(bytes) <= MOST_BYTES {
            return Ok(());
        }
        let message = format!(
            "the sources up to {name:?} have more than {MOST_FILES} files or {} MiB",
            MOST_BYTES >> 20
        );
        Err(DebateError::invalid(message, "name fewer or smaller sources"))
    }
}

/// Copies at most `most` + 1 bytes into a new file, and returns the number of bytes. One byte more shows that the input is
/// too long.
fn write(path: &Path, from: &mut dyn io::Read, most: u64) -> io::Result<u64> {
    // A file that exists already is another entry of the same name, as on disks that ignore case.
    let mut file = File::create_new(path)?;
    let written = io::copy(&mut from.take(most.saturating_add(1)), &mut file)?;
    file.flush()?;
    Ok(written)
}

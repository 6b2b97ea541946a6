//! Removes files that no conversation needs any more.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use nexus_files::FileLock;
use serde::Serialize;

use crate::{
    conversation_error::{ConversationError, in_conversation},
    conversation_log::ConversationLog,
    log_line::LogId,
    log_reader::ConversationLogReader,
    name::file_stem,
    name_file::NameFile,
    store::{Conversations, STORE_PATIENCE},
    turn_file::{ConversationPoint, Node, NodeId},
};

/// Number of read bytes of a log that a name has: all, also of turns that are added later.
const WHOLE_LOG: u64 = u64::MAX;

/// Result of a sweep.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConversationSweep {
    /// Number of removed files: logs and turns that no conversation has any more, and unfinished files.
    pub files: u64,
    /// Number of removed bytes: of these files, and of the turns after the last one that a fork reads.
    pub bytes: u64,
}

/// Files that the names reach.
#[derive(Debug, Default)]
struct ReachedFiles {
    /// Logs, each with the number of bytes that are read.
    logs: HashMap<LogId, u64>,
    nodes: HashSet<NodeId>,
}

impl Conversations {
    /// Removes the logs of deleted conversations. If a fork reads such a log, removes only the turns after the last turn that the fork
    /// reads. Also removes turns of version 1 that no name reaches, and unfinished files of killed processes. Processes that add a turn
    /// wait meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of reading. If the beginning of one conversation cannot be read, nothing is removed, because the logs that it
    /// continues are unknown. If one file cannot be removed, the others are, and the first such error is returned.
    pub fn sweep(&self) -> Result<ConversationSweep, ConversationError> {
        if !self.folder.exists() {
            return Ok(ConversationSweep::default());
        }
        // Read most files before the lock is taken, because ending turns wait for it. A failure here occurs again below.
        let mut reached = ReachedFiles::default();
        let _ = self.mark(&mut reached);
        self.sweep_except(reached)
    }

    /// Sweeps with the turns of version 1 in `reached`, which need not be read again.
    fn sweep_except(&self, mut reached: ReachedFiles) -> Result<ConversationSweep, ConversationError> {
        let _store = self.lock_store(STORE_PATIENCE)?;
        // Meanwhile a conversation may have been deleted and another sweep may have removed its log.
        reached.logs.clear();
        self.mark(&mut reached)?;
        let mut swept = ConversationSweep::default();
        let mut failed = None;
        // The later turns of a deleted conversation are deleted, too, although a fork reads the earlier ones.
        for (id, read) in &reached.logs {
            match truncate(&ConversationLog::path_of(&self.logs(), id), *read) {
                Ok(bytes) => swept.bytes += bytes,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let mut gone: Vec<PathBuf> = self.files("nodes", ".json")?;
        gone.retain(|path| !file_stem(path).parse().is_ok_and(|id: NodeId| reached.nodes.contains(&id)));
        let mut logs: Vec<PathBuf> = self.files("logs", ".jsonl")?;
        logs.retain(|path| !file_stem(path).parse().is_ok_and(|id: LogId| reached.logs.contains_key(&id)));
        gone.append(&mut logs);
        // Every writer owns the lock of the store, so these files have no writer.
        for folder in ["nodes", "logs", "names"] {
            gone.extend(self.unfinished(folder)?);
        }
        for path in gone {
            // A strange entry, such as a folder, must not keep the other files on the disk.
            match remove(&path) {
                Ok(bytes) => {
                    swept.files += 1;
                    swept.bytes += bytes;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // Remove the locks of names without a conversation. A lock that is in use belongs to a first turn.
        for path in self.files("locks", ".lock")? {
            if let Ok(name) = file_stem(&path).parse()
                && !self.path_of(&name).exists()
                && let Ok(Some(hold)) = FileLock::try_lock(&path)
            {
                self.let_go(&name, hold);
            }
        }
        failed.map_or(Ok(swept), Err)
    }

    /// Adds the files that the names reach. Stops at a known turn of version 1, because the turns before it are known, too.
    fn mark(&self, reached: &mut ReachedFiles) -> Result<(), ConversationError> {
        let nodes = self.nodes();
        for path in self.names()? {
            let told = |error| in_conversation(error, &path);
            match NameFile::read(&path)? {
                None => {}
                Some(NameFile::VersionOne(named)) => {
                    let (mut next, mut chain) = (named.place, Vec::new());
                    while let Some(ConversationPoint { node: id, .. }) = next
                        // The rest of this chain is already marked, so forks of one conversation are read once.
                        && !reached.nodes.contains(&id)
                    {
                        next = Node::read_parent(&nodes, &id).map_err(told)?;
                        chain.push(id);
                    }
                    // Add only a complete chain, because the second `mark` stops at a marked node.
                    reached.nodes.extend(chain);
                }
                Some(NameFile::Log(named)) => {
                    // A conversation reads the whole of its own log, and its sources up to the fork.
                    let (mut next, mut chain) = (Some((named.log, WHOLE_LOG)), HashSet::new());
                    while let Some((id, read)) = next
                        && chain.insert(id.clone())
                    {
                        let header =
                            ConversationLogReader::open(&ConversationLog::path_of(&self.logs(), &id))
                                .and_then(|mut log| log.header());
                        next = header.map_err(told)?.fork.map(|fork| (fork.log, fork.offset));
                        let known = reached.logs.entry(id).or_default();
                        // Several forks may read one log: the longest part counts.
                        *known = read.max(*known);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Removes a file, and returns its size in bytes.
fn remove(path: &Path) -> Result<u64, ConversationError> {
    let unusable = |error: io::Error| ConversationError::unusable(path, &error);
    let bytes = fs::symlink_metadata(path).map_err(unusable)?.len();
    fs::remove_file(path).map_err(unusable)?;
    Ok(bytes)
}

/// Removes everything after the first `read` bytes of a log. Returns the number of removed bytes.
fn truncate(path: &Path, read: u64) -> Result<u64, ConversationError> {
    if read == WHOLE_LOG {
        return Ok(0);
    }
    // Follows no link: a link to another program's file would shorten that file.
    let log = nexus_files::open_regular(path, fs::OpenOptions::new().write(true));
    let log = log.map_err(ConversationError::at(path))?;
    let length = log.metadata().map_err(ConversationError::at(path))?.len();
    if read >= length {
        return Ok(0);
    }
    log.set_len(read).and_then(|()| log.sync_all()).map_err(ConversationError::at(path))?;
    Ok(length - read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conversation::{ConversationMessage, ConversationTurn},
        name::ConversationName,
        not_carried::NotCarried,
    };

    fn name(text: &str) -> ConversationName {
        text.parse().unwrap()
    }

    fn log_of(home: &Path, stem: &str) -> PathBuf {
        let logs = fs::read_dir(home.join("conversations/logs")).unwrap();
        let mut logs = logs.map(|log| log.unwrap().path());
        logs.find(|log| log.file_name().unwrap().to_string_lossy().starts_with(&format!("{stem}."))).unwrap()
    }

    /// Two conversations, and a fork of the first one's first turn.
    fn with_a_fork() -> (tempfile::TempDir, Conversations) {
        let home = tempfile::tempdir().unwrap();
        let store = Conversations::in_home(home.path());
        let turn = ConversationTurn {
            ended_at_ms: 1,
            backend: None,
            model: None,
            failure: None,
            begins_afresh: false,
            messages: vec![ConversationMessage::Assistant { text: "words".to_owned(), complete: true }],
            not_stored: NotCarried::default(),
        };
        for called in ["trunk", "other"] {
            let mut held = store.hold(&name(called)).unwrap();
            held.add(turn.clone(), None).unwrap();
            held.add(turn.clone(), None).unwrap();
        }
        store.fork(&name("trunk"), &name("fork"), Some(1)).unwrap();
        store.delete(&name("trunk")).unwrap();
        (home, store)
    }

    #[test]
    fn a_log_that_another_sweep_removes_meanwhile_is_no_failure() {
        let (_home, store) = with_a_fork();
        let mut reached = ReachedFiles::default();
        store.mark(&mut reached).unwrap();
        store.delete(&name("fork")).unwrap();
        assert_eq!(store.sweep().unwrap().files, 2);
        assert_eq!(store.sweep_except(reached), Ok(ConversationSweep::default()));
        assert_eq!(store.load(&name("other")).unwrap().turns.len(), 2);
    }

    #[test]
    fn a_folder_in_the_place_of_a_log_keeps_nothing_else_on_the_disk() {
        let (home, store) = with_a_fork();
        let trunk = log_of(home.path(), "trunk");
        let before = fs::metadata(&trunk).unwrap().len();
        store.delete(&name("other")).unwrap();
        let other = log_of(home.path(), "other");
        let folder = trunk.with_file_name("x.0000000000000000.jsonl");
        fs::create_dir(&folder).unwrap();
        let error = store.sweep().unwrap_err();
        assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
        assert!(!other.exists() && fs::metadata(&trunk).unwrap().len() < before);
        fs::remove_dir(&folder).unwrap();
        assert_eq!(store.sweep(), Ok(ConversationSweep::default()));
        assert_eq!(store.load(&name("fork")).unwrap().turns.len(), 1);
    }

    #[test]
    fn a_link_is_not_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let (foreign, link) = (folder.path().join("foreign"), folder.path().join("link"));
        fs::write(&foreign, "words").unwrap();
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        let error = truncate(&link, 1).unwrap_err();
        assert!(error.to_string().contains(link.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&foreign).unwrap(), b"words");
        assert_eq!(truncate(&foreign, 1), Ok(4));
    }
}

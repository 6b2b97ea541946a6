//! Removes files that no conversation needs any more.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::PathBuf,
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
    /// Removes the logs of deleted conversations that no fork reads, and of the others the turns after the last one that a fork
    /// reads; turns of version 1 that no name reaches, and
    /// unfinished files of killed processes. Processes that add a turn wait meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of reading. If the beginning of one conversation cannot be read, nothing is removed, because the logs that it
    /// continues are unknown.
    pub fn sweep(&self) -> Result<ConversationSweep, ConversationError> {
        let mut swept = ConversationSweep::default();
        if !self.folder.exists() {
            return Ok(swept);
        }
        // Read most files before the lock is taken, because ending turns wait for it. A failure here occurs again below.
        let mut reached = ReachedFiles::default();
        let _ = self.mark(&mut reached);
        let _store = self.lock_store(STORE_PATIENCE)?;
        self.mark(&mut reached)?;
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
            let unusable = |error: io::Error| ConversationError::unusable(&path, &error);
            swept.bytes += fs::symlink_metadata(&path).map_err(unusable)?.len();
            fs::remove_file(&path).map_err(unusable)?;
            swept.files += 1;
        }
        // The later turns of a deleted conversation are deleted, too, although a fork reads the earlier ones.
        for (id, read) in reached.logs {
            let path = ConversationLog::path_of(&self.logs(), &id);
            let unusable = |error: io::Error| ConversationError::unusable(&path, &error);
            let length = fs::metadata(&path).map_err(unusable)?.len();
            if read < length {
                let log = fs::OpenOptions::new().write(true).open(&path).map_err(unusable)?;
                log.set_len(read).and_then(|()| log.sync_all()).map_err(unusable)?;
                swept.bytes += length - read;
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
        Ok(swept)
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
                        && !reached.nodes.contains(&id)
                    {
                        next = Node::read_parent(&nodes, &id).map_err(told)?;
                        chain.push(id);
                    }
                    reached.nodes.extend(chain);
                }
                Some(NameFile::Log(named)) => {
                    // A conversation reads the whole of its own log, and its sources up to the fork.
                    let (mut next, mut chain) = (Some((named.log, u64::MAX)), HashSet::new());
                    while let Some((id, read)) = next
                        && chain.insert(id.clone())
                    {
                        let header =
                            ConversationLogReader::open(&ConversationLog::path_of(&self.logs(), &id))
                                .and_then(|mut log| log.header());
                        next = header.map_err(told)?.fork.map(|fork| (fork.log, fork.offset));
                        let known = reached.logs.entry(id).or_default();
                        *known = read.max(*known);
                    }
                }
            }
        }
        Ok(())
    }
}

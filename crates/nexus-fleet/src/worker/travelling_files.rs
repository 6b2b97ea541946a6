//! Travelling files of a turn, at its worker: checked out into a private folder, and collected again after any end of the
//! turn.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nexus_core::{CancelToken, ErrorKind, ToolAccess, TurnRequest, harness::Failure};
use nexus_trees::{CommitIntent, Git, Tree, TreeError, TreeOptions};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    blocking::off_thread,
    bundle_file::{self, failure},
    error::FleetError,
    link::Link,
    objects::{self, FileToStore},
    private_folder::{PrivateFolder, path_within},
    protocol::{StoredObject, TravellingFiles},
};

/// Prefix of the names of workers' folders.
const PREFIX: &str = "w-";
/// Longest wait for a turn of the same conversation that still uses the folder.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that the servers have to store a change.
const STORE_TIME: Duration = Duration::from_secs(120);
/// Pause before a failed upload is repeated.
const STORE_AGAIN: Duration = Duration::from_secs(1);

/// Travelling files of a turn, at its worker.
#[derive(Debug)]
pub(super) struct WorkerFiles {
    tree: Tree,
    /// Git without the turn's cancel token: the changes of a cancelled turn are collected, too.
    git: Git,
    folder: PrivateFolder,
    link: Link,
    owner: String,
    may_write: bool,
}

/// Removes the files of a killed worker.
pub(super) async fn sweep(link: &Link) {
    let root = link.settings.workspaces();
    let swept = off_thread(CancelToken::new(), move |_| {
        PrivateFolder::sweep(&root, PREFIX, |_| {});
        Ok(())
    });
    if let Err(failure) = swept.await {
        tracing::warn!(message = failure.message, "files of earlier turns were not removed");
    }
}

impl WorkerFiles {
    /// Checks out the travelling files, and points `request` to them.
    ///
    /// # Errors
    ///
    /// Nothing was run. [`ErrorKind::InvalidRequest`]: the bundle cannot be read, contains files that trees reject, is too
    /// large, or lacks a folder of the request. [`ErrorKind::NotInstalled`]: git is missing here. [`ErrorKind::Overloaded`]:
    /// another turn of the conversation runs.
    pub(super) async fn lay_out(
        link: &Link,
        caller: &str,
        owner: &str,
        files: &TravellingFiles,
        request: &mut TurnRequest,
        cancel: &CancelToken,
    ) -> Result<Self, Failure> {
        if request.working_directory.is_some() || !request.extra_roots.is_empty() {
            let reason =
                "the files of the turn were sent, but it names folders of this machine: nothing was run";
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        let (root, name) = (link.settings.workspaces(), folder_name(caller, &files.place));
        let most = link.settings.max_workspace_bytes();
        let folder = off_thread(CancelToken::new(), move |_| {
            PrivateFolder::take(&root, &name, PATIENCE).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => Failure::new(
                    ErrorKind::Overloaded,
                    "another turn runs in the folder of this conversation",
                ),
                _ => Failure::new(
                    ErrorKind::NotInstalled,
                    format!("the worker cannot create a folder in {}: {error}", root.display()),
                ),
            })
        })
        .await?;
        let bundle = folder.path().join("base.bundle");
        let fetched = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Failure::cancelled()),
            fetched = objects::fetch_file(link, owner, &files.base, &bundle, most) => fetched,
        };
        fetched.map_err(|error| unfetched(&error))?;
        let (directory, roots) = (files.directory.clone(), files.roots.clone());
        let laid_out = off_thread(cancel.child(), move |cancel| {
            let git = Git::find().map_err(|error| failure("the files of the turn", &error))?;
            let tree = unpack(&git.clone().with_cancel(cancel), &folder, &bundle, most)?;
            let top = folder.path().join("files");
            let directory = place_in(&top, &directory)?;
            let roots = roots.iter().map(|root| place_in(&top, root)).collect::<Result<Vec<_>, _>>()?;
            Ok((tree, git, folder, directory, roots))
        });
        let (tree, git, folder, directory, roots) = laid_out.await?;
        let may_write = request.tool_access >= ToolAccess::WorkspaceWrite;
        request.working_directory = Some(directory);
        request.extra_roots = roots;
        Ok(Self { tree, git, folder, link: link.clone(), owner: owner.to_owned(), may_write })
    }

    /// Stores the changes of the turn, and removes the files. `None`: nothing was changed, or the turn could not change
    /// files.
    ///
    /// # Errors
    ///
    /// The changes are lost. [`ErrorKind::InvalidRequest`]: the turn created files that trees reject, or too many bytes.
    /// [`ErrorKind::Transport`]: the servers did not store the changes.
    pub(super) async fn take_back(self) -> Result<Option<StoredObject>, Failure> {
        let (link, owner) = (self.link.clone(), self.owner.clone());
        let most = link.settings.max_workspace_bytes();
        let taken = off_thread(CancelToken::new(), move |_| {
            let change = if self.may_write { self.change(most)? } else { None };
            Ok((self, change))
        });
        let (files, change) = taken.await?;
        let stored = match change {
            Some(change) => store(&link, &owner, &change).await.map(Some),
            None => Ok(None),
        };
        off_thread(CancelToken::new(), move |_| {
            drop(files);
            Ok(())
        })
        .await?;
        stored
    }

    fn change(&self, most: u64) -> Result<Option<FileToStore>, Failure> {
        let what = "the changes of the turn, which are lost";
        let tree = self.tree.clone().with_git(&self.git);
        let base = &tree.base().commit;
        let made = || -> Result<_, TreeError> {
            let snapshot = tree.snapshot(self.folder.path().join("files"))?;
            if snapshot == tree.tree_of(base)? {
                return Ok(None);
            }
            let intent = CommitIntent::new(snapshot, base.clone(), SystemTime::now(), "Changes of a turn");
            tree.commit(&intent).map(Some)
        };
        let Some(commit) = made().map_err(|error| failure(what, &error))? else { return Ok(None) };
        let path = self.folder.path().join("change.bundle");
        bundle_file::write(&path, most, what, |to| tree.bundle(base, &commit, to)).map(Some)
    }
}

fn unpack(git: &Git, folder: &PrivateFolder, bundle: &Path, most: u64) -> Result<Tree, Failure> {
    let options = TreeOptions::new().with_limits(bundle_file::limits(most));
    let mut file = File::open(bundle)
        .map(BufReader::new)
        .map_err(|error| Failure::new(ErrorKind::InvalidRequest, format!("{}: {error}", bundle.display())))?;
    let laid_out = Tree::create_from_bundle(git, folder.path(), &mut file, &options).and_then(|tree| {
        tree.check_out(&tree.base().commit, folder.path().join("files"))?;
        Ok(tree)
    });
    let _ = fs::remove_file(bundle);
    laid_out.map_err(|error| failure("the files of the turn", &error))
}

async fn store(link: &Link, owner: &str, change: &FileToStore) -> Result<StoredObject, Failure> {
    let until = Instant::now() + STORE_TIME;
    loop {
        match objects::store_file(link, owner, change).await {
            Ok(stored) => return Ok(stored),
            Err(error) if Instant::now() >= until => {
                let reason = format!("the changes of the turn could not be stored, and are lost: {error}");
                return Err(Failure::new(ErrorKind::Transport, reason));
            }
            Err(error) => {
                tracing::warn!(%error, owner, "the changes of a turn could not be stored; the worker tries \
                    again");
                tokio::time::sleep(STORE_AGAIN).await;
            }
        }
    }
}

/// Returns the name of the folder of a conversation, or of a turn without one. No caller can name another caller's folder.
fn folder_name(caller: &str, place: &str) -> String {
    let name = nexus_files::hex(Sha256::digest(format!("{caller}.{place}")));
    format!("{PREFIX}{}", &name[..32])
}

fn unfetched(error: &FleetError) -> Failure {
    let kind = match error {
        FleetError::Nats(nats) if nats.is_unreachable() => ErrorKind::Transport,
        _ => ErrorKind::InvalidRequest,
    };
    let more = match error {
        FleetError::TooLarge { .. } => "; `fleet.max_workspace_bytes` of the worker sets the limit",
        _ => "",
    };
    Failure::new(kind, format!("the files of the turn cannot be used, and nothing was run: {error}{more}"))
}

/// Returns a folder of the files, and creates it if nothing is there, because git stores no empty folders. No link leads out
/// of the files.
fn place_in(top: &Path, text: &str) -> Result<PathBuf, Failure> {
    let refused = |why: String| {
        Failure::new(
            ErrorKind::InvalidRequest,
            format!("the folder {text:?} of the turn {why}; nothing was run"),
        )
    };
    let below = path_within(text).ok_or_else(|| refused("leads out of the files of the turn".to_owned()))?;
    let mut place = top.to_owned();
    for part in below {
        place.push(part);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => {}
            // The caller resolves all links before it names the folder, so a link is an error.
            Ok(_) => return Err(refused("is a file or a link in the files of the turn".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(&place).map_err(|error| refused(format!("cannot be made: {error}")))?;
            }
            Err(error) => return Err(refused(format!("cannot be opened: {error}"))),
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_files_is_made_and_none_is_reached_through_a_link() {
        let top = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", top.path().join("link")).unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        assert_eq!(place_in(top.path(), "").unwrap(), top.path());
        assert_eq!(place_in(top.path(), "new/deep").unwrap(), top.path().join("new/deep"));
        assert!(top.path().join("new/deep").is_dir());
        for outside in ["link", "link/etc", "file", "file/x", "..", "/etc", ".git"] {
            let refused = place_in(top.path(), outside).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::InvalidRequest, "{outside}");
        }
    }

    #[test]
    fn callers_that_name_the_same_place_have_folders_of_their_own() {
        assert_eq!(folder_name("alice", "p"), folder_name("alice", "p"));
        assert_ne!(folder_name("alice", "p"), folder_name("bob", "p"));
        assert!(
            folder_name("alice", "../../x").bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        );
    }
}

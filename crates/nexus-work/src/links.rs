//! Links between workspaces below one folder: both sides name each other, or neither does.
//!
//! Two files cannot be replaced at once. So the first side records the intention (`pending_link_ids`), then the other side
//! names the first, and from then on the link is valid. If the writer dies, opening either workspace completes the link or
//! forgets it. Each step owns the locks of both, which are always taken in the order of the ids.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    WorkspaceError, WorkspaceErrorKind, WorkspaceId, WorkspaceStatus, lock::Lock, settings::Settings,
    state::AnyState, status_file,
};
use nexus_files::rfc3339;

/// Links of the workspaces below one folder, of all owners.
#[derive(Clone, Copy)]
pub(super) struct Links<'a> {
    root: &'a Path,
    settings: &'a Settings,
}

impl<'a> Links<'a> {
    pub(super) fn below(root: &'a Path, settings: &'a Settings) -> Self {
        Self { root, settings }
    }

    /// Returns the status of a workspace of any owner.
    pub(super) fn status(&self, id: &WorkspaceId) -> Result<WorkspaceStatus<AnyState>, WorkspaceError> {
        status_file::read_of(id, &self.folder(id), None)
    }

    /// Links two workspaces: each names the other.
    pub(super) fn link(&self, id: &WorkspaceId, other: &WorkspaceId) -> Result<(), WorkspaceError> {
        if other == id {
            let reason = "cannot be linked to itself";
            return Err(WorkspaceError::new(WorkspaceErrorKind::Unwritable, &self.folder(id), reason));
        }
        // Read both first, so that a folder that is not a workspace gets no lock file.
        self.status(id).and_then(|_| self.status(other))?;
        let _locks = self.lock([id, other], self.settings.patience)?;
        let (mut one, mut two) = (self.status(id)?, self.status(other)?);
        let (one_before, two_before) = (one.clone(), two.clone());
        if !one.names(other) {
            // Store the intent first: after a crash the next opening sees it, and completes or removes the link.
            one.pending_link_ids.insert(other.clone());
            self.write(&mut one)?;
        }
        let ended = self.name(&mut two, id).and_then(|()| self.name(&mut one, other));
        if ended.is_err() {
            // If this fails too, the next opening of one of them completes or removes the link.
            let _ = self.restore(two_before, &two).and_then(|()| self.restore(one_before, &one));
        }
        ended
    }

    /// Adds links of others to a new workspace, moves it to its final path, and removes the links if that
    /// fails. A killed process leaves links to a missing workspace, which are removed when the others are
    /// opened.
    pub(super) fn introduce(
        &self,
        id: &WorkspaceId,
        others: &BTreeSet<WorkspaceId>,
        put_in_place: impl FnOnce() -> Result<(), WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let _locks = self.lock(others, self.settings.patience)?;
        let mut named = BTreeMap::new();
        let name = |other| {
            let mut status = self.status(other)?;
            let before = status.clone();
            let ended = self.name(&mut status, id);
            named.insert(other, (before, status));
            ended
        };
        let ended = others.iter().try_for_each(name).and_then(|()| put_in_place());
        if ended.is_err() {
            for (before, after) in named.into_values() {
                // If this fails too, the link is removed when the other workspace is opened.
                let _ = self.restore(before, &after);
            }
        }
        ended
    }

    /// Completes unfinished links of dead writers, and removes links to missing workspaces. It does as much as possible now:
    /// locked and unwritable workspaces wait for the next time.
    pub(super) fn mend<S>(&self, id: &WorkspaceId, status: &WorkspaceStatus<S>) {
        let named = status.linked_workspace_ids.union(&status.pending_link_ids);
        if { named.clone() }.any(|other| self.is_gone(other)) {
            // A failed repair must not fail the opening; the next opening tries again.
            let _ = self.forget_gone(id);
        }
        for other in named.chain(&status.parent).filter(|other| *other != id) {
            // Read without the lock first, because there is almost never anything to do.
            let is_settled = match self.status(other) {
                Ok(found) => {
                    found.names(id) && status.names(other) && !status.pending_link_ids.contains(other)
                }
                // A workspace that cannot be read cannot be repaired from here.
                Err(_) => true,
            };
            if !is_settled {
                let _ = self.settle(id, other);
            }
        }
    }

    fn forget_gone(&self, id: &WorkspaceId) -> Result<(), WorkspaceError> {
        let _lock = self.lock([id], Duration::ZERO)?;
        let mut status = self.status(id)?;
        let before = status.clone();
        status.linked_workspace_ids.retain(|other| !self.is_gone(other));
        status.pending_link_ids.retain(|other| !self.is_gone(other));
        if status == before { Ok(()) } else { self.write(&mut status) }
    }

    fn settle(&self, id: &WorkspaceId, other: &WorkspaceId) -> Result<(), WorkspaceError> {
        let _locks = self.lock([id, other], Duration::ZERO)?;
        let (mut one, mut two) = (self.status(id)?, self.status(other)?);
        // If one side names the other, the link is valid, so add the other side. A pending link alone is not valid.
        if one.names(other) {
            self.name(&mut two, id)?;
        }
        if two.names(id) {
            self.name(&mut one, other)?;
        }
        if one.pending_link_ids.remove(other) { self.write(&mut one) } else { Ok(()) }
    }

    /// Adds another workspace to the links of this one, if it is missing. The caller must own the lock.
    fn name(
        &self,
        status: &mut WorkspaceStatus<AnyState>,
        other: &WorkspaceId,
    ) -> Result<(), WorkspaceError> {
        if status.names(other) {
            return Ok(());
        }
        status.linked_workspace_ids.insert(other.clone());
        status.pending_link_ids.remove(other);
        self.write(status)
    }

    /// Restores the earlier links of a workspace, if they were changed.
    fn restore(
        &self,
        mut before: WorkspaceStatus<AnyState>,
        after: &WorkspaceStatus<AnyState>,
    ) -> Result<(), WorkspaceError> {
        if before == *after {
            return Ok(());
        }
        // The generation never goes back.
        before.generation = after.generation;
        self.write(&mut before)
    }

    fn write(&self, status: &mut WorkspaceStatus<AnyState>) -> Result<(), WorkspaceError> {
        status.generation = status.generation.saturating_add(1);
        // The file stores microseconds, so a finer time would differ after it is read back.
        status.updated_at = rfc3339::cut_to_micros(self.settings.clock.now());
        status_file::write(&self.folder(&status.id), status)?;
        self.settings.record(&status.kind, &status.id, "changed");
        Ok(())
    }

    /// Locks several workspaces. Every process locks in the order of the ids, so that no deadlock occurs.
    fn lock<'b>(
        &self,
        ids: impl IntoIterator<Item = &'b WorkspaceId>,
        patience: Duration,
    ) -> Result<Vec<Lock>, WorkspaceError> {
        // Lock in the order of the ids, so that two processes never wait for each other.
        let ids: BTreeSet<&WorkspaceId> = ids.into_iter().collect();
        ids.into_iter().map(|id| Lock::take(&self.folder(id), patience)).collect()
    }

    /// Returns true if nothing exists under this id.
    fn is_gone(&self, id: &WorkspaceId) -> bool {
        matches!(fs::symlink_metadata(self.folder(id)), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    fn folder(&self, id: &WorkspaceId) -> PathBuf {
        self.root.join(id.as_str())
    }
}

impl<S> WorkspaceStatus<S> {
    /// Returns true if a workspace names another one as its parent or as a linked one.
    fn names(&self, other: &WorkspaceId) -> bool {
        self.parent.as_ref() == Some(other) || self.linked_workspace_ids.contains(other)
    }
}

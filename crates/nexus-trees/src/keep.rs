//! Stores commits in a person's repository outside of its branches.

use super::{CommitId, Tree, TreeError, TreeErrorKind, commit::ref_name, person};

/// Prefix of the refs that retain bases.
const OF_BASES: &str = "refs/nexus/base";

impl Tree {
    /// Stores commits in the person's repository under the ref `refs/nexus/NAME`, and returns its full name:
    /// for commits that cannot be landed, or not yet. Changes no branch and no file; git's garbage collection
    /// does not remove the commits. The person applies them by `git cherry-pick` or `git merge` of that name,
    /// and removes the ref by `git update-ref -d`.
    ///
    /// Changes nothing if the name already has this commit.
    ///
    /// # Errors
    ///
    /// [`Unrelated`](TreeErrorKind::Unrelated) if `tip` does not descend from the base;
    /// [`Refused`](TreeErrorKind::Refused) as [`Tree::commit`]; [`NotFound`](TreeErrorKind::NotFound) without a
    /// repository; [`RefMoved`](TreeErrorKind::RefMoved) if the name has another commit;
    /// [`Malformed`](TreeErrorKind::Malformed) if the name is malformed, or belongs to a base.
    pub fn keep(&self, name: &str, tip: &CommitId) -> Result<String, TreeError> {
        let name = ref_name(name)?;
        if name.strip_prefix(OF_BASES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            let message = format!("{name:?} is reserved for bases: choose another name");
            return Err(TreeError::new(TreeErrorKind::Malformed, message));
        }
        self.descends_from_base(tip)?;
        self.check(&self.repo.tree_of(tip)?)?;
        let Some((_, person)) = self.person() else {
            let message = "the project has no repository here that could store the commit";
            return Err(TreeError::new(TreeErrorKind::NotFound, message));
        };
        let git = self.repo.git();
        let _lock = self.lock()?;
        let head = self.base().head.as_ref();
        if head != Some(tip) {
            self.give_objects(person, head, tip)?;
        }
        let quiet = ["core.logAllRefUpdates=false".to_owned()];
        let moved = person::move_ref(git, person, &name, Some(tip), None, &quiet);
        // Read the ref even after a failure: git may have been killed after it moved the ref.
        match (moved, person.read_ref(git, &name)?) {
            (_, Some(found)) if found == *tip => Ok(name),
            (_, Some(found)) => {
                let message = format!("{name} already points to {found}: choose another name");
                Err(TreeError::new(TreeErrorKind::RefMoved, message))
            }
            (Ok(Err(words)), None) => {
                Err(TreeError::new(TreeErrorKind::Git, format!("{name} cannot be created: {words}")))
            }
            (Err(error), None) => Err(error),
            (Ok(Ok(())), None) => Err(super::text::unexpected("git reported success, but created no ref")),
        }
    }
}

//! Present state of a person's checkout.

use std::path::PathBuf;

use super::{
    CommitId, Tree, TreeError,
    project::Head,
    refusal::to_path,
    repo::GitEntries,
    uncommitted::{Checkout, Uncommitted},
};

/// State of a project's checkout at one moment.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutStatus {
    /// The commit that is checked out; `None` in a repository without commits.
    pub head: Option<CommitId>,
    /// The branch that is checked out, as `refs/heads/main`; `None` for a detached head.
    pub branch: Option<String>,
    /// Uncommitted files, in order, including changed files under a filter and repositories in the checkout.
    pub uncommitted: Vec<PathBuf>,
}

impl Tree {
    /// Returns the present state of the person's checkout. `None`: the project has no checkout, like a plain
    /// folder.
    ///
    /// # Errors
    ///
    /// Errors of git and of the operating system.
    pub fn checkout_status(&self) -> Result<Option<CheckoutStatus>, TreeError> {
        let Some((project, person)) = self.person() else { return Ok(None) };
        let Some(folder) = project.checkout() else { return Ok(None) };
        let Head { commit, branch } = person.head(self.repo.git())?;
        let before = match &commit {
            Some(commit) => commit.to_string(),
            None => self.repo.write_tree(&GitEntries::new())?.to_string(),
        };
        let checkout = Checkout::open(&self.repo, person, folder, &before, &[])?;
        let Uncommitted { mut paths, left_out } = checkout.uncommitted(&before)?;
        paths.extend(left_out);
        let uncommitted = paths.iter().map(|path| to_path(path)).collect();
        Ok(Some(CheckoutStatus { head: commit, branch, uncommitted }))
    }
}

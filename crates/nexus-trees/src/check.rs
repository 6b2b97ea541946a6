//! Checks for files that a commit rejects.

use std::{collections::BTreeSet, os::unix::ffi::OsStrExt as _, path::Path};

use super::{
    CommitId, Refusal, Tree, TreeError, TreeErrorKind, TreeId,
    link_target::{self, LinkTargets},
    names,
    refusal::RefusedPath,
    repo::{self, GITLINK, GitEntries, LINK, Repo},
};

/// Maximum length of a link's target, in bytes.
const MAX_TARGET: u64 = 64 << 10;
/// Maximum size of an attribute file that git reads, in bytes. Source: git, `ATTR_MAX_FILE_SIZE`.
const MOST_ATTRIBUTES: u64 = 100 << 20;
/// Text of an attribute file that names a filter. It also occurs in definitions of macros, which have other names.
const FILTER: &[u8] = b"filter";

impl Tree {
    /// Rejects additions to the base that a tree must not have: bad names, links, submodules and filtered files.
    pub(super) fn check(&self, tree: &TreeId) -> Result<(), TreeError> {
        self.check_since(&self.base().commit, tree)
    }

    /// Like [`check`](Self::check), for the files that a tree adds to a commit.
    pub(super) fn check_since(&self, commit: &CommitId, tree: &TreeId) -> Result<(), TreeError> {
        let base_commit = commit.as_str();
        let differences = self.repo.differences(base_commit, tree.as_str())?;
        if differences.is_empty() {
            return Ok(());
        }
        let mut refused = BTreeSet::new();
        for difference in &differences {
            let is_submodule =
                |entry: &Option<repo::GitEntry>| entry.as_ref().is_some_and(|entry| entry.mode == GITLINK);
            if is_submodule(&difference.old) || is_submodule(&difference.new) {
                refused.insert(RefusedPath::new(&difference.path, Refusal::Submodule));
            }
            if difference.old.is_none() {
                refused.extend(names::refuse_name(&difference.path));
            }
        }
        let (base, new) = (self.repo.entries(base_commit)?, self.repo.entries(tree.as_str())?);
        let paths = |entries: &GitEntries| entries.keys().cloned().collect::<Vec<_>>();
        let (old_paths, new_paths) = (paths(&base), paths(&new));
        refused
            .extend(names::twins(old_paths.iter().map(Vec::as_slice), new_paths.iter().map(Vec::as_slice)));
        let changed = differences.iter().map(|difference| difference.path.as_slice());
        let filtered = filtered(&self.repo, &base, changed)?;
        refused.extend(filtered.iter().map(|path| RefusedPath::new(path, Refusal::Filtered)));
        let (old_links, new_links) = (links(&self.repo, &base)?, links(&self.repo, &new)?);
        for (path, target) in &new_links {
            // A link that already led out in the base belongs to the person, so accept it.
            let was_out = old_links.get(path) == Some(target) && link_target::leads_out(&old_links, path);
            if !was_out && link_target::leads_out(&new_links, path) {
                refused.insert(RefusedPath::new(path, Refusal::LinkOut));
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        let message = "what cannot be committed";
        Err(TreeError::with_paths(TreeErrorKind::Refused, message, refused.into_iter().collect()))
    }
}

impl Tree {
    /// Returns the reason why a commit would refuse a file at `path` with any content: its name, a submodule of
    /// the base above it, or a filter of the base for that name. `path` begins at the top of the tree.
    ///
    /// # Errors
    ///
    /// Errors of git.
    pub fn refusal_of(&self, path: &Path) -> Result<Option<Refusal>, TreeError> {
        let base = self.base();
        if base.submodules.iter().any(|submodule| path.starts_with(submodule)) {
            return Ok(Some(Refusal::Submodule));
        }
        if path.iter().count() > self.limits.depth + 1 {
            return Ok(Some(Refusal::TooDeep));
        }
        let refused = names::refuse_name(path.as_os_str().as_bytes());
        if refused.is_none() && !base.has_filters {
            return Ok(None);
        }
        let entries = self.repo.entries(base.commit.as_str())?;
        if let Some(refused) = refused.filter(|_| !entries.contains_key(path.as_os_str().as_bytes())) {
            return Ok(Some(refused.refusal()));
        }
        let filtered = filtered(&self.repo, &entries, [path.as_os_str().as_bytes()].into_iter())?;
        Ok((!filtered.is_empty()).then_some(Refusal::Filtered))
    }
}

/// Returns true if an attribute file of the base mentions filters.
pub(super) fn has_filters(repo: &Repo, base: &GitEntries) -> Result<bool, TreeError> {
    let is_file = |entry: &repo::GitEntry| entry.mode != GITLINK && entry.mode != LINK;
    let attributes = base.iter().filter(|(path, entry)| is_attributes(path) && is_file(entry));
    let ids: Vec<&str> = attributes.map(|(_, entry)| entry.id.as_str()).collect();
    if ids.is_empty() {
        return Ok(false);
    }
    let mut has_filters = false;
    let read = repo.reader()?.blobs(&ids, MOST_ATTRIBUTES, |_, text| {
        has_filters |= text.windows(FILTER.len()).any(|window| window == FILTER);
        Ok(())
    });
    match read {
        // Git ignores an attribute file of that size, and each path is checked again.
        Err(error) if error.kind() == TreeErrorKind::TooLarge => Ok(true),
        read => read.map(|()| has_filters),
    }
}

fn is_attributes(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes")
}

/// Returns the paths for which the attributes of the base name a filter.
pub(super) fn filtered<'a>(
    repo: &Repo,
    base: &GitEntries,
    paths: impl Iterator<Item = &'a [u8]>,
) -> Result<BTreeSet<Vec<u8>>, TreeError> {
    let mut attributes = base.clone();
    attributes.retain(|path, _| is_attributes(path));
    if attributes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let scratch = repo.scratch()?;
    let index = scratch.join("index");
    let mut input = Vec::new();
    for (path, entry) in &attributes {
        input.extend_from_slice(format!("{:o} {}\t", entry.mode, entry.id).as_bytes());
        input.extend_from_slice(path);
        input.push(0);
    }
    repo.command("update-index").args(["-z", "--index-info"]).index(&index).run(&input)?;
    let command = repo.command("check-attr").index(&index).args(["--cached", "-z", "--stdin", "filter"]);
    Ok(with_filter(&command.run(&repo::joined(paths))?))
}

/// Returns the paths that the output of `check-attr -z filter` lists with a filter.
pub(super) fn with_filter(output: &[u8]) -> BTreeSet<Vec<u8>> {
    let parts: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
    let with_filter = parts.chunks_exact(3).filter(|chunk| !matches!(chunk[2], b"unspecified" | b"unset"));
    with_filter.map(|chunk| chunk[0].to_vec()).collect()
}

fn links(repo: &Repo, entries: &GitEntries) -> Result<LinkTargets, TreeError> {
    let links: Vec<_> = entries.iter().filter(|(_, entry)| entry.mode == LINK).collect();
    if links.is_empty() {
        return Ok(LinkTargets::new());
    }
    let ids: Vec<&str> = links.iter().map(|(_, entry)| entry.id.as_str()).collect();
    let mut targets = LinkTargets::new();
    repo.reader()?.blobs(&ids, MAX_TARGET, |at, target| {
        targets.insert(links[at].0.clone(), target);
        Ok(())
    })?;
    Ok(targets)
}

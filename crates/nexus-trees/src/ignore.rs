//! The ignore rules of a base, which apply even if an agent changes a `.gitignore`.
//!
//! A separate folder contains only the `.gitignore` files of the base, and git matches paths against them there.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{
    TreeError,
    refusal::to_path,
    repo::{self, GitEntries, Repo},
};

const NAME: &[u8] = b".gitignore";
/// Maximum size of an ignore file, in bytes. A larger one has no effect, as in git.
const MAX_BYTES: u64 = 100 << 20;

/// The ignore rules of a base.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    folder: PathBuf,
}

impl IgnoreRules {
    /// Opens rules that were written to a folder.
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes the rules of the base to a folder.
    pub(super) fn write(folder: PathBuf, repo: &Repo, base: &GitEntries) -> Result<Self, TreeError> {
        let rules = Self { folder };
        rules.make_folder(&rules.folder)?;
        // A `.gitignore` that is a link has no effect, as in git.
        let is_file = |entry: &repo::GitEntry| matches!(entry.mode, repo::FILE | repo::EXECUTABLE);
        let found = base.iter().filter(|(path, entry)| is_rules(path) && is_file(entry));
        let (paths, ids): (Vec<_>, Vec<&str>) = found.map(|(path, entry)| (path, entry.id.as_str())).unzip();
        repo.reader()?.blobs(&ids, MAX_BYTES, |at, content| rules.add(paths[at], &content))?;
        Ok(rules)
    }

    /// Adds the rules of one file.
    pub(super) fn add(&self, path: &[u8], content: &[u8]) -> Result<(), TreeError> {
        let path = self.folder.join(to_path(path));
        self.make_folder(path.parent().unwrap_or(&self.folder))?;
        fs::write(&path, content).map_err(|error| TreeError::from_io(&path, "cannot be written", error))
    }

    fn make_folder(&self, folder: &Path) -> Result<(), TreeError> {
        fs::create_dir_all(folder).map_err(|error| TreeError::from_io(folder, "cannot be made", error))
    }

    /// Returns the ignored paths among `paths`, none of which is in the base.
    pub(super) fn ignored(
        &self,
        repo: &Repo,
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<BTreeSet<Vec<u8>>, TreeError> {
        if paths.is_empty() {
            return Ok(BTreeSet::new());
        }
        // Prefix `./`, because git would read a leading colon as a pattern.
        let input: Vec<u8> = paths.iter().flat_map(|path| [b"./", path.as_slice(), b"\0"].concat()).collect();
        let command =
            repo.command("check-ignore").work_tree(&self.folder).args(["--no-index", "-z", "--stdin"]);
        let (ended, output) = command.outcome(&input)?;
        // Exit code 1 means that no path is ignored.
        if ended.code() != Some(1) {
            ended.success()?;
        }
        Ok(repo::records(&output).filter_map(|path| path.strip_prefix(b"./")).map(<[u8]>::to_vec).collect())
    }
}

/// Returns true for the path of an ignore file.
pub(super) fn is_rules(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(NAME)
}

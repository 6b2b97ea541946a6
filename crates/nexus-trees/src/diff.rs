//! Complete differences between two trees: by ids, and as a patch.

use std::{
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use nexus_core::{FileChanges, harness::run_blocking};

use super::{
    CommitId, Tree, TreeError, TreeId,
    refusal::to_path,
    repo::{GITLINK, GitEntry, Repo},
};

/// One path that differs between two trees.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPath {
    /// The path, from the top.
    pub path: PathBuf,
    /// The earlier entry; `None` if the path is new.
    pub old: Option<TreeEntry>,
    /// The present entry; `None` if the path was removed.
    pub new: Option<TreeEntry>,
}

/// Entry at a path of a tree.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Mode as git has it: `0o100644` for a file, `0o100755` for an executable file, `0o120000` for a link,
    /// `0o160000` for a submodule.
    pub mode: u32,
    /// Object id of the content.
    pub id: String,
}

/// A patch for `git apply`, with every byte that differs. All files are treated as text, with any content and
/// attributes.
#[derive(Clone, PartialEq, Eq)]
pub struct Patch(Vec<u8>);

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Patch({} bytes)", self.0.len())
    }
}

impl Tree {
    /// Returns the paths of the files and links of a commit or tree, in order. Leaves out submodules.
    ///
    /// # Errors
    ///
    /// As [`Tree::changes`].
    pub fn paths<'a>(&self, of: impl Into<Treeish<'a>>) -> Result<Vec<PathBuf>, TreeError> {
        let entries = self.repo.entries(of.into().0)?;
        Ok(entries.iter().filter(|(_, entry)| entry.mode != GITLINK).map(|(path, _)| to_path(path)).collect())
    }

    /// Returns the contents of files of a commit or tree, each of at most `most_bytes`. For a link, the content is its
    /// target. `None` for a path without a file.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::changes`]; [`TooLarge`](super::TreeErrorKind::TooLarge) for a larger file.
    pub fn contents<'a>(
        &self,
        of: impl Into<Treeish<'a>>,
        paths: &[impl AsRef<Path>],
        most_bytes: u64,
    ) -> Result<Vec<Option<Vec<u8>>>, TreeError> {
        let entries = self.repo.entries(of.into().0)?;
        let found = |path: &dyn AsRef<Path>| {
            let entry = entries.get(path.as_ref().as_os_str().as_bytes())?;
            (entry.mode != GITLINK).then(|| entry.id.clone())
        };
        let ids: Vec<Option<String>> = paths.iter().map(|path| found(path)).collect();
        let wanted: Vec<(usize, &String)> =
            ids.iter().enumerate().filter_map(|(at, id)| Some((at, id.as_ref()?))).collect();
        let mut contents = vec![None; paths.len()];
        if wanted.is_empty() {
            return Ok(contents);
        }
        let only_ids: Vec<&str> = wanted.iter().map(|(_, id)| id.as_str()).collect();
        self.repo.reader()?.blobs(&only_ids, most_bytes, |at, bytes| {
            if let Some((place, _)) = wanted.get(at) {
                contents[*place] = Some(bytes);
            }
            Ok(())
        })?;
        Ok(contents)
    }

    /// Returns the paths that differ between two commits, in order. A renamed file counts as removed and added.
    /// Only ids are compared, so nothing in a tree hides a change.
    ///
    /// # Errors
    ///
    /// [`NotFound`](super::TreeErrorKind::NotFound) if the commit or tree does not exist; errors of git.
    pub fn changes<'a>(
        &self,
        from: impl Into<Treeish<'a>>,
        to: impl Into<Treeish<'a>>,
    ) -> Result<Vec<ChangedPath>, TreeError> {
        let differences = self.repo.differences(from.into().0, to.into().0)?;
        let entry = |entry: GitEntry| TreeEntry { mode: entry.mode, id: entry.id };
        Ok(differences
            .into_iter()
            .map(|difference| ChangedPath {
                path: to_path(&difference.path),
                old: difference.old.map(entry),
                new: difference.new.map(entry),
            })
            .collect())
    }

    /// Returns the patch from one commit or tree to another. It uses no text conversion, no external program and no rename
    /// detection. Attributes of the tree and of the system have no influence.
    ///
    /// # Errors
    ///
    /// As [`Tree::changes`]; [`TooLarge`](super::TreeErrorKind::TooLarge): nothing is left out of a patch.
    pub fn patch<'a>(
        &self,
        from: impl Into<Treeish<'a>>,
        to: impl Into<Treeish<'a>>,
    ) -> Result<Patch, TreeError> {
        let (from, to) = (self.existing(from.into())?, self.existing(to.into())?);
        self.repo.patch(from, to, self.limits.patch_bytes)
    }

    /// Returns the id of an existing commit or tree.
    fn existing<'a>(&self, tree: Treeish<'a>) -> Result<&'a str, TreeError> {
        self.repo.root(tree.0).map(|_| tree.0)
    }
}

impl Repo {
    /// Returns the patch from one existing commit or tree to another.
    pub(super) fn patch(&self, from: &str, to: &str, max_bytes: u64) -> Result<Patch, TreeError> {
        let options = [
            "-r",
            "--patch",
            "--text",
            "--full-index",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-relative",
            "--no-indent-heuristic",
            "--diff-algorithm=myers",
            "--unified=3",
            "--inter-hunk-context=0",
            "--ignore-submodules=none",
            "--submodule=short",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "-O/dev/null",
            from,
            to,
        ];
        // Read the attributes from the empty tree: those of a commit could mark a file as binary.
        let command = self.command("diff-tree").args(options).env("GIT_ATTR_SOURCE", empty_tree(from));
        command.run_within(b"", max_bytes).map(Patch)
    }
}

/// Returns the id of the empty tree, in the format of another id. Git knows it without storing it.
fn empty_tree(like: &str) -> &'static str {
    match like.len() {
        40 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        _ => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }
}

/// Id of a tree, or of a commit that stands for its tree.
#[derive(Clone, Copy, Debug)]
pub struct Treeish<'a>(pub(super) &'a str);

impl<'a> From<&'a CommitId> for Treeish<'a> {
    fn from(id: &'a CommitId) -> Self {
        Self(id.as_str())
    }
}

impl<'a> From<&'a TreeId> for Treeish<'a> {
    fn from(id: &'a TreeId) -> Self {
        Self(id.as_str())
    }
}

impl Tree {
    /// Reports the changes in a folder since this call. It is for a backend that continues the work of another one in this
    /// folder: the host's part of the fallback rule `continue`. Does not report files that git ignores by the base's rules.
    ///
    /// This call blocks, like all others of a tree; the returned value does not. If the turn is cancelled during a
    /// comparison, the comparison ends a little later on its own thread.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::snapshot`].
    pub fn file_changes(&self, folder: impl Into<PathBuf>) -> Result<FileChanges, TreeError> {
        let (tree, folder) = (self.clone(), folder.into());
        let before = tree.snapshot(&folder)?;
        Ok(FileChanges::new(move || {
            let (tree, folder, before) = (tree.clone(), folder.clone(), before.clone());
            let look = move || {
                let now = tree.snapshot(&folder)?;
                Ok(tree.patch(&before, &now)?.text())
            };
            async {
                match run_blocking(look).await {
                    Ok(patch) => patch.map_err(|error: TreeError| error.to_string()),
                    Err(_) => Err("the scan of the files was interrupted".to_owned()),
                }
            }
        }))
    }
}

impl Patch {
    /// Returns the bytes of the patch.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the patch has no difference.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the patch as text for a person or a model. Invisible parts are shown as `<0x1B>` or `<U+202E>`: bytes that
    /// are not UTF-8, control characters, and characters that are invisible or change the direction of text. A file may
    /// contain such a text itself; [`as_bytes`](Self::as_bytes) distinguishes the two.
    pub fn text(&self) -> String {
        let chunks = self.0.utf8_chunks();
        let mut text = String::with_capacity(self.0.len());
        for chunk in chunks {
            for character in chunk.valid().chars() {
                match u32::from(character) {
                    0x0A | 0x09 => text.push(character),
                    code @ (0..0x20 | 0x7F..=0x9F) => text += &format!("<0x{code:02X}>"),
                    code @ (0xAD
                    | 0x34F
                    | 0x61C
                    | 0x115F..=0x1160
                    | 0x17B4..=0x17B5
                    | 0x180B..=0x180F
                    | 0x200B..=0x200F
                    | 0x2028..=0x202E
                    | 0x2060..=0x206F
                    | 0x3164
                    | 0xFE00..=0xFE0F
                    | 0xFEFF
                    | 0xFFA0
                    | 0xFFF0..=0xFFFB
                    | 0xE0000..=0xE0FFF) => text += &format!("<U+{code:04X}>"),
                    _ => text.push(character),
                }
            }
            for byte in chunk.invalid() {
                text += &format!("<0x{byte:02X}>");
            }
        }
        text
    }
}

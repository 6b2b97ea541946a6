//! Tools and paths of one participant.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Brief, Overlay, PathAccess, PathDenial, PathRule, ScopeError, ScopedFiles, ToolPattern, TurnOverride,
    WriteSlice, path_policy::PathPolicy, rule_set::RuleSet,
};

/// Scope of one participant: tools by name, paths for reading and for writing, and protected paths, which override the
/// others.
///
/// It is assembled only from a [`Brief`], the [`Overlay`] of a tier and phase, and a [`TurnOverride`]: a profile, the
/// environment and the working directory have no influence.
/// ```
/// use nexus_core::{ParticipantScope, PathAccess, scope::{Brief, Overlay, TurnOverride}};
///
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path().canonicalize()?;
/// # std::fs::create_dir_all(root.join("src/keys"))?;
/// let brief = Brief::new(&root)
///     .tool("read_*".parse()?)
///     .reading(".")
///     .do_not_touch("src/keys".parse()?)
///     .do_not_touch("**/.env".parse()?);
/// let implementing = Overlay::new().tool("write_file".parse()?).writing("src");
/// let this_turn = TurnOverride::new().with_write(["src/parser"]);
/// let scope = ParticipantScope::assemble(&brief, Some(&implementing), Some(&this_turn))?;
///
/// assert!(scope.allows_tool("read_file") && !scope.allows_tool("run_shell"));
/// let path = scope.check_path("src/parser/new.rs", PathAccess::Write)?;
/// assert_eq!(path, root.join("src/parser/new.rs"));
/// for path in ["src/lib.rs", "../elsewhere", "src/parser/../../out", "src/parser/.ENV"] {
///     assert!(scope.check_path(path, PathAccess::Write).is_err());
/// }
/// assert!(scope.check_path("src/keys/private", PathAccess::Read).is_err());
///
/// scope.files().write("src/parser/new.rs", "mod tests;")?;
/// assert_eq!(scope.files().read_to_string("src/parser/new.rs")?, "mod tests;");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ParticipantScope {
    tools: Vec<ToolPattern>,
    /// `None` means no restriction.
    policy: Option<Arc<PathPolicy>>,
}

impl ParticipantScope {
    /// Allows every tool on every path. Paths are passed to the tool unchecked. A host that offers tools without a
    /// session of its own gets this scope.
    pub fn unrestricted() -> Self {
        Self { tools: vec![ToolPattern::every()], policy: None }
    }

    /// Assembles a scope from a brief, the additions of the overlay, and the replacements of the turn.
    ///
    /// The root must exist. Other paths need not; a path below the root must not lead through a symbolic link.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] names the position of the fault, such as "write path 3 of the brief".
    pub fn assemble(
        brief: &Brief,
        overlay: Option<&Overlay>,
        turn: Option<&TurnOverride>,
    ) -> Result<Self, ScopeError> {
        let root = root_of(&brief.root)?;
        let added = overlay.cloned().unwrap_or_default();
        let turn = turn.cloned().unwrap_or_default();

        let tools = turn.tools.unwrap_or_else(|| [brief.tools.clone(), added.tools].concat());
        let grants =
            |kind: &str, whose: &str, paths: &[PathBuf]| grants(&brief.root, &root, kind, whose, paths);
        let paths = |kind: &str, brief: &[PathBuf], added: &[PathBuf], turn: Option<&Vec<PathBuf>>| match turn
        {
            Some(paths) => grants(kind, "the turn", paths),
            None => {
                let mut found = grants(kind, "the brief", brief)?;
                found.extend(grants(kind, "the overlay", added)?);
                Ok(found)
            }
        };
        let read = paths("read", &brief.read, &added.read, turn.read.as_ref())?;
        let write = paths("write", &brief.write, &added.write, turn.write.as_ref())?;
        let rules: Vec<PathRule> =
            [brief.do_not_touch.clone(), added.do_not_touch, turn.do_not_touch].concat();
        let rules = RuleSet::new(&root, &rules)?;
        let allow_hard_links_for_reading = brief.allow_hard_links_for_reading;
        let policy = PathPolicy { root, read, write, rules, allow_hard_links_for_reading };
        Ok(Self { tools, policy: Some(Arc::new(policy)) })
    }

    /// Returns true if the scope allows the tool of this name.
    pub fn allows_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns the folder that relative paths are relative to, with symbolic links resolved. `None` if unrestricted.
    pub fn root(&self) -> Option<&Path> {
        self.policy.as_ref().map(|policy| policy.root.as_path())
    }

    /// Returns the path to use for `path`, if the participant has this access: absolute, and with symbolic
    /// links resolved. A relative path is relative to the root.
    ///
    /// Writing a folder means creating, renaming or removing it as a whole: that is denied if it contains a
    /// protected path. Reading a folder means listing it: check every path inside again.
    ///
    /// The result may be outdated a moment later: opening the path by its name leaves a window in which another
    /// program can replace it by a link. [`ParticipantScope::files`] leaves no such window if the system allows
    /// that.
    ///
    /// # Errors
    ///
    /// [`PathDenial`] if the participant lacks this access, or if the target of the path cannot be determined.
    pub fn check_path(&self, path: &str, access: PathAccess) -> Result<PathBuf, PathDenial> {
        match &self.policy {
            Some(policy) => policy.check(path, access),
            None => Ok(PathBuf::from(path)),
        }
    }

    /// Returns the files in scope, for tools: each path is checked and opened in one step.
    pub fn files(&self) -> ScopedFiles {
        ScopedFiles::new(self.policy.clone())
    }

    /// Returns the same scope with its write paths replaced by these. A path that was readable only because it was
    /// writable is no longer readable.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] with the path that is protected or is outside of the scope's own write paths.
    pub fn with_write_slice<P: Into<PathBuf>>(
        &self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, ScopeError> {
        let policy = self.policy.as_deref().ok_or(ScopeError::Unrestricted)?;
        let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
        let write = policy.slice(&paths, None)?;
        Ok(Self { tools: self.tools.clone(), policy: Some(Arc::new(PathPolicy { write, ..policy.clone() })) })
    }

    /// Checks that each slice is inside of the scope's write paths, and that no two slices overlap. Names that some
    /// file system treats as equal count as equal. A folder that is mounted twice counts as one folder.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] with the path that is outside, or with the two slices and their common path.
    pub fn check_slices(&self, slices: &[WriteSlice]) -> Result<(), ScopeError> {
        self.policy.as_deref().ok_or(ScopeError::Unrestricted)?.check_slices(slices)
    }
}

/// Returns the real path of a brief's root.
fn root_of(root: &Path) -> Result<PathBuf, ScopeError> {
    let wrong = |problem: &str| ScopeError::Root { root: root.to_owned(), problem: problem.to_owned() };
    if !root.is_absolute() {
        return Err(wrong("is not absolute; relative paths are not supported here"));
    }
    // All later checks compare real paths, so resolve the links in the root now.
    let real = fs::canonicalize(root).map_err(|error| wrong(&format!("cannot be used: {error}")))?;
    if !real.is_dir() {
        return Err(wrong("is no folder"));
    }
    if real.parent().is_none() {
        return Err(wrong("is the root of the file system; name a folder"));
    }
    if real.to_str().is_none() {
        return Err(wrong("has a name that is not Unicode; rename it"));
    }
    Ok(real)
}

/// Resolves the paths of a brief to real paths. The root may have been written under another name than its real one.
fn grants(
    written_root: &Path,
    root: &Path,
    kind: &str,
    whose: &str,
    paths: &[PathBuf],
) -> Result<Vec<PathBuf>, ScopeError> {
    let numbered = paths.iter().enumerate();
    let real = numbered.map(|(index, path)| {
        let path = match path.strip_prefix(written_root) {
            Ok(below) => root.join(below),
            Err(_) => path.clone(),
        };
        PathPolicy::grant(root, &path, || format!("{kind} path {} of {whose}", index + 1))
    });
    real.collect()
}

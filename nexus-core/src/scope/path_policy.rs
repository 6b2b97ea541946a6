//! The paths of a scope: readable, writable and protected ones.

use std::path::{Path, PathBuf};

use super::{
    PathAccess, PathDenial, PathRule, ScopeError,
    file_id::FileId,
    path_identity::PathIdentity,
    path_key::is_dot_git,
    path_spelling::{shell_shorthand, spelling},
    path_walk::{PathKind, Walked, walk},
    rule_set::RuleSet,
};

/// Maximum number of entries that are searched for protected paths before a whole folder is written. Source: our own bound.
const MAX_SEARCHED: usize = 50_000;

/// Maximum number of paths that a denial lists.
const MAX_LISTED: usize = 10;

/// Longest path that a denial repeats, in characters.
const MAX_SHOWN: usize = 300;

/// Denial for an agent that tries to write into a repository.
const IN_REPOSITORY: &str = "a name in it is `.git`, or a file system may read it as `.git`, and Git cannot \
                             commit it: leave it unchanged, or choose another name";

/// The paths of a scope, all absolute and real.
#[derive(Clone, Debug)]
pub(super) struct PathPolicy {
    pub(super) root: PathBuf,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) rules: RuleSet,
    pub(super) allow_hard_links_for_reading: bool,
}

/// Present target of a protected path.
#[derive(Debug)]
struct Protected<'f> {
    rule: &'f PathRule,
    spot: PathIdentity,
    identity: Option<FileId>,
}

impl PathPolicy {
    /// Returns the real path of `asked`, if the scope grants this access.
    pub(super) fn check(&self, asked: &str, access: PathAccess) -> Result<PathBuf, PathDenial> {
        self.checked(asked, access).map(|walked| walked.path).map_err(|reason| denial(asked, access, reason))
    }

    fn checked(&self, asked: &str, access: PathAccess) -> Result<Walked, String> {
        spelling(asked)?;
        let walked = walk(&self.root.join(asked)).map_err(|astray| {
            let near = |grant: &&PathBuf| astray.at.starts_with(grant) || grant.starts_with(&astray.at);
            // The denial must not reveal paths outside of the scope.
            if self.grants(access).any(|grant| near(&grant)) { astray.problem } else { self.outside(access) }
        })?;
        self.judge(&walked, access)?;
        if (asked.ends_with('/') || asked.ends_with("/.")) && matches!(walked.kind, PathKind::File { .. }) {
            return Err("it ends like a folder, but it is a file".to_owned());
        }
        Ok(walked)
    }

    /// Checks the target of a path against grants and rules.
    pub(super) fn judge(&self, walked: &Walked, access: PathAccess) -> Result<(), String> {
        let is_granted = |access| self.grants(access).any(|grant| walked.path.starts_with(grant));
        // Writable paths are also readable.
        // Check this first: a path out of scope gets the same denial for every target, so it reveals nothing.
        if !is_granted(PathAccess::Read) {
            return Err(self.outside(access));
        }
        if walked.path.to_str().is_none() {
            return Err("its real name is not Unicode".to_owned());
        }
        // Folders above the final path are checked together with it.
        let beside = walked.passed.iter().filter(|passed| !walked.path.starts_with(passed));
        let touched = beside.chain([&walked.path]).find_map(|path| self.rules.rule_against(path));
        if let Some(rule) = touched {
            return Err(kept_off(rule));
        }
        let protected = self.protected();
        let spot = walked.path_identity();
        for place in &protected {
            // A mount can give a protected file a second path, so compare device and inode number too.
            let is_it = place.identity.is_some_and(|identity| walked.identities.contains(&identity));
            if is_it || spot.is_below(&place.spot) {
                return Err(kept_off(place.rule));
            }
        }
        if !is_granted(access) {
            return Err(format!("it is read-only; {}", self.places(access)));
        }
        if access == PathAccess::Write && self.is_in_repository(walked) {
            return Err(IN_REPOSITORY.to_owned());
        }
        self.judge_kind(walked.kind, access)?;
        if access == PathAccess::Write {
            if let Some(place) = protected.iter().find(|place| place.spot.is_below(&spot)) {
                return Err(holds_protected(place.rule));
            }
            // Rules with a plain path were compared above. A glob can match any name in the folder, so search
            // it.
            if walked.kind == PathKind::Folder && self.rules.has_globs() {
                self.search(&walked.path, &protected)?;
            }
        }
        Ok(())
    }

    /// Returns true if a name of the path, below the root or an outside grant, is `.git` or may be read as `.git`. A
    /// file written there, such as a hook, runs outside of every sandbox, and no commit includes it.
    fn is_in_repository(&self, walked: &Walked) -> bool {
        let tops = || std::iter::once(&self.root).chain(&self.write);
        // A link on the way may have the name too.
        let mut places = walked.passed.iter().chain([&walked.path]);
        places.any(|place| {
            // The host chose the names of the root and of the folders above it, so they do not count.
            let below = tops().find_map(|top| place.strip_prefix(top).ok());
            below.is_some_and(|below| below.iter().any(|name| is_dot_git(name.as_encoded_bytes())))
        })
    }

    /// Checks that a file of this kind may be used.
    pub(super) fn judge_kind(&self, kind: PathKind, access: PathAccess) -> Result<(), String> {
        match kind {
            PathKind::Missing | PathKind::Folder => Ok(()),
            PathKind::File { names }
                if names > 1 && !(self.allow_hard_links_for_reading && access == PathAccess::Read) =>
            {
                Err("it is a hard link, and other links to the file may be out of scope".to_owned())
            }
            PathKind::File { .. } => Ok(()),
            PathKind::Special => Err("it is neither a file nor a folder".to_owned()),
        }
    }

    /// Checks that an opened file, by its real path and identity, is not protected.
    pub(super) fn judge_opened(
        &self,
        path: &Path,
        identity: Option<FileId>,
        access: PathAccess,
    ) -> Result<(), String> {
        if !self.grants(access).any(|grant| path.starts_with(grant)) {
            return Err(self.outside(access));
        }
        if let Some(rule) = self.rules.rule_against(path) {
            return Err(kept_off(rule));
        }
        match self.protected().iter().find(|place| place.identity.is_some() && place.identity == identity) {
            Some(place) => Err(kept_off(place.rule)),
            None => Ok(()),
        }
    }

    /// Returns true if a folder or file may be created at `path`, which is real and above or beside a writable
    /// path.
    pub(super) fn may_make(&self, path: &Path) -> bool {
        self.judge_opened(path, None, PathAccess::Write).is_ok()
    }

    /// Returns the reason why a missing folder that is out of scope is not created.
    pub(super) fn not_made(&self, folder: &Path) -> String {
        let shown = folder.strip_prefix(&self.root).unwrap_or(folder);
        format!("the folder {shown:?} does not exist, and creating it is out of scope")
    }

    fn grants(&self, access: PathAccess) -> impl Iterator<Item = &PathBuf> {
        let read = (access == PathAccess::Read).then_some(&self.read).into_iter().flatten();
        self.write.iter().chain(read)
    }

    /// Returns the present positions of protected paths: each as written, and its target.
    fn protected(&self) -> Vec<Protected<'_>> {
        // Resolve the paths of the rules now, because links on them may have changed since the last check.
        let found = self.rules.paths().filter_map(|(rule, path)| {
            let walked = walk(path).ok()?;
            Some(Protected { rule, spot: walked.path_identity(), identity: walked.identity() })
        });
        let written = self.rules.paths();
        let written =
            written.map(|(rule, path)| Protected { rule, spot: PathIdentity::by_name(path), identity: None });
        found.chain(written).collect()
    }

    /// Searches a folder for protected paths.
    fn search(&self, folder: &Path, protected: &[Protected<'_>]) -> Result<(), String> {
        let (mut folders, mut seen) = (vec![folder.to_owned()], 0);
        while let Some(folder) = folders.pop() {
            let unseen = |_| "it cannot be searched completely for paths that must not be touched".to_owned();
            for entry in std::fs::read_dir(&folder).map_err(unseen)? {
                let entry = entry.map_err(unseen)?;
                seen += 1;
                if seen > MAX_SEARCHED {
                    return Err(
                        "it is too large to be searched for paths that must not be touched; name the \
                                paths in it to write"
                            .to_owned(),
                    );
                }
                let path = entry.path();
                if let Some(rule) = self.rules.rule_against(&path) {
                    return Err(holds_protected(rule));
                }
                // Get the metadata by name: for a mount point, the directory entry reports another inode number.
                let metadata = std::fs::symlink_metadata(&path).map_err(unseen)?;
                let identity = FileId::of(&metadata);
                let is_it = |place: &&Protected<'_>| identity.is_some() && place.identity == identity;
                if let Some(place) = protected.iter().find(is_it) {
                    return Err(holds_protected(place.rule));
                }
                if metadata.is_dir() {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }

    fn outside(&self, access: PathAccess) -> String {
        format!("it is out of scope; {}", self.places(access))
    }

    /// Returns the list of paths with this access, for a message.
    fn places(&self, access: PathAccess) -> String {
        let mut shown: Vec<String> = Vec::new();
        for grant in self.grants(access) {
            let inside = grant.strip_prefix(&self.root).unwrap_or(grant);
            let text = if inside.as_os_str().is_empty() { ".".into() } else { inside.to_string_lossy() };
            if !shown.contains(&format!("{text:?}")) {
                shown.push(format!("{text:?}"));
            }
        }
        let rest = shown.len().saturating_sub(MAX_LISTED);
        shown.truncate(MAX_LISTED);
        let verb = if access == PathAccess::Read { "read" } else { "write" };
        match (shown.is_empty(), rest) {
            (true, _) => format!("you may not {verb} any path"),
            (false, 0) => format!("you may {verb}: {}", shown.join(", ")),
            (false, rest) => format!("you may {verb}: {}, and {rest} more", shown.join(", ")),
        }
    }

    /// Returns a path for a scope as an absolute path.
    ///
    /// Below the root the path must not contain a symbolic link, because the link's creator would decide which path is
    /// granted.
    pub(super) fn grant(root: &Path, path: &Path, place: impl Fn() -> String) -> Result<PathBuf, ScopeError> {
        let wrong = |problem: &str| ScopeError::Path {
            place: place(),
            path: path.to_owned(),
            problem: problem.to_owned(),
        };
        let text = path.to_str().ok_or_else(|| wrong("is not Unicode; rename it"))?;
        spelling(text).map_err(|problem| wrong(&format!("cannot be used: {problem}")))?;
        if let Some(problem) = shell_shorthand(text) {
            return Err(wrong(&problem));
        }
        if path.components().any(|part| part == std::path::Component::ParentDir) {
            return Err(wrong("has `..` in it; write the path it leads to"));
        }
        let walked =
            walk(&root.join(path)).map_err(|astray| wrong(&format!("cannot be used: {}", astray.problem)))?;
        if walked.links.iter().any(|link| link.starts_with(root)) {
            return Err(wrong(&format!(
                "leads to {:?} through a symbolic link; write that path if you mean it",
                walked.path
            )));
        }
        if walked.path.to_str().is_none() {
            return Err(wrong("leads to a path that is not Unicode; rename it"));
        }
        Ok(walked.path)
    }
}

pub(super) fn denial(asked: &str, access: PathAccess, reason: String) -> PathDenial {
    PathDenial::new(asked.chars().take(MAX_SHOWN).collect::<String>(), access, reason)
}

fn kept_off(rule: &PathRule) -> String {
    format!("it must not be touched (rule {rule:?})", rule = rule.as_str())
}

fn holds_protected(rule: &PathRule) -> String {
    format!(
        "a path in it must not be touched (rule {rule:?}); name the paths in it to write",
        rule = rule.as_str()
    )
}

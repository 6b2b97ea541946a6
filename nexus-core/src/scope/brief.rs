//! Parts of a scope: plain data, written by the person or program that assigns the work.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{PathRule, ToolPattern};

/// Tools and paths of a participant. Nothing is added from a profile, the environment or the working directory.
///
/// A path is absolute or relative to the root. It includes everything below it, and need not exist yet. Folders above
/// it do not become part of the scope, and are not created for it. Paths are literal: glob characters and `\` are part
/// of a name (on Windows, `\` separates names). A path that begins with `~` or `$HOME` is rejected.
///
/// Writable paths are also readable. Protected paths are neither readable nor writable, whatever the other settings
/// are.
/// ```
/// use nexus_core::scope::Brief;
///
/// let brief = Brief::new("/srv/site")
///     .tool("read_*".parse()?)
///     .reading("docs")
///     .writing("docs/news")
///     .do_not_touch("**/.env".parse()?);
/// let written = serde_json::to_string(&brief)?;
/// assert_eq!(serde_json::from_str::<Brief>(&written)?, brief);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brief {
    /// Folder that relative paths are relative to. It must be absolute. The root itself grants no access.
    pub root: PathBuf,
    /// Allowed tools.
    #[serde(default)]
    pub tools: Vec<ToolPattern>,
    /// Readable paths.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Writable paths, which are also readable.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// Protected paths. They override all other fields.
    #[serde(default)]
    pub do_not_touch: Vec<PathRule>,
    /// Allows reading a file with more than one name: one of its names may be outside of the readable paths.
    /// Package managers that share files between projects create many such files. Writing to such a file is
    /// never allowed.
    #[serde(default)]
    pub allow_hard_links_for_reading: bool,
}

impl Brief {
    /// Creates a brief with this root, without tools and paths.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            tools: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            do_not_touch: Vec::new(),
            allow_hard_links_for_reading: false,
        }
    }

    /// Allows all tools that match `pattern`.
    #[must_use]
    pub fn tool(mut self, pattern: ToolPattern) -> Self {
        self.tools.push(pattern);
        self
    }

    /// Allows reading at `path` and below.
    #[must_use]
    pub fn reading(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Allows reading and writing at `path` and below.
    #[must_use]
    pub fn writing(mut self, path: impl Into<PathBuf>) -> Self {
        self.write.push(path.into());
        self
    }

    /// Protects the paths that `rule` matches.
    #[must_use]
    pub fn do_not_touch(mut self, rule: PathRule) -> Self {
        self.do_not_touch.push(rule);
        self
    }

    /// Allows reading files with more than one name.
    #[must_use]
    pub fn allow_hard_links_for_reading(mut self) -> Self {
        self.allow_hard_links_for_reading = true;
        self
    }
}

/// Additions to a brief for a tier and phase of the work. Only `do_not_touch` restricts the brief.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overlay {
    /// Additional tools.
    pub tools: Vec<ToolPattern>,
    /// Additional readable paths.
    pub read: Vec<PathBuf>,
    /// Additional writable paths, which are also readable.
    pub write: Vec<PathBuf>,
    /// Additional protected paths.
    pub do_not_touch: Vec<PathRule>,
}

impl Overlay {
    /// Creates an overlay without additions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the tools that `pattern` matches.
    #[must_use]
    pub fn tool(mut self, pattern: ToolPattern) -> Self {
        self.tools.push(pattern);
        self
    }

    /// Adds a readable path.
    #[must_use]
    pub fn reading(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Adds a writable path, which is also readable.
    #[must_use]
    pub fn writing(mut self, path: impl Into<PathBuf>) -> Self {
        self.write.push(path.into());
        self
    }

    /// Adds protected paths.
    #[must_use]
    pub fn do_not_touch(mut self, rule: PathRule) -> Self {
        self.do_not_touch.push(rule);
        self
    }
}

/// Replaces parts of the brief and the overlay in one turn. The replacements may grant more than brief and overlay do,
/// so the author of an override decides on the whole scope of the turn. To delegate a part of a scope, narrow it with
/// [`ParticipantScope::with_write_slice`](super::ParticipantScope::with_write_slice).
///
/// `None` leaves a list unchanged; an empty list empties it. Protected paths can only be added.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TurnOverride {
    /// Tools that replace the tools of the brief and the overlay, and that may be more.
    pub tools: Option<Vec<ToolPattern>>,
    /// Paths that replace the readable paths of the brief and the overlay, and that may be more.
    pub read: Option<Vec<PathBuf>>,
    /// Paths that replace the writable paths of the brief and the overlay, and that may be more. Writable paths are
    /// also readable.
    pub write: Option<Vec<PathBuf>>,
    /// Additional protected paths.
    pub do_not_touch: Vec<PathRule>,
}

impl TurnOverride {
    /// Creates an override without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the tools of the brief and the overlay. May add tools that neither of them grants.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = ToolPattern>) -> Self {
        self.tools = Some(tools.into_iter().collect());
        self
    }

    /// Replaces the readable paths of the brief and the overlay. May add paths that neither of them grants.
    #[must_use]
    pub fn with_read<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.read = Some(paths.into_iter().map(Into::into).collect());
        self
    }

    /// Replaces the writable paths of the brief and the overlay. May add paths that neither of them grants.
    #[must_use]
    pub fn with_write<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.write = Some(paths.into_iter().map(Into::into).collect());
        self
    }

    /// Adds protected paths.
    #[must_use]
    pub fn do_not_touch(mut self, rule: PathRule) -> Self {
        self.do_not_touch.push(rule);
        self
    }
}

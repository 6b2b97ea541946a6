//! Sandbox of an access level in the program's terms: one of its own sandboxes or, if logins must be hidden, our own
//! permission profile. That profile equals the sandbox, but denies the folder of the logins.
//!
//! Source: access of commands, patches and images under codex 0.169.0 with each of them.

use std::path::{Path, PathBuf};

use nexus_core::{ErrorKind, ToolAccess, TurnRequest, harness::Failure};
use serde_json::{Map, Value, json};

/// Name of the permission profile.
const PROFILE: &str = "nexus";

/// Access of a turn's tools.
#[derive(Debug)]
pub(super) struct SandboxPolicy {
    access: ToolAccess,
    /// Paths that no tool may read, if the level has a sandbox.
    hidden: Vec<String>,
    /// Paths that the turn may write in addition to the working directory.
    roots: Vec<String>,
}

/// Sandbox and profile that the program must report.
#[derive(Debug)]
pub(super) struct SandboxWords {
    /// Kind of the sandbox.
    pub(super) sandbox: &'static str,
    /// Permission profile, if the turn uses one.
    pub(super) profile: Option<&'static str>,
}

impl SandboxPolicy {
    /// Returns the sandbox for `request`, which hides the existing folders of `logins`. Uses their canonical paths,
    /// because the program denies a folder only under its real name, and would create a missing folder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] if a path is not Unicode.
    pub(super) fn new(
        request: &TurnRequest,
        logins: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Self, Failure> {
        let access = request.tool_access;
        // `ScopedOnly` has no tool of the program that could read the folder, and `Unrestricted` has no sandbox that could
        // hide it.
        let hides = matches!(access, ToolAccess::ReadOnly | ToolAccess::WorkspaceWrite);
        let real = logins.into_iter().filter(|_| hides).filter_map(|folder| folder.canonicalize().ok());
        let mut hidden = real.map(|folder| written(&folder)).collect::<Result<Vec<_>, _>>()?;
        hidden.sort();
        hidden.dedup();
        let roots = request.extra_roots.iter().map(|root| written(&absolute(root)));
        Ok(Self { access, hidden, roots: roots.collect::<Result<_, _>>()? })
    }

    /// Returns the sandbox for `request` inside the sandbox of Nexus. At the levels with commands it is off: the sandbox of Nexus
    /// encloses them, and allows no namespaces, without which every command of the program's own sandbox fails.
    ///
    /// Source: observed with codex 0.169.0, whose sandbox is bubblewrap.
    pub(super) fn in_sandbox(request: &TurnRequest) -> Self {
        let access = match request.tool_access {
            ToolAccess::ReadOnly | ToolAccess::WorkspaceWrite => ToolAccess::Unrestricted,
            access => access,
        };
        Self { access, hidden: Vec::new(), roots: Vec::new() }
    }

    /// Returns the sandbox's name for the request; `None` if the configuration names a profile. The program rejects
    /// both together.
    pub(super) fn mode(&self) -> Option<&'static str> {
        self.hidden.is_empty().then_some(match self.access {
            ToolAccess::WorkspaceWrite => "workspace-write",
            ToolAccess::Unrestricted => "danger-full-access",
            // Unreachable for an unknown level, because the capabilities reject it. The fallback is the narrowest
            // level.
            _ => "read-only",
        })
    }

    /// Returns the names that the program must report for this sandbox.
    pub(super) fn words(&self) -> SandboxWords {
        let sandbox = match self.access {
            ToolAccess::WorkspaceWrite => "workspaceWrite",
            ToolAccess::Unrestricted => "dangerFullAccess",
            _ => "readOnly",
        };
        SandboxWords { sandbox, profile: (!self.hidden.is_empty()).then_some(PROFILE) }
    }

    /// Returns the configuration section of the sandbox. The turn may write only to the working directory, the run's
    /// folder for temporary files and the roots, but not to `/tmp`.
    pub(super) fn configuration(&self) -> Value {
        let may_write = self.access == ToolAccess::WorkspaceWrite;
        if self.hidden.is_empty() {
            return match may_write {
                true => json!({
                    "sandbox_workspace_write": { "writable_roots": self.roots, "exclude_slash_tmp": true },
                }),
                false => json!({}),
            };
        }
        let mut files = Map::new();
        if may_write {
            files.insert(":slash_tmp".into(), json!("read"));
            files.extend(self.roots.iter().map(|root| (root.clone(), json!("write"))));
        }
        files.extend(self.hidden.iter().map(|folder| (folder.clone(), json!("deny"))));
        let base = if may_write { ":workspace" } else { ":read-only" };
        json!({
            "default_permissions": PROFILE,
            "permissions": { PROFILE: { "extends": base, "filesystem": files } },
        })
    }
}

fn written(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let reason = format!("the path {} is not Unicode, which codex requires", path.display());
        Failure::new(ErrorKind::InvalidRequest, reason)
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_sandbox_of_nexus_the_programs_own_is_off_where_commands_run() {
        for access in ToolAccess::ALL {
            let policy = SandboxPolicy::in_sandbox(&TurnRequest::new("x").with_tool_access(access));
            let has_commands = access != ToolAccess::ScopedOnly;
            assert_eq!(policy.mode() == Some("danger-full-access"), has_commands, "{access:?}");
            assert_eq!(policy.words().sandbox == "dangerFullAccess", has_commands, "{access:?}");
            assert_eq!((policy.words().profile, policy.configuration()), (None, json!({})));
        }
    }

    #[test]
    fn logins_that_lie_in_files_are_hidden_by_their_real_name_where_there_is_a_sandbox() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real");
        let link = folder.path().join("link");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for access in ToolAccess::ALL {
            let request = TurnRequest::new("x").with_tool_access(access).with_extra_root("/data");
            let policy =
                SandboxPolicy::new(&request, [link.clone(), real.clone(), folder.path().join("missing")])
                    .unwrap();
            let hides = matches!(access, ToolAccess::ReadOnly | ToolAccess::WorkspaceWrite);
            assert_eq!(
                (policy.mode().is_none(), policy.words().profile.is_some()),
                (hides, hides),
                "{access:?}"
            );
            let files = &policy.configuration()["permissions"]["nexus"]["filesystem"];
            assert_eq!(files[real.to_str().unwrap()] == "deny", hides, "{access:?}");
            let writes = access == ToolAccess::WorkspaceWrite;
            assert_eq!(
                (files["/data"] == "write", files[":slash_tmp"] == "read"),
                (writes, writes),
                "{access:?}"
            );
            assert_eq!(
                SandboxPolicy::new(&request, [folder.path().join("missing")]).unwrap().words().profile,
                None
            );
        }
    }
}

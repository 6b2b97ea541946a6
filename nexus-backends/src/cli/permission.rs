//! Decision of an access level on a call for which a program requests permission.
//!
//! | | `ScopedOnly` | `ReadOnly` | `WorkspaceWrite` | `Unrestricted` |
//! | --- | --- | --- | --- | --- |
//! | read inside the turn's folders | no | yes | yes | yes |
//! | read elsewhere | no | ask | ask | yes |
//! | write inside | no | no | yes | yes |
//! | write elsewhere | no | no | no | yes |
//! | run a program | no | no | ask | yes |
//! | load from the network | no | ask | ask | yes |
//! | anything else | no | no | ask | yes |
//!
//! For `ask`, the host's approver decides. An approval holds only for this call, and never overrides a `no` of this
//! table. In the sandbox of Nexus, `ask` is a yes: the sandbox encloses the call. A call that names the folder of Nexus's logins is always denied. A running program may read and write
//! everything that its user may, so approving it approves that.

use std::path::{Component, Path, PathBuf};

use nexus_core::{ApprovalAction, ToolAccess};

use super::contract::TurnPlan;

/// A level's decision on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The level allows the call.
    Yes,
    /// The level forbids the call.
    No,
    /// The level does not decide, so the host's approver does.
    Ask,
}

/// Permissions of one turn at its access level.
#[derive(Clone, Debug)]
pub(crate) struct Permissions {
    access: ToolAccess,
    working_directory: PathBuf,
    roots: Vec<PathBuf>,
    closed: Vec<PathBuf>,
    /// True if the sandbox of Nexus encloses the program, and so enforces the level.
    is_in_sandbox: bool,
}

impl Permissions {
    /// Returns the permissions of a turn.
    pub(crate) fn of(plan: &TurnPlan) -> Self {
        let extra = plan.request.extra_roots.iter();
        let roots = extra.chain([&plan.working_directory]).map(|root| real(root)).collect();
        Self {
            access: plan.request.tool_access,
            working_directory: plan.working_directory.clone(),
            roots,
            closed: plan.login_folders().iter().map(|folder| real(folder)).collect(),
            is_in_sandbox: false,
        }
    }

    /// Returns the permissions for a program in the sandbox of Nexus. The sandbox shows only what the level allows, so only calls
    /// that are sure to fail are denied.
    pub(crate) fn in_sandbox(self) -> Self {
        Self { is_in_sandbox: true, ..self }
    }

    /// Returns the permissions of a turn in one folder.
    #[cfg(test)]
    pub(crate) fn in_folder(access: ToolAccess, folder: &Path) -> Self {
        Self {
            access,
            working_directory: folder.to_owned(),
            roots: vec![real(folder)],
            closed: Vec::new(),
            is_in_sandbox: false,
        }
    }

    /// Returns the level's decision on a call for `action` that names `paths`. Relative paths are below the working
    /// directory.
    pub(crate) fn of_call(&self, action: ApprovalAction, paths: &[PathBuf]) -> Permission {
        let paths: Vec<PathBuf> = paths.iter().map(|path| real(&self.working_directory.join(path))).collect();
        let is_in =
            |folders: &[PathBuf], path: &PathBuf| folders.iter().any(|folder| path.starts_with(folder));
        if paths.iter().any(|path| is_in(&self.closed, path)) {
            return Permission::No;
        }
        // A call that names no path may work anywhere.
        let is_inside = !paths.is_empty() && paths.iter().all(|path| is_in(&self.roots, path));
        match (self.access, action) {
            (ToolAccess::Unrestricted, _) => Permission::Yes,
            (ToolAccess::ReadOnly, ApprovalAction::Write) => Permission::No,
            (ToolAccess::ReadOnly | ToolAccess::WorkspaceWrite, _) if self.is_in_sandbox => Permission::Yes,
            (ToolAccess::ReadOnly | ToolAccess::WorkspaceWrite, ApprovalAction::Read) if is_inside => {
                Permission::Yes
            }
            (ToolAccess::WorkspaceWrite, ApprovalAction::Write) if is_inside => Permission::Yes,
            (ToolAccess::WorkspaceWrite, ApprovalAction::Write) => Permission::No,
            (ToolAccess::ReadOnly, ApprovalAction::Read | ApprovalAction::Fetch)
            | (ToolAccess::WorkspaceWrite, _) => Permission::Ask,
            _ => Permission::No,
        }
    }
}

/// Returns the target of a path: resolves symbolic links as far as files exist, and removes `.` and `..` from the rest.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                found.pop();
            }
            Component::CurDir => {}
            other => found.push(other),
        }
        // A dangling link points to the path where a file would be created.
        let target = std::fs::canonicalize(&found).or_else(|_| dangling(&found));
        if let Ok(real) = target {
            found = real;
        }
    }
    found
}

/// Returns the target of a link to a missing file.
fn dangling(path: &Path) -> std::io::Result<PathBuf> {
    let target = std::fs::read_link(path)?;
    let target = path.parent().unwrap_or(Path::new("/")).join(target);
    // Resolve one dangling link only. A further one counts as outside of every folder.
    Ok(target.canonicalize().unwrap_or_else(|_| {
        let parent = target.parent().and_then(|parent| parent.canonicalize().ok());
        match (parent, target.file_name(), target.is_symlink()) {
            (Some(parent), Some(name), false) => parent.join(name),
            _ => PathBuf::from("/"),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(access: ToolAccess, root: &Path) -> Permissions {
        Permissions {
            access,
            working_directory: root.join("work"),
            roots: vec![real(&root.join("work"))],
            closed: vec![real(&root.join("work/auth"))],
            is_in_sandbox: false,
        }
    }

    #[test]
    fn a_level_says_what_its_column_says() {
        use ApprovalAction::{Execute, Fetch, Other, Read, Write};
        use Permission::{Ask, No, Yes};
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        let table = [
            (Read, "in/file", [No, Yes, Yes, Yes]),
            (Read, "../out", [No, Ask, Ask, Yes]),
            (Write, "in/file", [No, No, Yes, Yes]),
            (Write, "../out", [No, No, No, Yes]),
            (Write, "in/../../out", [No, No, No, Yes]),
            (Execute, "", [No, No, Ask, Yes]),
            (Fetch, "", [No, Ask, Ask, Yes]),
            (Other, "", [No, No, Ask, Yes]),
            (Write, "", [No, No, No, Yes]),
            (Read, "", [No, Ask, Ask, Yes]),
            (Read, "auth/login.json", [No, No, No, No]),
            (Execute, "auth/login.json", [No, No, No, No]),
        ];
        for (action, path, expected) in table {
            for (access, expected) in ToolAccess::ALL.into_iter().zip(expected) {
                let paths: Vec<PathBuf> = if path.is_empty() { Vec::new() } else { vec![path.into()] };
                let said = permissions(access, root.path()).of_call(action, &paths);
                assert_eq!(said, expected, "{action:?} {path} at {access:?}");
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_where_it_leads() {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        std::fs::create_dir(&work).unwrap();
        std::fs::create_dir(root.path().join("other")).unwrap();
        std::os::unix::fs::symlink("../other", work.join("folder")).unwrap();
        std::os::unix::fs::symlink("../new", work.join("dangling")).unwrap();
        std::os::unix::fs::symlink("real", work.join("inside")).unwrap();
        std::os::unix::fs::symlink("loop", work.join("loop")).unwrap();
        let permissions = permissions(ToolAccess::WorkspaceWrite, root.path());
        let of = |path: &str| permissions.of_call(ApprovalAction::Write, &[path.into()]);
        assert_eq!(of("folder/x"), Permission::No);
        assert_eq!(of("dangling"), Permission::No);
        assert_eq!(of("folder/../new"), Permission::No, "`..` is the parent of where the link leads");
        assert_eq!(of("inside"), Permission::Yes);
        assert_eq!(of("loop"), Permission::No);
        assert_eq!(of("folder"), Permission::No);
    }
}

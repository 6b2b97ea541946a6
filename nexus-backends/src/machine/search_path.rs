//! The folders of `PATH`, and the programs in them that may be started without a configuration.
//!
//! A program is usable if its author can only be this user or the administrator: no folder on its way and not the file itself can be
//! changed by others, and it is not part of the current project.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Component, Path, PathBuf},
};

use nexus_core::detection::ProgramSearch;

/// Permission of the group to write.
const GROUP_WRITES: u32 = 0o020;
/// Permission of all users to write.
const ALL_WRITE: u32 = 0o002;
/// In such a folder, only the owner of an entry may replace it.
const STICKY: u32 = 0o1000;
/// Permissions to execute.
const EXECUTES: u32 = 0o111;

/// Maximum number of links on the way to a program. Source: the limit of Linux.
const MAX_LINKS: usize = 40;

/// The folders of `PATH`, each with the reason why it is not used.
#[derive(Debug)]
pub(super) struct SearchPath {
    folders: Vec<(PathBuf, Option<String>)>,
    judge: Judge,
}

/// Rules for folders and programs.
#[derive(Debug)]
struct Judge {
    /// Folders of the project: the working folder and the top of its git repository.
    project: Vec<PathBuf>,
    users: TrustedUsers,
}

/// The users who may write a program: this user and root.
#[derive(Debug)]
struct TrustedUsers {
    user: u32,
    /// Text of `/etc/passwd`.
    passwd: String,
    /// Text of `/etc/group`.
    group: String,
}

impl SearchPath {
    /// Judges the folders of a `PATH`. `project` is the working folder. The home of the person and the folders above it do not count as a project.
    pub(super) fn judge(variable: &str, project: Option<&Path>, home: Option<&Path>) -> Self {
        let judge = Judge { project: project_folders(project, home), users: TrustedUsers::of_this_machine() };
        let folders = std::env::split_paths(variable)
            .map(|folder| {
                let fault = judge.folder(&folder).err();
                (folder, fault)
            })
            .collect();
        Self { folders, judge }
    }

    /// Returns the folders that may be used, in the form of `PATH`.
    pub(super) fn usable(&self) -> String {
        let usable = self.folders.iter().filter(|(_, fault)| fault.is_none()).map(|(folder, _)| folder);
        std::env::join_paths(usable).ok().and_then(|path| path.into_string().ok()).unwrap_or_default()
    }

    /// Finds a program.
    pub(super) fn program(&self, name: &str) -> ProgramSearch {
        let mut search = ProgramSearch::default();
        for (folder, fault) in &self.folders {
            let path = folder.join(name);
            if !is_executable(&path) {
                continue;
            }
            match fault.clone().map_or_else(|| self.judge.program(&path), Err) {
                Ok(()) => {
                    search.usable = Some(path);
                    break;
                }
                Err(reason) => search.refused.push((path, reason)),
            }
        }
        search
    }
}

/// Returns the components of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & EXECUTES != 0)
}

/// Returns the folders whose programs belong to the project.
fn project_folders(working: Option<&Path>, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(working) = working.and_then(|folder| folder.canonicalize().ok()) else { return Vec::new() };
    let home = home.and_then(|home| home.canonicalize().ok());
    // A folder that contains the home is not a project: its programs are the user's own, such as those in `~/.local/bin`.
    let is_project = |folder: &Path| home.as_deref().is_none_or(|home| !home.starts_with(folder));
    let top = working.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned);
    [Some(working), top].into_iter().flatten().filter(|folder| is_project(folder)).collect()
}

impl Judge {
    fn folder(&self, folder: &Path) -> Result<(), String> {
        if !folder.is_absolute() {
            return Err("the folder is relative".to_owned());
        }
        // The paths of programs become text of a configuration.
        if folder.to_str().is_none_or(|text| text.chars().any(char::is_control)) {
            return Err("the name of the folder is not plain text".to_owned());
        }
        self.way(folder)
    }

    /// Judges a program in a usable folder. A link may lead elsewhere.
    fn program(&self, path: &Path) -> Result<(), String> {
        self.way(path)
    }

    /// Judges the target of an absolute path, and each folder that has a link on the way to it: whoever can replace such a link
    /// chooses the target.
    fn way(&self, path: &Path) -> Result<(), String> {
        let mut open = parts(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = open.pop() {
            let next = match Path::new(&part).components().next() {
                Some(Component::Normal(name)) => at.join(name),
                Some(Component::ParentDir) => {
                    at.pop();
                    continue;
                }
                Some(Component::RootDir) => {
                    at = PathBuf::from("/");
                    continue;
                }
                _ => continue,
            };
            if !fs::symlink_metadata(&next).map_err(|error| error.to_string())?.is_symlink() {
                at = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err("too many links lead to it".to_owned());
            }
            self.outside(&at)?;
            self.unchangeable(&at)?;
            open.extend(parts(&fs::read_link(&next).map_err(|error| error.to_string())?));
        }
        self.outside(&at)?;
        self.unchangeable(&at)
    }

    fn outside(&self, found: &Path) -> Result<(), String> {
        match self.project.iter().any(|project| found.starts_with(project)) {
            true => Err("it is in the current project".to_owned()),
            false => Ok(()),
        }
    }

    /// Checks that no other user can change the file or folder, or a folder above it.
    fn unchangeable(&self, found: &Path) -> Result<(), String> {
        for (depth, part) in found.ancestors().enumerate() {
            let metadata = fs::metadata(part).map_err(|error| error.to_string())?;
            let name = || match part.components().next_back() {
                Some(Component::Normal(_)) => part.display().to_string(),
                _ => "/".to_owned(),
            };
            if !self.users.is_trusted(metadata.uid()) {
                return Err(format!("{} belongs to another user", name()));
            }
            // Others can create entries in a folder such as /tmp, but cannot replace this user's.
            let is_shared = depth > 0 && metadata.is_dir() && metadata.mode() & STICKY != 0;
            if !is_shared && self.users.others_write(&metadata) {
                return Err(format!("others can write {}", name()));
            }
        }
        Ok(())
    }
}

impl TrustedUsers {
    fn of_this_machine() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            user: rustix::process::geteuid().as_raw(),
            passwd: read("/etc/passwd"),
            group: read("/etc/group"),
        }
    }

    fn is_trusted(&self, user: u32) -> bool {
        user == self.user || user == 0
    }

    /// Returns true if another user has the permission to write.
    fn others_write(&self, metadata: &Metadata) -> bool {
        let mode = metadata.mode();
        mode & ALL_WRITE != 0 || (mode & GROUP_WRITES != 0 && self.has_others(metadata.gid()))
    }

    /// Returns true if a group may have other members. Many systems give each user a private group, and let groups write.
    fn has_others(&self, group: u32) -> bool {
        let fields = |line: &str| -> Option<(String, u32, String)> {
            let mut fields = line.split(':');
            let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
            Some((name.to_owned(), number.parse().ok()?, fields.next().unwrap_or_default().to_owned()))
        };
        let users: Vec<_> = self.passwd.lines().filter_map(fields).collect();
        let is_other = |name: &str| {
            users.iter().find(|(known, ..)| known == name).is_none_or(|(_, user, _)| !self.is_trusted(*user))
        };
        let Some((_, _, members)) =
            self.group.lines().filter_map(fields).find(|(_, number, _)| *number == group)
        else {
            // The group is not in `/etc/group`. A directory service, such as LDAP, may give it members.
            return true;
        };
        members.split(',').filter(|member| !member.is_empty()).any(is_other)
            || users.iter().any(|(_, user, primary)| primary.parse() == Ok(group) && !self.is_trusted(*user))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_of_the_project_or_of_another_user_is_found_and_not_used() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (project, open, own) = (root.join("project"), root.join("open"), root.join("own"));
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::create_dir_all(project.join("below")).unwrap();
        for folder in [project.join("node_modules/.bin"), open.clone(), own.join("bin")] {
            program(&folder.join("tool"), 0o755);
        }
        let mode =
            |folder: &Path, mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(&open, 0o777);
        // Links into the project, and to a file that others can write.
        let links = root.join("links");
        fs::create_dir(&links).unwrap();
        symlink(project.join("node_modules/.bin/tool"), links.join("tool")).unwrap();
        program(&own.join("loose/tool"), 0o777);
        // The tests may run where groups can write new folders.
        for folder in [&links, &own, &own.join("bin"), &own.join("loose")] {
            mode(folder, 0o755);
        }
        let path = format!(
            ".:node_modules/.bin:{0}/node_modules/.bin:{1}:{2}:{3}/loose:{3}/absent:{3}/bin",
            project.display(),
            open.display(),
            links.display(),
            own.display()
        );
        // Neither the working folder nor the folder above it that has the repository.
        for working in [project.clone(), project.join("below")] {
            let judged = SearchPath::judge(&path, Some(&working), Some(&own));
            let search = judged.program("tool");
            assert_eq!(search.usable, Some(own.join("bin/tool")));
            let reasons: Vec<_> = search.refused.iter().map(|(_, reason)| reason.as_str()).collect();
            assert_eq!(
                reasons,
                [
                    "it is in the current project",
                    &format!("others can write {}", open.display()),
                    "it is in the current project",
                    &format!("others can write {}/loose/tool", own.display()),
                ]
            );
            assert_eq!(judged.usable(), format!("{}:{1}/loose:{1}/bin", links.display(), own.display()));
        }
        // A person's home is no project, although it has all of the person's programs below it.
        let at_home = SearchPath::judge(&format!("{}/bin", own.display()), Some(&own), Some(&own));
        assert_eq!(at_home.program("tool").usable, Some(own.join("bin/tool")));
        let elsewhere =
            SearchPath::judge(&format!("{}/bin", own.display()), Some(&own), Some(&root.join("project")));
        assert_eq!(elsewhere.program("tool").usable, None);
    }

    #[test]
    fn a_group_whose_members_are_this_user_and_root_may_write() {
        let users = TrustedUsers {
            user: 1000,
            passwd: "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:\nother:x:1001:100::/home/other:\n"
                .to_owned(),
            group:
                "root:x:0:\nstaff:x:50:\nme:x:1000:me\nusers:x:100:\nadmin:x:80:me,other\nodd:x:81:ghost\n"
                    .to_owned(),
        };
        for (group, has_others) in
            [(0, false), (50, false), (1000, false), (100, true), (80, true), (81, true), (7, true)]
        {
            assert_eq!(users.has_others(group), has_others, "{group}");
        }
    }
}

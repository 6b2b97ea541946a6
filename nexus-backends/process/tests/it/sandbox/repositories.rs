//! Repositories in the writable folders of a turn: none can be changed, and none can be planted.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nexus_core::ToolAccess;
use nexus_process::run_registry::sweep;
use nexus_process::sandbox::{PlantedRepository, Sandbox, ToolChains, WithoutRepository, WorkspaceFolders};
use tempfile::TempDir;

use super::support::{has_sandbox, said, sandbox};

/// A working directory beside a home of Nexus.
struct Turns {
    _folder: TempDir,
    project: PathBuf,
    home: PathBuf,
}

impl Turns {
    fn new(folders: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (project, home) = (root.join("project"), root.join("home"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&project).unwrap();
        for below in folders {
            fs::create_dir_all(project.join(below)).unwrap();
        }
        Self { _folder: folder, project, home }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.project.join(file), text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.project.join(file)).unwrap()
    }

    /// Changes the mode of a folder below the working directory, or with an empty path, of that directory itself.
    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.project.join(path), Permissions::from_mode(mode)).unwrap();
    }

    /// Makes a git directory whose settings and hooks have the content `one`.
    fn git_directory(&self, path: &str) {
        for folder in ["objects", "refs", "hooks"] {
            fs::create_dir_all(self.project.join(path).join(folder)).unwrap();
        }
        for file in ["HEAD", "config", "hooks/pre-commit"] {
            self.write(&format!("{path}/{file}"), "one");
        }
    }

    fn begin_with(&self, extra_roots: &[PathBuf]) -> Result<(Sandbox, WithoutRepository), String> {
        let access = ToolAccess::WorkspaceWrite;
        let folders = WorkspaceFolders::resolve(access, &self.project, extra_roots, &self.home)?;
        folders.show_in(sandbox(), &ToolChains::find(Vec::new()))
    }

    fn begin(&self) -> Result<(Sandbox, WithoutRepository), String> {
        self.begin_with(&[])
    }

    /// Runs a script in the working directory.
    async fn run(&self, sandbox: &Sandbox, script: &str) {
        said(sandbox, &format!("cd {}\n{script}\ntrue", self.project.display())).await;
    }

    /// Tries to change the settings and hooks of a git directory, which must stay.
    async fn assert_closed(&self, sandbox: &Sandbox, git: &str) {
        let script = format!(
            "chmod -R u+rwx . ; echo two > {git}/config; echo two > {git}/hooks/pre-commit; mv {git} away; rm -rf {git}"
        );
        self.run(sandbox, &format!("({script}) 2>/dev/null")).await;
        for file in ["config", "hooks/pre-commit"] {
            assert_eq!(self.read(&format!("{git}/{file}")), "one", "{git}/{file}");
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn moved(planted: &[PlantedRepository]) -> Vec<&Path> {
    let moved = planted.iter().map(|planted| match planted {
        PlantedRepository::Moved { from, .. } => from.as_path(),
        PlantedRepository::Left { .. } => panic!("{planted}"),
    });
    moved.collect()
}

#[tokio::test]
async fn a_repository_in_a_closed_folder_stays_protected() {
    if !has_sandbox().await {
        return;
    }
    for mode in [0o300, 0o400, 0o000] {
        let turns = Turns::new(&["sub/.git"]);
        turns.git_directory("sub/.git");
        turns.set_mode("sub", mode);
        let (sandbox, _guard) = turns.begin().unwrap();
        let script =
            "(chmod 700 sub; echo two > sub/.git/config; mv sub other; echo x > written) 2>/dev/null";
        turns.run(&sandbox, script).await;
        turns.set_mode("sub", 0o700);
        assert_eq!((turns.read("sub/.git/config"), turns.read("written")), ("one".into(), "x\n".into()));
    }
}

#[tokio::test]
async fn the_repository_of_a_closed_working_directory_is_neither_moved_nor_writable() {
    if !has_sandbox().await {
        return;
    }
    for mode in [0o300, 0o400, 0o000] {
        let turns = Turns::new(&[".git"]);
        turns.git_directory(".git");
        turns.set_mode("", mode);
        let begun = turns.begin();
        turns.set_mode("", 0o700);
        match begun {
            Ok((sandbox, guard)) => {
                assert!(is_root(), "{mode:o}: only root can search it");
                turns.assert_closed(&sandbox, ".git").await;
                assert!(guard.set_aside().is_empty());
            }
            Err(reason) => assert!(!is_root() && reason.contains("chmod u+rwx"), "{reason}"),
        }
    }
}

#[tokio::test]
async fn the_git_directories_that_a_file_names_are_protected() {
    if !has_sandbox().await {
        return;
    }
    let turns = Turns::new(&["tree", "linked"]);
    for git in [".bare", "store.git"] {
        turns.git_directory(git);
        turns.git_directory(&format!("{git}-tree"));
        turns.write(&format!("{git}-tree/commondir"), &format!("../{git}\n"));
    }
    turns.write(".git", "gitdir: ./.bare-tree\n");
    turns.write("tree/.git", &format!("gitdir: {}\n", turns.project.join("store.git-tree").display()));
    turns.git_directory("linked.git");
    std::os::unix::fs::symlink("../linked.git", turns.project.join("linked/.git")).unwrap();
    let (sandbox, guard) = turns.begin().unwrap();
    for git in [".bare", ".bare-tree", "store.git", "store.git-tree", "linked.git"] {
        turns.assert_closed(&sandbox, git).await;
    }
    assert!(guard.set_aside().is_empty());
}

#[tokio::test]
async fn settings_and_hooks_behind_links_of_the_repository_are_protected() {
    if !has_sandbox().await {
        return;
    }
    let turns = Turns::new(&[".git", "hooks"]);
    for file in ["config", "hooks/pre-commit"] {
        turns.write(file, "one");
        let name = file.split('/').next().unwrap();
        std::os::unix::fs::symlink(Path::new("..").join(name), turns.project.join(".git").join(name))
            .unwrap();
    }
    let (sandbox, _guard) = turns.begin().unwrap();
    turns.assert_closed(&sandbox, ".").await;
    turns.assert_closed(&sandbox, ".git").await;
}

#[test]
fn a_git_directory_that_a_program_could_replace_is_refused() {
    let turns = Turns::new(&["away", "real", "sub"]);
    turns.git_directory("real/git");
    std::os::unix::fs::symlink("real", turns.project.join("link")).unwrap();
    for (pointer, reason) in [
        ("gitdir: missing/git", "could create"),
        ("gitdir: link/git", "leads through the link"),
        ("gitdir: .", "name another working tree"),
    ] {
        turns.write(".git", pointer);
        let refused = turns.begin().unwrap_err();
        assert!(refused.contains(reason), "{pointer}: {refused}");
        // A deeper one may be the work of a program, and must not end all later turns.
        fs::rename(turns.project.join(".git"), turns.project.join("sub/.git")).unwrap();
        turns.begin().unwrap();
    }
    turns.write(".git", "gitdir: /nowhere/at/all");
    turns.begin().unwrap();
}

#[tokio::test]
async fn a_planted_repository_is_moved_or_reported() {
    if !has_sandbox().await {
        return;
    }
    let tries = [
        ("mkdir .git; for n in $(seq 1 200); do touch .git-of-agent-$n; done", ".git"),
        ("mkdir .git; chmod 555 .", ".git"),
        ("mkdir .git; chmod 000 .", ".git"),
        ("mkdir objects refs; echo 'ref: refs/heads/main' > HEAD; echo '[core]' > config", "HEAD"),
        ("mkdir objects; ln -s objects refs; ln -s refs/heads/main HEAD; chmod 000 .", "HEAD"),
        ("mkdir elsewhere; echo elsewhere > commondir; echo 'ref: refs/heads/main' > HEAD", "HEAD"),
    ];
    for (script, name) in tries {
        let turns = Turns::new(&[]);
        let (sandbox, guard) = turns.begin().unwrap();
        turns.run(&sandbox, script).await;
        let planted = guard.set_aside();
        turns.set_mode("", 0o700);
        assert_eq!(moved(&planted), [turns.project.join(name)], "{script}");
        assert!(turns.project.join(name).symlink_metadata().is_err(), "{script}");
        assert!(guard.set_aside().is_empty());
    }
}

#[test]
fn a_bare_repository_is_no_working_directory_at_a_level_that_writes() {
    let turns = Turns::new(&[]);
    turns.git_directory(".");
    assert!(turns.begin().unwrap_err().contains("is a bare repository"));
    let read = WorkspaceFolders::resolve(ToolAccess::ReadOnly, &turns.project, &[], &turns.home);
    assert!(read.is_ok());
    // With a repository of its own, git does not look at these names.
    turns.git_directory(".git");
    turns.begin().unwrap();
}

#[tokio::test]
async fn overlapping_folders_are_shown_with_each_repository_protected() {
    if !has_sandbox().await {
        return;
    }
    let turns = Turns::new(&["sub/.git", ".git"]);
    for git in [".git", "sub/.git"] {
        turns.git_directory(git);
    }
    let (sandbox, _guard) = turns.begin_with(&[turns.project.join("sub")]).unwrap();
    for git in [".git", "sub/.git"] {
        turns.assert_closed(&sandbox, git).await;
    }
    turns.run(&sandbox, "echo x > sub/written").await;
    assert_eq!(turns.read("sub/written"), "x\n");
}

#[test]
fn a_repository_planted_before_nexus_was_killed_is_moved_at_the_next_start() {
    let turns = Turns::new(&[]);
    let (_, guard) = turns.begin().unwrap();
    let runs = turns.home.join("runs");
    let entry = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&entry).unwrap()).unwrap();
    fs::create_dir(turns.project.join(".git")).unwrap();
    let swept = sweep(&turns.home).unwrap();
    assert!(swept.repositories.is_empty() && turns.project.join(".git").exists(), "its owner lives");

    drop(guard);
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 0, "the entry ends with the turn");
    text["owner"]["process"] = serde_json::json!({ "pid": 1, "start_ticks": 99 });
    fs::write(&entry, text.to_string()).unwrap();
    let swept = sweep(&turns.home).unwrap();
    assert_eq!(moved(&swept.repositories), [turns.project.join(".git")]);
    assert!(!turns.project.join(".git").exists() && !entry.exists());
}

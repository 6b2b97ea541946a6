//! The installer, on archives whose program is a script.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::archive::{Archive, Member};
use super::{installer, sha256};

/// A folder with a release and a user's home.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Writes a release of this version with these further files.
    fn publish(&self, version: &str, files: &[&str]) {
        let name = format!("nexus-{version}-x86_64-linux");
        let script = format!("#!/bin/sh\necho nexus {version}\n");
        let mut members = vec![Member::program("bin/nexus", script.into_bytes())];
        members.extend(files.iter().map(|file| Member::file(*file, version.as_bytes().to_vec())));
        let archive = Archive::below(&name).with_all(&members).gzip().unwrap();
        fs::write(self.path("install.sh"), installer(version, &name, &sha256(&archive), "")).unwrap();
        fs::write(self.path(&format!("{name}.tar.gz")), archive).unwrap();
    }

    fn install(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command
            .arg(self.path("install.sh"))
            .args(arguments)
            .env("HOME", self.path("home"))
            .env_remove("NEXUS_INSTALL_FROM");
        command.current_dir(self.folder.path()).output().unwrap()
    }

    fn receipt(&self) -> String {
        fs::read_to_string(self.path("home/.local/share/nexus/installed")).unwrap()
    }
}

fn printed(program: &Path) -> String {
    String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap()
}

fn errors(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_later_version_replaces_the_program_and_removes_what_it_no_longer_has() {
    let stage = Stage::new();
    stage.publish("1.0.0", &["share/man/man1/nexus.1", "share/old"]);
    let first = stage.install(&["--from", "."]);
    assert!(first.status.success(), "{first:?}");
    let program = stage.path("home/.local/bin/nexus");
    assert_eq!(printed(&program), "nexus 1.0.0\n");
    let folders: Vec<String> =
        stage.receipt().lines().filter_map(|line| line.strip_prefix("folder ")).map(str::to_owned).collect();
    assert_eq!(folders, [".", "bin", "share", "share/man", "share/man/man1", "share/nexus"]);

    stage.publish("2.0.0", &["share/man/man1/nexus.1"]);
    let second = stage.install(&["--from", "."]);
    assert!(second.status.success(), "{second:?}");
    assert_eq!(printed(&program), "nexus 2.0.0\n");
    assert!(!stage.path("home/.local/share/old").exists());
    // The folders that the first version created are still this one's.
    assert!(
        folders.iter().all(|folder| stage.receipt().contains(&format!("folder {folder}\n"))),
        "{}",
        stage.receipt()
    );
}

#[test]
fn what_cannot_be_installed_leaves_the_installed_version_as_it_is() {
    let stage = Stage::new();
    stage.publish("1.0.0", &[]);
    assert!(stage.install(&["--from", "."]).status.success());
    let (program, before) = (stage.path("home/.local/bin/nexus"), stage.receipt());

    stage.publish("2.0.0", &[]);
    fs::write(stage.path("nexus-2.0.0-x86_64-linux.tar.gz"), "changed on its way").unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--from", "."], "SHA-256"),
        (&["--from", "elsewhere"], "elsewhere/nexus-2.0.0-x86_64-linux.tar.gz could not be read"),
        (&[], "this script names no address"),
        (&["--force"], "unknown argument --force"),
    ];
    for (arguments, words) in cases {
        let found = errors(&stage.install(arguments));
        assert!(found.contains(words), "{arguments:?}: {found}");
        assert_eq!(printed(&program), "nexus 1.0.0\n");
        assert_eq!(stage.receipt(), before);
    }
    errors(&stage.install(&["--from", ".", "--prefix", "new/folder"]));
    assert!(!stage.path("new").exists());
}

#[test]
fn a_program_of_the_same_name_that_was_installed_in_another_way_is_not_replaced() {
    let stage = Stage::new();
    stage.publish("1.0.0", &[]);
    fs::create_dir_all(stage.path("home/.local/bin")).unwrap();
    fs::write(stage.path("home/.local/bin/nexus"), "another").unwrap();
    let found = errors(&stage.install(&["--from", "."]));
    assert!(found.contains("was not written by this script"), "{found}");
    // `nexus uninstall` would not find the list of such an installation.
    fs::create_dir(stage.path("other")).unwrap();
    std::os::unix::fs::symlink(stage.path("home"), stage.path("other/bin")).unwrap();
    let found = errors(&stage.install(&["--from", ".", "--prefix", "other/"]));
    assert!(found.contains("other/bin is a link"), "{found}");
    assert_eq!(fs::read_to_string(stage.path("home/.local/bin/nexus")).unwrap(), "another");
}

#[test]
fn a_script_that_was_cut_off_on_its_way_does_nothing() {
    let stage = Stage::new();
    stage.publish("1.0.0", &[]);
    let whole = fs::read_to_string(stage.path("install.sh")).unwrap();
    for lines in 1..whole.lines().count() {
        let part: String = whole.lines().take(lines).map(|line| format!("{line}\n")).collect();
        fs::write(stage.path("install.sh"), part).unwrap();
        let _ = stage.install(&["--from", "."]);
        assert!(!stage.path("home/.local").exists(), "after {lines} lines");
    }
}

//! `nexus uninstall`, on a prefix as the installer of a release leaves it.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use crate::support::text;

const RECEIPT: &str = "folder .\nfolder bin\nfolder share\nfolder share/nexus\nfile bin/nexus\nfile share/manual\n\
                       file share/nexus/installed\n";

/// A user's home with an installed program and a home of Nexus.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn with_receipt(receipt: &str) -> Self {
        let installed = Self { folder: tempfile::tempdir().unwrap() };
        for folder in [".local/bin", ".local/share/nexus", ".nexus/holds"] {
            fs::create_dir_all(installed.path(folder)).unwrap();
        }
        // A second name of the file, because the kernel reports the target of a link as the program.
        let (program, name) = (env!("CARGO_BIN_EXE_nexus"), installed.path(".local/bin/nexus"));
        if fs::hard_link(program, &name).is_err() {
            // Another process writes the file: a child that another test starts meanwhile would keep it open, and thus busy.
            assert!(Command::new("cp").arg(program).arg(&name).status().unwrap().success());
        }
        fs::write(installed.path(".local/share/nexus/installed"), receipt).unwrap();
        fs::write(installed.path(".local/share/manual"), "").unwrap();
        installed
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn uninstall(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.path(".local/bin/nexus"));
        command.env_clear().env("HOME", self.folder.path()).stdin(Stdio::null());
        command.arg("uninstall").args(arguments).output().unwrap()
    }
}

#[test]
fn what_the_installer_created_is_removed_and_nothing_else() {
    let installed = Installed::with_receipt(RECEIPT);
    fs::write(installed.path(".local/share/of-another-program"), "").unwrap();
    let output = installed.uninstall(&["--yes"]);
    assert!(output.status.success(), "{output:?}");
    for removed in [".local/bin", ".local/share/manual", ".local/share/nexus"] {
        assert!(!installed.path(removed).exists(), "{removed}");
    }
    assert!(installed.path(".local/share/of-another-program").exists());
    assert!(installed.path(".nexus/holds").exists(), "the home has logins and tasks");
    assert!(text(&output.stdout).contains(".nexus stays"), "{output:?}");
}

#[test]
fn with_home_nothing_is_left() {
    let installed = Installed::with_receipt(RECEIPT);
    let output = installed.uninstall(&["--home", "--yes", "--json"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(installed.folder.path()).unwrap().count(), 0, "{output:?}");
}

#[test]
fn a_doubt_removes_nothing() {
    let elsewhere = RECEIPT.replace("share/manual", "../.nexus/holds");
    let absolute = RECEIPT.replace("share/manual", "/etc/passwd");
    let garbled = RECEIPT.replace("file share/manual", "share/manual");
    let empty = RECEIPT.replace("file share/manual", "file ");
    let prefix = RECEIPT.replace("file share/manual", "file .");
    let cases: [(&str, &[&str], i32, &str); 7] = [
        (RECEIPT, &[], 2, "confirm with --yes"),
        (&elsewhere, &["--yes"], 1, "installed:6: not a line of this installer"),
        (&absolute, &["--yes"], 1, "installed:6: not a line of this installer"),
        (&garbled, &["--yes"], 1, "installed:6: not a line of this installer"),
        (&empty, &["--yes"], 1, "installed:6: not a line of this installer"),
        (&prefix, &["--yes"], 1, "installed:6: not a line of this installer"),
        (
            "file bin/another\n",
            &["--yes"],
            1,
            "was not installed by the installer of a release; remove that file",
        ),
    ];
    for (receipt, arguments, code, words) in cases {
        let installed = Installed::with_receipt(receipt);
        let output = installed.uninstall(arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(text(&output.stderr).contains(words), "{words}: {output:?}");
        for path in
            [".local/bin/nexus", ".local/share/manual", ".local/share/nexus/installed", ".nexus/holds"]
        {
            assert!(installed.path(path).exists(), "{path}: {output:?}");
        }
    }
}

#[test]
fn a_home_with_the_files_of_one_command_alone_is_removed() {
    for (name, is_folder) in [("demo", true), ("undo", true), ("trusted.json", false), ("nexus.yaml", false)]
    {
        let installed = Installed::with_receipt(RECEIPT);
        fs::remove_dir_all(installed.path(".nexus")).unwrap();
        fs::create_dir(installed.path(".nexus")).unwrap();
        match is_folder {
            true => fs::create_dir(installed.path(".nexus").join(name)).unwrap(),
            false => fs::write(installed.path(".nexus").join(name), "").unwrap(),
        }
        let output = installed.uninstall(&["--home", "--yes"]);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(!installed.path(".nexus").exists(), "{name}");
    }
}

#[test]
fn a_home_that_may_have_files_of_others_is_not_removed() {
    let installed = Installed::with_receipt(RECEIPT);
    for folder in ["documents", "project/.git", "runs"] {
        fs::create_dir_all(installed.path(folder)).unwrap();
    }
    fs::write(installed.path("documents/letter"), "").unwrap();
    // A project may have the configuration of Nexus, and the user's home a folder with the name of one in Nexus's home.
    fs::write(installed.path("documents/nexus.yaml"), "").unwrap();
    fs::create_dir(installed.path("project/runs")).unwrap();
    std::os::unix::fs::symlink(installed.folder.path(), installed.path("documents/link")).unwrap();
    fs::create_dir_all(installed.path("code/tasks")).unwrap();
    fs::create_dir_all(installed.path("project/deep/runs")).unwrap();
    fs::write(installed.path("project/deep/journal.jsonl"), "").unwrap();
    for home in [
        ".",
        "documents",
        "documents/..",
        "project",
        "documents/link",
        "documents/link/.",
        "code",
        "project/deep",
    ] {
        let mut command = Command::new(installed.path(".local/bin/nexus"));
        // In the root folder, so that only the home itself can be refused.
        command.env_clear().env("HOME", installed.folder.path()).current_dir("/");
        command.env("NEXUS_HOME", installed.path(home));
        let output = command.args(["uninstall", "--home", "--yes"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{home}: {output:?}");
        assert!(
            text(&output.stderr).contains("does not look like a home of Nexus alone"),
            "{home}: {output:?}"
        );
        for path in ["documents/letter", "project/runs", "runs", ".local/bin/nexus"] {
            assert!(installed.path(path).exists(), "{home}: {path}");
        }
    }
}

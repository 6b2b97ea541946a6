//! A run's home is private, and goes whatever is in it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use nexus_process::private_home::PrivateHome;
use nexus_process::run_id::RunId;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::support::shell;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn home() -> (tempfile::TempDir, PrivateHome) {
    let parent = tempfile::tempdir().unwrap();
    let home = PrivateHome::below(parent.path(), &RunId::new()).unwrap();
    (parent, home)
}

#[test]
fn a_home_is_private_and_never_overwrites() {
    let (_parent, home) = home();
    assert_eq!(mode(home.path()), 0o700);
    let file = home.write("config/auth.json", "secret").unwrap();
    assert_eq!((mode(&file), mode(&home.path().join("config"))), (0o600, 0o700));
    let error = home.write("config/auth.json", "other").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&file).unwrap(), "secret");
    symlink("/nowhere/at/all", home.path().join("link")).unwrap();
    assert!(home.write("link", "x").is_err(), "a link is never written through");
    for outside in ["../x", "/etc/x", "a/../../x", "", "."] {
        assert_eq!(
            home.write(outside, "x").unwrap_err().kind(),
            std::io::ErrorKind::InvalidInput,
            "{outside}"
        );
    }
}

#[test]
fn two_homes_of_one_run_are_two_folders() {
    let parent = tempfile::tempdir().unwrap();
    let run = RunId::new();
    let (first, second) =
        (PrivateHome::below(parent.path(), &run).unwrap(), PrivateHome::below(parent.path(), &run).unwrap());
    assert_ne!(first.path(), second.path());
    drop((first, second));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_drop_removes_what_it_may_not_read_and_follows_no_link() {
    let (parent, home) = home();
    let outside = parent.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    fs::set_permissions(&outside, Permissions::from_mode(0o500)).unwrap();
    let locked = home.folder("a/locked").unwrap();
    fs::write(locked.join("file"), "x").unwrap();
    symlink(&outside, locked.join("folder_link")).unwrap();
    symlink(outside.join("kept"), home.path().join("file_link")).unwrap();
    fs::set_permissions(locked.join("file"), Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(home.path().join("a"), Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o500)).unwrap();
    let path = home.path().to_owned();
    home.remove().unwrap();
    assert!(!path.exists());
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "x");
    assert_eq!(mode(&outside), 0o500);
    fs::set_permissions(&outside, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_link_in_the_place_of_a_home_is_removed_and_not_followed() {
    let (parent, home) = home();
    let outside = parent.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    let path = home.path().to_owned();
    fs::remove_dir(&path).unwrap();
    symlink(&outside, &path).unwrap();
    drop(home);
    assert!(fs::symlink_metadata(&path).is_err());
    assert!(outside.join("kept").exists());
}

#[test]
fn depth_is_no_obstacle() {
    let (_parent, home) = home();
    // Longer than any path may be, and deeper than a program may have files open.
    let mut folder = openat(CWD, home.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..1500 {
        mkdirat(&folder, "deep_folder_name", Mode::RWXU).unwrap();
        folder = openat(&folder, "deep_folder_name", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    drop(folder);
    let path = home.path().to_owned();
    home.remove().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_home_goes_while_something_still_writes_into_it() {
    let (_parent, home) = home();
    let script = "i=0; while [ $i -lt 400 ]; do mkdir -p \"$0/d$((i % 7))\" 2>/dev/null; echo x > \"$0/d$((i % 7))/$i\" 2>/dev/null; i=$((i+1)); done; exit 0";
    let process = shell(script).argument(home.path()).spawn().unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let path = home.path().to_owned();
    drop(process);
    drop(home);
    assert!(!path.exists());
}

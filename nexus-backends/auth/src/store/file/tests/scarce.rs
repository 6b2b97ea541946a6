//! A disk without space, and places where nothing can be replaced.

use std::{io::Write as _, process::Command};

use nexus_testkit::child_test;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::crashes::ROLE;
use super::*;

/// Whoever meets the limit gets an error, as on a full disk, and no signal.
#[test]
fn a_write_that_fails_leaves_the_old_login() {
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    if !child_test::runs_alone_through(ignoring, a_write_that_fails_leaves_the_old_login) {
        return;
    }
    let place = Place::with_login();
    let allow = |bytes| {
        setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum: None }).unwrap();
    };
    for bytes in [0, 1, 100, 300] {
        let pending = place.store.prepare().unwrap();
        allow(bytes);
        let error = pending.commit(&login(2).to_text()).unwrap_err();
        assert!(error.reason.starts_with("it cannot be written ("), "{error}");
        assert_eq!(generation(&place.store), Some(1));
        allow(1 << 30);
        assert_eq!(generation(&place.store), Some(1));
    }
    assert_eq!(place.names(), ["vendor.json"]);
    assert_eq!(generation(&place.store), Some(1));
}

/// The words that run a command where it may mount: as root, or as root of a user namespace. `None` if this system
/// allows neither.
fn in_mount_namespace() -> Option<Vec<&'static str>> {
    let ways: [&[&str]; 2] = [
        &["unshare", "--mount", "--propagation", "private", "--"],
        &["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "--"],
    ];
    let works = |way: &&&[&str]| {
        let trial =
            Command::new(way[0]).args(&way[1..]).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
        trial.is_ok_and(|output| output.status.success())
    };
    let way = ways.iter().find(works);
    if way.is_none() {
        eprintln!("this system allows no mounts: the tests with limits have to do");
    }
    way.map(|way| way.to_vec())
}

/// Runs the test in a child, after a shell has made the mounts for it.
fn play_mounted<T>(test: T, role: &Path, mounts: &str) {
    let Some(words) = in_mount_namespace() else { return };
    let script = format!("{mounts} && exec \"$@\"");
    let mut launcher = Command::new(words[0]);
    launcher.args(&words[1..]).args(["sh", "-c", &script, "sh"]);
    let output = child_test::through(launcher, test).env(ROLE, role).output().unwrap();
    child_test::assert_passed("the process with mounts of its own", &output);
}

/// Writes until nothing more fits.
fn fill(file: &Path) {
    let mut filler = std::fs::File::create(file).unwrap();
    for size in [4096, 1] {
        while filler.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

#[test]
fn on_a_full_disk_nothing_is_begun_and_what_is_begun_ends_well() {
    if let Ok(role) = std::env::var(ROLE) {
        let disk = PathBuf::from(role);
        let store = FileStore::new(disk.join("auth/vendor.json"));
        store.prepare().unwrap().commit(&login(1).to_text()).unwrap();

        fill(&disk.join("filler"));
        let error = store.prepare().unwrap_err();
        assert!(error.reason.ends_with("): free some space"), "{error}");
        assert_eq!(generation(&store), Some(1));
        assert_eq!(std::fs::read_dir(disk.join("auth")).unwrap().count(), 1);

        std::fs::remove_file(disk.join("filler")).unwrap();
        let pending = store.prepare().unwrap();
        fill(&disk.join("filler"));
        let full = std::fs::write(disk.join("one more"), "x").unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        pending.commit(&login(2).to_text()).unwrap();
        assert_eq!(generation(&store), Some(2));
        let blocks = disk.join("auth/vendor.json").metadata().unwrap().blocks();
        assert!(blocks * 512 < RESERVED_BYTES, "{blocks} blocks are still taken");
        return;
    }
    let disk = tempfile::tempdir().unwrap();
    play_mounted(
        on_a_full_disk_nothing_is_begun_and_what_is_begun_ends_well,
        disk.path(),
        &format!("mount -t tmpfs -o size=512k,mode=0700 tmpfs {}", disk.path().display()),
    );
}

#[test]
fn where_nothing_can_be_replaced_nothing_is_begun() {
    if let Ok(role) = std::env::var(ROLE) {
        let home = PathBuf::from(role);
        let error = FileStore::new(home.join("alone/vendor.json")).prepare().unwrap_err();
        let reason = "it is a mount point, so it cannot be replaced: mount its folder instead";
        assert_eq!(error.reason, reason);
        let read_only = FileStore::new(home.join("read-only/vendor.json"));
        let error = read_only.prepare().unwrap_err();
        assert!(error.reason.starts_with("nothing can be written to its folder ("), "{error}");
        assert!(error.reason.ends_with("): choose another NEXUS_HOME"), "{error}");
        assert_eq!(generation(&read_only), Some(1));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["alone", "read-only"] {
        let store = FileStore::new(folder.path().join(name).join("vendor.json"));
        store.prepare().unwrap().commit(&login(1).to_text()).unwrap();
    }
    let at = folder.path().display();
    play_mounted(
        where_nothing_can_be_replaced_nothing_is_begun,
        folder.path(),
        &format!(
            "mount --bind {at}/alone/vendor.json {at}/alone/vendor.json && mount --bind {at}/read-only {at}/read-only && \
             mount -o remount,bind,ro {at}/read-only"
        ),
    );
}

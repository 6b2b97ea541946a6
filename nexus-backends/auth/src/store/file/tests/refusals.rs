//! What a store does not trust, with the way out that it names.

use rustix::fs::mknodat;

use super::*;

/// Refused by everything that reads or writes, with this reason; and nothing is changed.
#[track_caller]
fn assert_refused(store: &FileStore, reason: &str) {
    let path = store.path().to_owned();
    let look = || {
        let found = std::fs::symlink_metadata(&path).ok()?;
        Some((found.ino(), found.size(), found.mtime_nsec()))
    };
    let before = look();
    for error in [store.read().unwrap_err(), store.prepare().map(drop).unwrap_err()] {
        assert_eq!(error.place, format!("the file {}", path.display()));
        assert_eq!(error.reason, reason);
        assert_eq!(error.to_string(), format!("{}: {reason}", error.place));
        assert!(!format!("{error:?}").contains("canary"));
    }
    assert_eq!(before, look());
}

#[test]
fn a_file_that_others_may_read_or_write_is_refused() {
    let place = Place::with_login();
    let file = place.auth().join("vendor.json");
    for others in [0o644, 0o640, 0o604, 0o660, 0o602, 0o601, 0o610, 0o777] {
        set_mode(&file, others);
        let reason = format!("others may read it (mode {others:o}): run `chmod 600 {}`", file.display());
        assert_refused(&place.store, &reason);
    }
    for ours in [0o600, 0o700] {
        set_mode(&file, ours);
        assert_eq!(generation(&place.store), Some(1));
    }
    place.commit(2);
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    let place = Place::with_login();
    for others in [0o755, 0o750, 0o711, 0o701, 0o770, 0o1777] {
        set_mode(&place.auth(), others);
        let rights = others & 0o777;
        let folder = place.auth();
        let reason =
            format!("others may enter its folder (mode {rights:o}): run `chmod 700 {}`", folder.display());
        assert_refused(&place.store, &reason);
        assert_eq!(place.store.recover(&is_newer).unwrap_err().reason, reason);
    }
    set_mode(&place.auth(), 0o700);
    assert_eq!(generation(&place.store), Some(1));
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    let way_out = ": run it as that user, or choose another NEXUS_HOME";
    let we = rustix::process::geteuid();
    if !we.is_root() {
        let reason =
            format!("its folder belongs to user 0, but this process runs as user {}{way_out}", we.as_raw());
        assert_refused(&FileStore::new("/etc/vendor.json"), &reason);
        return;
    }
    let place = Place::with_login();
    let give_away = |path: PathBuf| std::os::unix::fs::chown(path, Some(65534), None).unwrap();
    give_away(place.auth().join("vendor.json"));
    let reason = format!("it belongs to user 65534, but this process runs as user 0{way_out}");
    assert_refused(&place.store, &reason);
    give_away(place.auth());
    let reason = format!("its folder belongs to user 65534, but this process runs as user 0{way_out}");
    assert_refused(&place.store, &reason);
}

#[test]
fn a_link_is_not_followed() {
    let place = Place::with_login();
    let file = place.auth().join("vendor.json");
    std::fs::rename(&file, place.auth().join("elsewhere.json")).unwrap();
    std::os::unix::fs::symlink("elsewhere.json", &file).unwrap();
    assert_refused(&place.store, "it is a symbolic link: replace it with the file itself");
    let error = place.store.remove().unwrap_err();
    assert_eq!(error.reason, "it is a symbolic link and not a file: move it away");
    assert_eq!(place.names(), ["elsewhere.json", "vendor.json"]);

    // Nor is one that leads nowhere, which would else be taken for nothing.
    std::fs::remove_file(place.auth().join("elsewhere.json")).unwrap();
    assert_refused(&place.store, "it is a symbolic link: replace it with the file itself");
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let place = Place::with_login();
    let file = place.auth().join("vendor.json");

    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    set_mode(&file, 0o700);
    assert_refused(&place.store, "it is a folder and not a file: move it away");
    assert!(place.store.remove().is_err());

    std::fs::remove_dir(&file).unwrap();
    mknodat(rustix::fs::CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_refused(&place.store, "it is a pipe and not a file: move it away");
    assert!(place.store.remove().is_err());

    std::fs::remove_file(&file).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&file).unwrap();
    assert_refused(&place.store, "it is a socket and not a file: move it away");
}

#[test]
fn a_huge_file_is_refused_unread() {
    let place = Place::with_login();
    let file = place.auth().join("vendor.json");
    let sparse = std::fs::File::options().write(true).open(&file).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let error = place.store.read().unwrap_err();
    assert_eq!(error.reason, "it has 1099511627776 bytes, more than the 1048576 of a login: move it away");
    sparse.set_len(MAX_TEXT_BYTES).unwrap();
    assert_eq!(place.store.read().unwrap().unwrap().expose().len() as u64, MAX_TEXT_BYTES);
}

#[test]
fn a_text_too_large_to_be_read_is_not_written() {
    let place = Place::with_login();
    let text = Secret::new("x".repeat(1 + usize::try_from(MAX_TEXT_BYTES).unwrap()));
    let error = place.store.prepare().unwrap().commit(&text).unwrap_err();
    assert_eq!(error.reason, "a login of 1048577 bytes is larger than the limit");
    assert_eq!((place.names(), generation(&place.store)), (vec!["vendor.json".to_owned()], Some(1)));
}

#[test]
fn a_file_that_is_not_text_is_refused() {
    let place = Place::with_login();
    place.put("vendor.json", b"canary\xff");
    let error = place.store.read().unwrap_err();
    assert_eq!(error.reason, "it is not text: restore a complete copy, or move it away and log in again");
}

#[test]
fn an_empty_file_is_not_taken_for_nothing() {
    let place = Place::with_login();
    place.put("vendor.json", b"");
    assert_eq!(place.store.read().unwrap(), Some(Secret::new("")));
}

#[test]
fn something_else_in_the_place_of_the_folder_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.folder.path().join("home")).unwrap();
    std::fs::write(place.auth(), "a file").unwrap();
    let reason = format!("{} is not a folder: move it away", place.auth().display());
    assert_eq!(place.store.read().unwrap_err().reason, reason);
    assert_eq!(place.store.prepare().unwrap_err().reason, reason);
}

#[test]
fn a_path_that_names_no_file_is_refused() {
    for path in ["/", ".."] {
        let error = FileStore::new(path).remove().unwrap_err();
        assert_eq!(error.reason, "its path does not name a file");
    }
}

#[test]
fn what_an_unfinished_write_left_is_looked_at_as_closely() {
    let place = Place::with_login();
    let name = ".vendor.json.77-0.new";
    place.put(name, login(2).to_text().expose().as_bytes());
    set_mode(&place.auth().join(name), 0o644);
    let error = place.store.recover(&is_newer).unwrap_err();
    assert_eq!(
        error.reason,
        format!(
            "the file of an unfinished write, {name}, cannot be used: others may read it (mode 644): run `chmod 600 {}`",
            place.auth().join(name).display()
        )
    );
    assert_eq!(generation(&place.store), Some(1));

    std::fs::remove_file(place.auth().join(name)).unwrap();
    std::os::unix::fs::symlink("vendor.json", place.auth().join(name)).unwrap();
    let error = place.store.recover(&is_newer).unwrap_err();
    assert!(error.reason.ends_with("it is a symbolic link: replace it with the file itself"), "{error}");
    assert_eq!(place.names(), [name, "vendor.json"]);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_found_before_anything_is_spent() {
    if rustix::process::geteuid().is_root() {
        // Rights do not bind root; what does is in the tests of mounts.
        return;
    }
    let place = Place::with_login();
    set_mode(&place.auth(), 0o500);
    let error = place.store.prepare().unwrap_err();
    set_mode(&place.auth(), 0o700);
    assert!(error.reason.starts_with("nothing can be written to its folder ("), "{error}");
    assert!(error.reason.ends_with("correct its permissions, or choose another NEXUS_HOME"), "{error}");
    assert_eq!((place.names(), generation(&place.store)), (vec!["vendor.json".to_owned()], Some(1)));
}

/// Only where the file system has such a mark and we may set it.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_must_not_be_changed_is_found_before_anything_is_spent() {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

    let place = Place::with_login();
    for (path, what) in [(place.auth().join("vendor.json"), "it"), (place.auth(), "its folder")] {
        let file = std::fs::File::open(&path).unwrap();
        let Ok(flags) = ioctl_getflags(&file) else { return };
        if ioctl_setflags(&file, flags | IFlags::IMMUTABLE).is_err() {
            return;
        }
        let outcome = place.store.prepare().map(drop);
        ioctl_setflags(&file, flags).unwrap();
        let reason = outcome.unwrap_err().reason;
        assert_eq!(
            reason,
            format!("{what} is immutable or append-only: run `chattr -ia {}`", path.display())
        );
        assert_eq!(place.names(), ["vendor.json"]);
    }
}

//! Tests of files that the outside prepared: links, pipes, large files, and writers that die.
#![cfg(unix)]

#[cfg(feature = "journal")]
mod home_index;
#[cfg(feature = "journal")]
mod journal;
#[cfg(feature = "json-lines")]
mod json_lines;

use std::{
    fs,
    io::ErrorKind,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use nexus_files::{FileLock, create_once, read_bounded, remove_unfinished, replace, unfinished};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_regular_files_are_read_and_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "text").unwrap();
    symlink(path("file"), path("link")).unwrap();
    symlink(path("nothing"), path("dangling")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(path("socket")).unwrap();
    for name in ["link", "dangling", "folder", "pipe", "socket"] {
        let path = path(name);
        let kinds = [
            FileLock::is_locked(&path).unwrap_err().kind(),
            read_bounded(&path, 10).unwrap_err().kind(),
            FileLock::try_lock(&path).unwrap_err().kind(),
            FileLock::try_lock_existing(&path).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::InvalidData; 4], "{name}");
    }
    assert!(!path("nothing").exists(), "no lock is created at the end of a link");
    assert_eq!(read_bounded(&path("file"), 4).unwrap().unwrap(), b"text");
    assert_eq!(read_bounded(&path("file"), 3).unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(read_bounded(&path("none"), 3).unwrap().is_none());
}

#[test]
fn files_and_folders_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/deep/file");
    replace(&path, b"one").unwrap();
    replace(&path, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let once = folder.path().join("other/once");
    assert!(create_once(&once, b"first").unwrap());
    assert!(!create_once(&once, b"second").unwrap());
    assert_eq!(fs::read(&once).unwrap(), b"first");
    assert_eq!((mode(&once), mode(once.parent().unwrap())), (0o600, 0o700));
    assert_eq!(fs::read_dir(once.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_replaced_link_is_the_file_and_its_target_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (folder.path().join("link"), folder.path().join("target"));
    fs::write(&target, "mine").unwrap();
    symlink(&target, &link).unwrap();
    assert!(!create_once(&link, b"new").unwrap());
    replace(&link, b"new").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    assert_eq!(fs::read(&target).unwrap(), b"mine");
}

#[test]
fn of_many_creators_one_succeeds_and_all_read_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let created = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let (path, created) = (&path, &created);
            scope.spawn(move || {
                if create_once(path, &[number; 64]).unwrap() {
                    created.fetch_add(1, Ordering::Relaxed);
                }
                let bytes = read_bounded(path, 64).unwrap().unwrap();
                assert!(bytes.len() == 64 && bytes.iter().all(|byte| *byte == bytes[0]));
            });
        }
    });
    assert_eq!(created.into_inner(), 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn unfinished_files_of_dead_writers_are_found_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    for name in [".status.json.0123.new", ".other.0123.new", "status.json", ".hidden", "a.new"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let found = unfinished(folder.path(), "status.json");
    assert_eq!(found, [folder.path().join(".status.json.0123.new")]);
    remove_unfinished(folder.path());
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".hidden", "a.new", "status.json"]);
}

#[test]
fn a_failed_replacement_leaves_the_old_content_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folder");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "").unwrap();
    assert!(replace(&path, b"text").is_err());
    assert!(path.join("inside").exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(feature = "rfc3339")]
mod times {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use nexus_files::rfc3339;

    #[test]
    fn a_time_is_cut_and_read_back() {
        let time = UNIX_EPOCH + Duration::new(1_769_860_800, 123_456_789);
        assert_eq!(rfc3339::seconds(time), "2026-01-31T12:00:00Z");
        assert_eq!(rfc3339::millis(time), "2026-01-31T12:00:00.123Z");
        assert_eq!(rfc3339::micros(time), "2026-01-31T12:00:00.123456Z");
        assert_eq!(rfc3339::parse(&rfc3339::micros(time)), Some(rfc3339::cut_to_micros(time)));
        assert_eq!(rfc3339::parse("tomorrow"), None);
    }

    #[test]
    fn times_without_a_text_become_the_nearest_one() {
        let far = UNIX_EPOCH + Duration::from_secs(u64::MAX >> 1);
        assert_eq!(rfc3339::seconds(far), "9999-12-31T23:59:59Z");
        assert_eq!(rfc3339::millis(far), "9999-12-31T23:59:59.999Z");
        assert_eq!(rfc3339::seconds(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn fields_are_written_and_read() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Record {
            #[serde(with = "rfc3339::as_millis")]
            at: SystemTime,
            #[serde(with = "rfc3339::as_millis::option")]
            until: Option<SystemTime>,
            #[serde(with = "rfc3339::as_micros")]
            exactly: SystemTime,
        }
        let at = UNIX_EPOCH + Duration::from_millis(1_500);
        let record = Record { at, until: None, exactly: at };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            text,
            r#"{"at":"1970-01-01T00:00:01.500Z","until":null,"exactly":"1970-01-01T00:00:01.500000Z"}"#
        );
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        let error = serde_json::from_str::<Record>(&text.replace("00:00:01", "25:00:01")).unwrap_err();
        assert!(error.to_string().contains("is not a time such as"), "{error}");
    }
}

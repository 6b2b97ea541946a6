//! What is left when a writer stops at any byte or between any two steps.

use nexus_testkit::{child_test, effort};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::*;

/// Says to a child of a test what it is.
pub(super) const ROLE: &str = "NEXUS_STORE_TEST_ROLE";

/// A reader sees the old login; after a recovery it sees the login `to`, and nothing else is left.
#[track_caller]
fn assert_recovers(place: &Place, to: u64, context: &str) {
    assert_eq!(generation(&place.store), Some(1), "{context}");
    assert_eq!(place.store.recover(&is_newer).unwrap(), to != 1, "{context}");
    assert_eq!(place.store.read().unwrap(), Some(login(to).to_text()), "{context}");
    assert_eq!(place.names(), ["vendor.json"], "{context}");
    assert!(!place.store.recover(&is_newer).unwrap(), "{context}");
    place.commit(to + 1);
    assert_eq!(generation(&place.store), Some(to + 1), "{context}");
}

#[test]
fn whatever_part_was_written_the_old_login_stays_until_the_new_one_is_whole() {
    let text = login(2).to_text();
    let bytes = text.expose().as_bytes();
    let place = Place::with_login();
    let zeros = [0; 32];
    let step = if effort::is_deep() { 1 } else { bytes.len() / 4 };
    for length in (0..bytes.len()).step_by(step).chain([bytes.len() - 1, bytes.len()]) {
        let to = if length == bytes.len() { 2 } else { 1 };
        for padding in [0, zeros.len()] {
            place.commit(1);
            place.put(".vendor.json.4711-12.new", &[&bytes[..length], &zeros[..padding]].concat());
            assert_recovers(&place, to, &format!("{length} bytes and {padding} zeros"));
        }
    }
}

#[test]
fn a_first_login_is_put_in_place_if_it_was_whole() {
    let text = login(1).to_text();
    for (part, is_there) in [(text.expose(), true), (&text.expose()[..300], false), ("", false)] {
        let place = Place::with_login();
        std::fs::remove_file(place.auth().join("vendor.json")).unwrap();
        place.put(".vendor.json.1-0.new", part.as_bytes());
        assert_eq!(place.store.read().unwrap(), None);
        assert_eq!(place.store.recover(&is_newer).unwrap(), is_there);
        assert_eq!(place.store.read().unwrap().is_some(), is_there);
        assert_eq!(place.names().len(), usize::from(is_there));
    }
}

#[test]
fn of_several_unfinished_writes_the_newest_stays() {
    let place = Place::with_login();
    let unfinished = [(".vendor.json.9-0.new", 4), (".vendor.json.10-0.new", 3), (".vendor.json.1-0.new", 1)];
    for (name, generation) in unfinished {
        place.put(name, login(generation).to_text().expose().as_bytes());
    }
    place.put(".vendor.json.11-0.new", b"\xff\xfe");
    place.put(".vendor.json.12-0.new", &vec![b'{'; 2 << 20]);
    place.put(".vendor.json.backup", b"of a person");
    place.put(".other.json.1-0.new", b"of another login");
    assert!(place.store.recover(&is_newer).unwrap());
    assert_eq!(generation(&place.store), Some(4));
    assert_eq!(place.names(), [".other.json.1-0.new", ".vendor.json.backup", "vendor.json"]);
}

#[test]
fn what_nobody_can_judge_is_left_alone() {
    let place = Place::with_login();
    place.put(".vendor.json.1-0.new", login(2).to_text().expose().as_bytes());
    let error = place.store.recover_by(&|_, _| Err(place.store.error("no answer"))).unwrap_err();
    assert_eq!(error.reason, "no answer");
    assert_eq!(place.names(), [".vendor.json.1-0.new", "vendor.json"]);
}

/// Leaves a whole login of a writer that is dead, whose lock the kernel has not given up yet.
fn locked(place: &Place, generation: u64) -> std::fs::File {
    place.put(".vendor.json.1-0.new", login(generation).to_text().expose().as_bytes());
    let file = std::fs::File::open(place.auth().join(".vendor.json.1-0.new")).unwrap();
    file.lock().unwrap();
    file
}

#[test]
fn a_whole_text_that_is_still_locked_is_waited_for_and_put_in_place() {
    let place = Place::with_login();
    let file = locked(&place, 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(std::time::Duration::from_millis(100));
            drop(file);
        });
        assert!(place.store.recover(&is_newer).unwrap());
    });
    assert_eq!((generation(&place.store), place.names()), (Some(2), vec!["vendor.json".to_owned()]));
}

#[test]
fn a_whole_text_that_its_writer_puts_in_place_after_all_is_left_to_it() {
    let place = Place::with_login();
    let _file = locked(&place, 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(std::time::Duration::from_millis(100));
            std::fs::rename(place.auth().join(".vendor.json.1-0.new"), place.store.path()).unwrap();
        });
        assert!(!place.store.recover(&is_newer).unwrap());
        assert_eq!(generation(&place.store), Some(2));
    });
}

#[test]
fn a_whole_text_that_stays_locked_is_an_error_and_one_that_is_not_newer_is_nobodys_business() {
    let place = Place::with_login();
    let file = locked(&place, 2);
    let error = place.store.recover(&is_newer).unwrap_err();
    assert!(error.reason.starts_with("another process has written a newer login, .vendor.json."), "{error}");
    assert_eq!((generation(&place.store), place.names().len()), (Some(1), 2));
    place.commit(2);
    assert!(!place.store.recover(&is_newer).unwrap());
    drop(file);
    // A process that another test starts has the lock for a moment: files are open in it until it executes its program.
    let began = std::time::Instant::now();
    while place.names() != ["vendor.json"] {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", place.names());
        assert!(!place.store.recover(&is_newer).unwrap());
    }
}

/// The kernel ends the writer at a byte: past a limit of its file size, with a signal.
#[test]
fn a_writer_that_is_killed_at_any_byte_loses_nothing() {
    if let Ok(role) = std::env::var(ROLE) {
        let (limit, path) = role.split_once(' ').unwrap();
        let at_most = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
        let pending = FileStore::new(path).prepare().unwrap();
        setrlimit(Resource::Core, at_most(0)).unwrap();
        setrlimit(Resource::Fsize, at_most(limit.parse().unwrap())).unwrap();
        pending.commit(&login(2).to_text()).unwrap();
        return;
    }
    let length = login(2).to_text().expose().len();
    let step = if effort::is_deep() { 13 } else { length / 4 };
    for limit in (0..length).step_by(step).chain([1, length - 1, length]) {
        let place = Place::with_login();
        let role = format!("{limit} {}", place.store.path().display());
        let mut child = child_test::command(a_writer_that_is_killed_at_any_byte_loses_nothing);
        let output = child.env(ROLE, &role).output().unwrap();
        if limit == length {
            child_test::assert_passed("the writer that is not killed", &output);
            assert_eq!(generation(&place.store), Some(2));
            continue;
        }
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(rustix::process::Signal::XFSZ.as_raw()), "{limit} of {length}: {output:?}");
        let left = place.names();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(place.auth().join(&left[0]).metadata().unwrap().size(), limit as u64);
        assert_recovers(&place, 1, &format!("killed after {limit} bytes"));
    }
}

mod crashes;
mod refusals;
mod scarce;

use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use tempfile::TempDir;

use super::*;
use crate::store::{
    StoredLogin,
    fixture::{CANARY, is_newer, login},
};

/// A store in a folder that is not there yet, in a folder that is gone with the test.
struct Place {
    folder: TempDir,
    store: FileStore,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path().join("home/auth/vendor.json"));
        Self { folder, store }
    }

    /// With the first login in it.
    fn with_login() -> Self {
        let place = Self::new();
        place.commit(1);
        place
    }

    fn commit(&self, generation: u64) {
        self.store.prepare().unwrap().commit(&login(generation).to_text()).unwrap();
    }

    fn auth(&self) -> PathBuf {
        self.folder.path().join("home/auth")
    }

    /// Writes a file beside the login, of mode 0600.
    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.auth().join(name), bytes).unwrap();
        set_mode(&self.auth().join(name), 0o600);
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.auth()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// The generation of the login that the store gives out.
fn generation(store: &FileStore) -> Option<u64> {
    let text = store.read().unwrap()?;
    Some(StoredLogin::from_text(&text).unwrap().generation)
}

#[test]
fn where_nothing_is_nothing_is_read_and_nothing_made() {
    let place = Place::new();
    assert_eq!(place.store.read().unwrap(), None);
    assert!(!place.store.recover(&is_newer).unwrap());
    assert!(!place.store.remove().unwrap());
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 0);
}

#[test]
fn what_was_committed_is_read_and_belongs_to_us_alone() {
    let place = Place::new();
    place.commit(1);
    assert_eq!(place.store.read().unwrap(), Some(login(1).to_text()));
    assert_eq!(place.names(), ["vendor.json"]);
    let file = place.auth().join("vendor.json");
    assert_eq!(
        (mode(&file), mode(&place.auth()), mode(&place.folder.path().join("home"))),
        (0o600, 0o700, 0o700)
    );
    assert_eq!(file.metadata().unwrap().uid(), rustix::process::geteuid().as_raw());

    place.commit(2);
    assert_eq!(place.store.read().unwrap(), Some(login(2).to_text()));
    assert_eq!(place.names(), ["vendor.json"]);
    assert!(place.store.remove().unwrap());
    assert_eq!(place.store.read().unwrap(), None);
    assert!(!place.store.remove().unwrap());
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn space_that_was_reserved_and_not_needed_is_given_back() {
    let place = Place::with_login();
    let file = place.auth().join("vendor.json").metadata().unwrap();
    assert!(file.blocks() * 512 < RESERVED_BYTES, "{} blocks for {} bytes", file.blocks(), file.size());
}

#[test]
fn a_write_that_is_not_committed_leaves_nothing() {
    let place = Place::with_login();
    let pending = place.store.prepare().unwrap();
    assert_eq!(place.names().len(), 2);
    assert_eq!(generation(&place.store), Some(1));
    drop(pending);
    assert_eq!(place.names(), ["vendor.json"]);
    assert_eq!(generation(&place.store), Some(1));
}

#[test]
fn zeros_that_hold_the_place_of_a_text_are_not_part_of_it() {
    let place = Place::with_login();
    let pending = place.store.pending().unwrap();
    pending.reserve_by_zeros_for_test(8192);
    assert_eq!(place.auth().join(&place.names()[0]).metadata().unwrap().size(), 8192);
    let pending = Box::new(PreparedFileWrite { store: place.store.clone(), pending });
    pending.commit(&login(2).to_text()).unwrap();
    assert_eq!(place.store.read().unwrap(), Some(login(2).to_text()));
}

#[test]
fn two_writers_do_not_get_in_each_others_way() {
    let place = Place::with_login();
    // One waits for a person to sign in, while the other refreshes and recovers.
    let waiting = place.store.prepare().unwrap();
    place.commit(2);
    assert!(!place.store.recover(&is_newer).unwrap());
    assert_eq!(place.names().len(), 2, "the file of the living writer is gone");
    assert_eq!(generation(&place.store), Some(2));
    waiting.commit(&login(3).to_text()).unwrap();
    assert_eq!(place.store.read().unwrap(), Some(login(3).to_text()));
    assert_eq!(place.names(), ["vendor.json"]);
}

#[test]
fn a_writer_whose_file_or_folder_was_tidied_away_makes_it_anew() {
    let place = Place::with_login();
    let pending = place.store.prepare().unwrap();
    let name = place.names().remove(0);
    std::fs::remove_file(place.auth().join(name)).unwrap();
    pending.commit(&login(2).to_text()).unwrap();
    assert_eq!(generation(&place.store), Some(2));

    let pending = place.store.prepare().unwrap();
    std::fs::remove_dir_all(place.auth()).unwrap();
    pending.commit(&login(3).to_text()).unwrap();
    assert_eq!(generation(&place.store), Some(3));
    assert_eq!((place.names(), mode(&place.auth())), (vec!["vendor.json".to_owned()], 0o700));
}

#[test]
fn a_writer_removes_only_its_own_file() {
    let place = Place::with_login();
    let pending = place.store.prepare().unwrap();
    let name = place.names().remove(0);
    std::fs::remove_file(place.auth().join(&name)).unwrap();
    place.put(&name, b"of somebody else");
    drop(pending);
    assert_eq!(place.names(), [name, "vendor.json".to_owned()]);
}

#[test]
fn a_text_that_could_not_be_put_in_place_is_kept_for_a_recovery() {
    let place = Place::with_login();
    let pending = place.store.prepare().unwrap();
    std::fs::remove_file(place.auth().join("vendor.json")).unwrap();
    std::fs::create_dir(place.auth().join("vendor.json")).unwrap();
    let error = pending.commit(&login(2).to_text()).unwrap_err();
    assert!(error.reason.starts_with("it cannot be replaced ("), "{error}");

    std::fs::remove_dir(place.auth().join("vendor.json")).unwrap();
    assert_eq!(place.store.read().unwrap(), None);
    assert!(place.store.recover(&is_newer).unwrap());
    assert_eq!(place.store.read().unwrap(), Some(login(2).to_text()));
    assert_eq!(place.names(), ["vendor.json"]);
}

#[test]
fn removing_takes_what_was_left_unfinished_along() {
    let place = Place::with_login();
    place.put(".vendor.json.1-1.new", login(2).to_text().expose().as_bytes());
    place.put(".vendor.json.backup", b"kept");
    place.put("other.json", b"kept");
    // What goes needs not be trusted.
    set_mode(&place.auth().join("vendor.json"), 0o644);
    assert!(place.store.remove().unwrap());
    assert_eq!(place.names(), [".vendor.json.backup", "other.json"]);
}

#[test]
fn the_file_is_removed_last_so_that_nothing_unfinished_is_ever_left_alone() {
    let place = Place::with_login();
    std::fs::create_dir(place.auth().join(".vendor.json.1-1.new")).unwrap();
    place.store.remove().unwrap_err();
    assert_eq!(generation(&place.store), Some(1));
    std::fs::remove_dir(place.auth().join(".vendor.json.1-1.new")).unwrap();
    assert!(place.store.remove().unwrap());
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_file_is_one_store_and_another_file_another() {
    let (place, other) = (Place::new(), Place::new());
    assert_eq!(place.store.identity(), FileStore::new(place.store.path()).identity());
    assert_ne!(place.store.identity(), other.store.identity());
}

#[test]
fn readers_never_see_a_part() {
    const WRITES: u64 = 1000;
    let place = Place::with_login();
    let is_over = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let text = place.store.read().unwrap().unwrap();
                    let found = StoredLogin::from_text(&text).unwrap();
                    assert_eq!(found, login(found.generation));
                    assert!(found.generation >= last, "{} after {last}", found.generation);
                    last = found.generation;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let written =
            thread::Builder::new().spawn_scoped(scope, || (2..=WRITES).for_each(|n| place.commit(n)));
        let written = written.unwrap().join();
        is_over.store(true, Ordering::Relaxed);
        written.unwrap();
    });
    assert_eq!(generation(&place.store), Some(WRITES));
    assert!(reads.into_inner() > WRITES, "hardly anything was read");
}

#[test]
fn nothing_that_is_printed_shows_a_token() {
    let place = Place::with_login();
    let pending = place.store.prepare().unwrap();
    let printed = format!("{:?} {pending:?} {:?} {}", place.store, place.store.read(), place.store.place());
    assert!(place.store.read().unwrap().unwrap().expose().contains(CANARY));
    assert!(printed.contains("vendor.json"), "{printed}");
    assert!(!printed.contains("canary"), "{printed}");
}

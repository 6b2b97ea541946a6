use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;
use crate::store::{
    StoredLogin,
    fixture::{CANARY, is_newer, login},
};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn store(&self) -> LoginStore {
        LoginStore::at(self.0.path(), "vendor")
    }

    fn auth(&self) -> PathBuf {
        self.0.path().join("auth")
    }

    fn commit(&self, generation: u64) {
        self.store().prepare().unwrap().commit(&login(generation).to_text()).unwrap();
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.auth().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn files(&self) -> usize {
        fs::read_dir(self.auth()).unwrap().count()
    }
}

const POINTER: &str = "{\"version\": 1, \"stored_in\": \"keyring\"}\n";

#[test]
fn a_login_is_put_in_a_file_unless_told_otherwise() {
    let home = Home::new();
    let store = home.store();
    assert_eq!((store.read().unwrap(), store.present_place().unwrap()), (None, None));
    assert!(!store.recover(&is_newer).unwrap());
    home.commit(1);
    assert_eq!(store.read().unwrap(), Some(login(1).to_text()));
    assert_eq!(store.present_place().unwrap(), Some(StorePlace::File));
    let file = home.auth().join("vendor.json");
    assert_eq!(fs::read_to_string(&file).unwrap(), login(1).to_text().expose());
    assert_eq!(store.place(), format!("the file {}", file.display()));

    assert!(store.remove().unwrap());
    assert!(!store.remove().unwrap());
    assert_eq!(store.read().unwrap(), None);
}

#[test]
fn an_unfinished_write_is_finished() {
    let home = Home::new();
    home.commit(1);
    home.put(".vendor.json.1-0.new", login(2).to_text().expose());
    assert!(home.store().recover(&is_newer).unwrap());
    assert_eq!(home.store().read().unwrap(), Some(login(2).to_text()));
    for unfinished in [login(1).to_text().expose(), &POINTER[..POINTER.len() - 1], "", "{\"version\": 2"] {
        home.put(".vendor.json.1-1.new", unfinished);
        assert!(!home.store().recover(&is_newer).unwrap());
        assert_eq!((home.files(), home.store().read().unwrap()), (1, Some(login(2).to_text())));
    }
}

#[test]
fn what_is_whole_and_not_understood_is_left_for_a_person() {
    let home = Home::new();
    home.commit(1);
    for (found, reason) in [
        ("{\"version\": 2}\n", "a newer version of Nexus wrote it"),
        (
            "{\"version\": 1, \"stored_in\": \"canary\"}\n",
            "it names a location of the login that this version of Nexus",
        ),
        ("{\"version\": 1, \"canary\": 1}\n", "it has no `access_token`"),
    ] {
        home.put(".vendor.json.1-0.new", found);
        let error = home.store().recover(&is_newer).unwrap_err().reason;
        let left = "the file of an unfinished write beside it, with the ending .new: ";
        assert!(error.starts_with(&format!("{left}{reason}")) && !error.contains("canary"), "{error}");
        assert_eq!((home.files(), home.store().read().unwrap()), (2, Some(login(1).to_text())));
    }

    // Nor is a whole login dropped because the one in place makes no sense.
    home.put(".vendor.json.1-0.new", login(2).to_text().expose());
    home.put("vendor.json", "{\"version\": 2}\n");
    let error = home.store().recover(&is_newer).unwrap_err().reason;
    assert!(error.starts_with("a newer version of Nexus wrote it"), "{error}");
    assert_eq!(home.files(), 2);
    home.put("vendor.json", "");
    assert!(home.store().recover(&is_newer).is_err());
    fs::remove_file(home.auth().join("vendor.json")).unwrap();
    assert!(home.store().recover(&is_newer).unwrap());
    assert_eq!(home.store().read().unwrap(), Some(login(2).to_text()));
}

#[test]
fn a_place_that_is_not_known_is_refused_and_not_overwritten() {
    let home = Home::new();
    home.commit(1);
    home.put("vendor.json", "{\"version\": 1, \"stored_in\": \"canary\"}\n");
    let store = home.store().moving_to(StorePlace::File);
    for error in [store.read().unwrap_err(), store.prepare().map(drop).unwrap_err()] {
        assert_eq!(
            error.reason,
            "it names a location of the login that this version of Nexus does not support: update Nexus"
        );
    }
}

#[test]
fn what_cannot_be_trusted_or_understood_can_be_removed() {
    let home = Home::new();
    for text in ["", "canary", "{\"version\": 2}\n", "{\"version\": 1, \"stored_in\": \"elsewhere\"}\n"] {
        home.commit(1);
        home.put("vendor.json", text);
        fs::set_permissions(home.auth().join("vendor.json"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(home.auth(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(home.store().read().is_err());
        assert!(home.store().remove().unwrap());
        fs::set_permissions(home.auth(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(home.files(), 0);
    }
}

#[cfg(not(feature = "keyring"))]
#[test]
fn a_build_without_keyrings_says_where_the_login_is() {
    let home = Home::new();
    home.commit(1);
    home.put("vendor.json", POINTER);
    let errors = [
        home.store().read().unwrap_err(),
        home.store().prepare().map(drop).unwrap_err(),
        home.store().remove().unwrap_err(),
    ];
    for error in errors {
        let belongs = format!(
            "the login vendor of {} is stored in the keyring, but this build",
            home.0.path().display()
        );
        assert!(error.reason.starts_with(&belongs), "{error}");
        assert!(error.reason.ends_with("move the file away and log in again"), "{error}");
    }
    assert_eq!(fs::read_to_string(home.auth().join("vendor.json")).unwrap(), POINTER);
    let nowhere = Home::new();
    assert!(nowhere.store().moving_to(StorePlace::Keyring).prepare().is_err());
}

#[cfg(feature = "keyring")]
#[test]
fn in_the_keyring_a_login_is_named_after_its_home() {
    let home = Home::new();
    home.commit(1);
    home.put("vendor.json", POINTER);
    assert_eq!(home.store().present_place().unwrap(), Some(StorePlace::Keyring));
    let real = fs::canonicalize(home.0.path()).unwrap();
    let store = home.store();
    assert_eq!(store.present_place().unwrap(), Some(StorePlace::Keyring));
    assert_eq!(store.place(), format!("the keyring (service nexus, user vendor@{})", real.display()));
}

#[test]
fn nothing_that_is_printed_shows_a_token() {
    let home = Home::new();
    home.commit(1);
    let store = home.store();
    let pending = store.prepare().unwrap();
    let text = store.read().unwrap().unwrap();
    assert!(text.expose().contains(CANARY));
    let printed = format!("{store:?} {pending:?} {text:?} {:?}", StoredLogin::from_text(&text));
    assert!(!printed.contains("canary"), "{printed}");
    let memory = super::super::MemoryStore::holding(text);
    let pending = memory.prepare().unwrap();
    let printed = format!("{memory:?} {pending:?} {:?}", memory.read());
    assert!(!printed.contains("canary"), "{printed}");
}

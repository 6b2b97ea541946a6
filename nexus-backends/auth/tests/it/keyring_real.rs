//! Logins and API keys in a keyring that nobody here wrote: gnome-keyring's Secret Service.
//!
//! ```sh
//! real/servers/with-keyring cargo test -p nexus-turn-auth --features keyring --test it keyring_real -- --ignored
//! ```
//!
//! What is in the keyring is seen through libsecret's own `secret-tool` as well.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, UNIX_EPOCH},
};

use nexus_auth::{
    Credential, CredentialError, CredentialSource as _, Login, StaticToken,
    store::{KeyringKey, KeyringStore, LoginStore, StorePlace, StoredLogin, TokenStore},
};
use nexus_core::Secret;
use nexus_testkit::child_test;

const CANARY: &str = "canary-51c2";

/// Says to a child of a test that it is one.
const ROLE: &str = "NEXUS_KEYRING_TEST_ROLE";

/// The one keyring. One test at a time has it, since some of them count its entries.
struct Keyring {
    _turn: MutexGuard<'static, ()>,
    daemon: String,
}

impl Keyring {
    fn open() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let daemon = std::env::var("NEXUS_REAL_KEYRING");
        Self {
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
            daemon: daemon.expect("run it by real/servers/with-keyring, lest it meets your own keyring"),
        }
    }

    /// What another program finds there.
    fn seen_by_others(&self, user: &str) -> Option<String> {
        let found = run(&["secret-tool", "lookup", "service", "nexus", "username", user], None);
        found.status.success().then(|| String::from_utf8(found.stdout).unwrap())
    }

    /// How many entries of Nexus there are.
    fn entries(&self) -> usize {
        let found = run(&["secret-tool", "search", "--all", "service", "nexus"], None);
        String::from_utf8_lossy(&found.stdout).lines().filter(|line| line.starts_with("label = ")).count()
    }

    fn lock(&self) {
        let service = "--dest=org.freedesktop.secrets";
        let lock = "org.freedesktop.Secret.Service.Lock";
        let login = "array:objpath:/org/freedesktop/secrets/collection/login";
        let done = run(
            &["dbus-send", "--session", "--print-reply", service, "/org/freedesktop/secrets", lock, login],
            None,
        );
        assert!(done.status.success(), "{done:?}");
    }

    fn signal(&self, name: &str) {
        assert!(run(&["kill", name, &self.daemon], None).status.success());
    }
}

fn run(words: &[&str], input: Option<&str>) -> Output {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, input.unwrap_or_default().as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// The text of a login of this generation.
fn text(generation: u64) -> Secret {
    let login = Login::new(
        Secret::new(format!("{CANARY}-{generation}")),
        UNIX_EPOCH + Duration::from_secs(1_795_000_000),
    );
    let mut stored = StoredLogin::new(login);
    stored.generation = generation;
    stored.to_text()
}

fn is_newer(found: &Secret, current: Option<&Secret>) -> bool {
    let generation = |text: &Secret| StoredLogin::from_text(text).ok().map(|stored| stored.generation);
    let found = generation(found);
    found.is_some() && found > current.and_then(generation)
}

fn commit(store: &dyn TokenStore, generation: u64) {
    store.prepare().unwrap().commit(&text(generation)).unwrap();
}

/// A `$NEXUS_HOME` with the user under which its login is kept.
struct Home {
    folder: tempfile::TempDir,
    user: String,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let user = format!("vendor@{}", fs::canonicalize(folder.path()).unwrap().display());
        Self { folder, user }
    }

    fn store(&self) -> LoginStore {
        LoginStore::at(self.folder.path(), "vendor")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("auth/vendor.json")
    }

    /// What is in the file, which holds no token.
    fn pointer(&self) -> serde_json::Value {
        let text = fs::read_to_string(self.file()).unwrap();
        assert!(!text.contains(CANARY), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn put(&self, name: &str, text: &Secret) {
        let path = self.folder.path().join("auth").join(name);
        fs::write(&path, text.expose()).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
}

const POINTER: &str = "{\n  \"stored_in\": \"keyring\",\n  \"version\": 1\n}\n";

/// [`POINTER`] without an order of its keys.
fn pointing() -> serde_json::Value {
    serde_json::from_str(POINTER).unwrap()
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn a_login_is_kept_replaced_and_removed() {
    let keyring = Keyring::open();
    let store = KeyringStore::new("nexus", "a-login");
    let before = keyring.entries();
    assert_eq!(store.read().unwrap(), None);
    assert!(!store.remove().unwrap());

    let pending = store.prepare().unwrap();
    assert_eq!(keyring.entries(), before, "an entry made on trial is still there");
    pending.commit(&text(1)).unwrap();
    assert_eq!(store.read().unwrap(), Some(text(1)));
    assert_eq!(keyring.seen_by_others("a-login").as_deref(), Some(text(1).expose()));

    commit(&store, 2);
    assert_eq!(KeyringStore::new("nexus", "a-login").read().unwrap(), Some(text(2)));
    assert_eq!(keyring.entries(), before + 1);
    drop(store.prepare().unwrap());
    assert_eq!(store.read().unwrap(), Some(text(2)));
    assert!(!store.recover(&is_newer).unwrap());

    let large = Secret::new("x".repeat(100_000));
    store.prepare().unwrap().commit(&large).unwrap();
    assert_eq!(store.read().unwrap(), Some(large));

    assert!(store.remove().unwrap());
    assert_eq!((store.read().unwrap(), keyring.entries()), (None, before));
    assert_eq!(store.place(), "the keyring (service nexus, user a-login)");
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn a_login_is_where_its_file_says() {
    let keyring = Keyring::open();
    let home = Home::new();
    let store = home.store().moving_to(StorePlace::Keyring);
    assert_eq!(store.read().unwrap(), None);
    commit(&store, 1);
    assert_eq!(home.pointer(), pointing());
    assert_eq!(keyring.seen_by_others(&home.user).as_deref(), Some(text(1).expose()));
    assert_eq!(store.place(), format!("the keyring (service nexus, user {})", home.user));

    // A refresh stays where the login is, whatever a new one would have done.
    let later = home.store();
    assert_eq!(later.read().unwrap(), Some(text(1)));
    assert_eq!(later.place(), store.place());
    commit(&later, 2);
    assert_eq!((home.pointer(), store.read().unwrap()), (pointing(), Some(text(2))));

    // A sign-in may move it, there and back.
    commit(&home.store().moving_to(StorePlace::File), 3);
    assert_eq!(fs::read_to_string(home.file()).unwrap(), text(3).expose());
    assert_eq!(keyring.seen_by_others(&home.user), None);
    assert_eq!(later.read().unwrap(), Some(text(3)));
    assert_eq!(later.place(), format!("the file {}", home.file().display()));
    commit(&home.store(), 4);
    assert_eq!(fs::read_to_string(home.file()).unwrap(), text(4).expose());
    commit(&home.store().moving_to(StorePlace::Keyring), 5);
    assert_eq!((home.pointer(), store.read().unwrap()), (pointing(), Some(text(5))));

    assert!(store.remove().unwrap());
    assert!(!home.file().exists());
    assert_eq!(keyring.seen_by_others(&home.user), None);
    assert!(!store.remove().unwrap());
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn two_homes_are_two_logins_however_they_are_called() {
    let _keyring = Keyring::open();
    let (one, other) = (Home::new(), Home::new());
    commit(&one.store().moving_to(StorePlace::Keyring), 1);
    commit(&other.store().moving_to(StorePlace::Keyring), 2);
    assert_eq!(one.store().read().unwrap(), Some(text(1)));

    let link = other.folder.path().join("link");
    std::os::unix::fs::symlink(one.folder.path(), &link).unwrap();
    assert_eq!(LoginStore::at(&link, "vendor").read().unwrap(), Some(text(1)));
    for home in [one, other] {
        assert!(home.store().remove().unwrap());
    }
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn a_login_that_is_not_where_its_file_says_is_not_taken_for_none() {
    let _keyring = Keyring::open();
    let home = Home::new();
    commit(&home.store().moving_to(StorePlace::Keyring), 1);
    assert!(KeyringStore::new("nexus", &home.user).remove().unwrap());
    let error = home.store().read().unwrap_err();
    assert_eq!(
        error.reason,
        "it refers to a login in the keyring, but the keyring has none: log out, then log in again"
    );
    assert!(home.store().remove().unwrap());
    assert_eq!(home.store().read().unwrap(), None);
}

/// On the way from one place to the other.
#[test]
#[ignore = "needs real/servers/with-keyring"]
fn a_move_that_was_interrupted_is_finished_or_undone() {
    let keyring = Keyring::open();
    let home = Home::new();
    let entry = KeyringStore::new("nexus", &home.user);

    // The keyring has the new login, and the file does not say so yet.
    commit(&home.store(), 1);
    commit(&entry, 2);
    assert_eq!(home.store().read().unwrap(), Some(text(1)));
    home.put(".vendor.json.1-0.new", &Secret::new(&POINTER[..20]));
    assert!(!home.store().recover(&is_newer).unwrap());
    assert_eq!(home.store().read().unwrap(), Some(text(1)));
    home.put(".vendor.json.1-0.new", &Secret::new(POINTER));
    assert!(home.store().recover(&is_newer).unwrap());
    assert_eq!((home.pointer(), home.store().read().unwrap()), (pointing(), Some(text(2))));

    // The file has the new login beside it, not yet in place.
    home.put(".vendor.json.1-1.new", &text(3));
    assert!(home.store().recover(&is_newer).unwrap());
    assert_eq!(home.store().read().unwrap(), Some(text(3)));
    assert_eq!(keyring.seen_by_others(&home.user).as_deref(), Some(text(2).expose()));

    // What is older is dropped.
    home.put(".vendor.json.1-2.new", &Secret::new(POINTER));
    assert!(!home.store().recover(&is_newer).unwrap());
    assert_eq!(fs::read_dir(home.folder.path().join("auth")).unwrap().count(), 1);
    assert_eq!(home.store().read().unwrap(), Some(text(3)));
    entry.remove().unwrap();
}

#[tokio::test]
#[ignore = "needs real/servers/with-keyring"]
async fn an_api_key_is_lent_from_the_keyring() {
    let keyring = Keyring::open();
    let key = KeyringKey::named("responses").unwrap();
    let source = StaticToken::from_keyring(key.clone()).with_account("account-1");
    assert_eq!(source.describe(), "the keyring (service nexus, user responses)");
    let missing = source.credential(Duration::ZERO).await.unwrap_err();
    assert!(matches!(missing, CredentialError::Missing { .. }));
    assert!(missing.to_string().ends_with("run `nexus key set responses`"), "{missing}");
    assert!(source.standing().await.is_err());

    for odd in ["", "  \n", "two words", "line\nline", "caf\u{e9}"] {
        assert!(key.set(&Secret::new(odd)).is_err(), "{odd:?}");
    }
    assert_eq!(key.read().unwrap(), None);
    key.set(&Secret::new(format!(" {CANARY}-key\n"))).unwrap();
    assert_eq!(keyring.seen_by_others("responses").as_deref(), Some("canary-51c2-key"));
    let lent: Credential = source.credential(Duration::ZERO).await.unwrap();
    assert_eq!((lent.token.expose(), lent.account.as_deref()), ("canary-51c2-key", Some("account-1")));
    source.standing().await.unwrap();

    assert!(source.renewed(&lent, Duration::ZERO).await.unwrap().is_none());
    key.set(&Secret::new("another")).unwrap();
    let renewed = source.renewed(&lent, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(renewed.token.expose(), "another");

    // What another program put there is looked at as closely.
    let store = ["secret-tool", "store", "--label=x", "service", "nexus", "username", "responses"];
    assert!(run(&store, Some("canary two")).status.success());
    let error = source.credential(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().ends_with("it consists of more than one word"), "{error}");
    assert!(!format!("{error:?} {source:?} {key:?} {lent:?}").contains("canary"));

    assert!(key.remove().unwrap());
    assert!(!key.remove().unwrap());
    assert!(source.renewed(&lent, Duration::ZERO).await.is_err());
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn two_entries_of_one_name_are_told() {
    let keyring = Keyring::open();
    let store = KeyringStore::new("nexus", "doubled");
    commit(&store, 1);
    let more =
        ["secret-tool", "store", "--label=x", "service", "nexus", "username", "doubled", "of", "others"];
    assert!(run(&more, Some(CANARY)).status.success());
    for error in
        [store.read().unwrap_err(), store.prepare().map(drop).unwrap_err(), store.remove().unwrap_err()]
    {
        assert!(
            error.reason.starts_with("the keyring has 2 entries of that name: remove the entries"),
            "{error}"
        );
        assert!(!format!("{error:?}").contains("canary"), "{error}");
    }
    assert!(run(&["secret-tool", "clear", "service", "nexus", "username", "doubled"], None).status.success());
    assert_eq!(keyring.seen_by_others("doubled"), None);
}

/// Asks in a process of its own, since a process connects once.
fn asked_elsewhere<T>(test: T, bus: &str) -> String {
    let mut command = child_test::command(test);
    let child = command.env(ROLE, "asks").env("DBUS_SESSION_BUS_ADDRESS", bus).output().unwrap();
    child_test::assert_passed("the one that asks", &child);
    String::from_utf8(child.stdout).unwrap()
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn where_no_keyring_answers_it_is_said() {
    if std::env::var_os(ROLE).is_some() {
        let home = Home::new();
        let store = home.store().moving_to(StorePlace::Keyring);
        println!("{}", store.prepare().map(drop).unwrap_err());
        assert_eq!(fs::read_dir(home.folder.path().join("auth")).unwrap().count(), 0);
        println!("{}", KeyringKey::named("responses").unwrap().read().unwrap_err());
        return;
    }
    let _keyring = Keyring::open();
    let told = asked_elsewhere(where_no_keyring_answers_it_is_said, "unix:path=/nowhere");
    assert_eq!(
        told.matches("): start the Secret Service of your desktop, such as gnome-keyring").count(),
        2,
        "{told}"
    );
    assert!(told.contains("the keyring (service nexus, user responses): no keyring answers ("), "{told}");
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn a_keyring_that_is_locked_or_silent_is_said_to_be() {
    // It is locked for good, so it is one of its own.
    let launcher = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../real/servers/with-keyring"));
    if !child_test::runs_alone_through(launcher, a_keyring_that_is_locked_or_silent_is_said_to_be) {
        return;
    }
    let keyring = Keyring::open();
    let store = KeyringStore::new("nexus", "behind-a-lock");
    commit(&store, 1);

    keyring.signal("-STOP");
    let began = Instant::now();
    let error = store.read().unwrap_err();
    let took = began.elapsed();
    keyring.signal("-CONT");
    assert!(error.reason.starts_with("the keyring did not answer within 5 seconds"), "{error}");
    assert!((5..10).contains(&took.as_secs()), "{took:?}");
    assert_eq!(store.read().unwrap(), Some(text(1)));

    // A write that was given up is not done later, over what may be newer then.
    let pending = store.prepare().unwrap();
    keyring.signal("-STOP");
    pending.commit(&text(2)).unwrap_err();
    keyring.signal("-CONT");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(store.read().unwrap(), Some(text(1)));

    keyring.lock();
    let never_there = KeyringStore::new("nexus", "never-there");
    for (store, error) in [
        (&store, store.read().unwrap_err()),
        (&store, store.prepare().map(drop).unwrap_err()),
        (&never_there, never_there.prepare().map(drop).unwrap_err()),
    ] {
        assert_eq!(error.place, store.place());
        assert!(error.reason.starts_with("the keyring is locked, or has no default collection ("), "{error}");
        assert!(error.reason.ends_with("): unlock it, then try again"), "{error}");
        assert!(!format!("{error:?}").contains("canary"), "{error}");
    }
}

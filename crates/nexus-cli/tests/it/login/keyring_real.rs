//! Logins and API keys in a keyring that nobody here wrote.
//!
//! ```sh
//! real/servers/with-keyring cargo test -p nexus-turn-cli --test it login::keyring_real:: -- --ignored
//! ```

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};

use super::home::{Finished, Home, REFRESH_MARK, issuer};
use crate::support::answers::checked;

/// A home whose commands find the keyring that `with-keyring` began.
fn home() -> Home {
    assert!(
        std::env::var_os("NEXUS_REAL_KEYRING").is_some(),
        "run it by real/servers/with-keyring, lest it meets your own keyring"
    );
    Home::new().with_variable("DBUS_SESSION_BUS_ADDRESS", &std::env::var("DBUS_SESSION_BUS_ADDRESS").unwrap())
}

/// What another program finds in the keyring.
fn seen_by_others(user: &str) -> Option<String> {
    let found =
        Command::new("secret-tool").args(["lookup", "service", "nexus", "username", user]).output().unwrap();
    found.status.success().then(|| String::from_utf8(found.stdout).unwrap())
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn a_login_goes_into_the_keyring_and_comes_out_of_it() {
    let (home, issuer) = (home(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--browser", "--json", "--store", "keyring"]);
    let step = login.line_of_json();
    issuer.browser().approve(step["url"].as_str().unwrap()).wait().unwrap();
    let finished = login.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let place = finished.last_json()["login"]["place"].to_string();
    assert!(place.contains("keyring"), "{place}");

    let user = format!("openai-codex@{}", home.nexus_home().canonicalize().unwrap().display());
    assert!(seen_by_others(&user).is_some_and(|text| text.contains(REFRESH_MARK)));
    let file = fs::read_to_string(home.file("openai-codex")).unwrap();
    assert!(!file.contains("token"), "{file}");

    let finished = home.nexus(&["status", "codex"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("keyring"), "{finished:?}");
    assert!(finished.stdout.contains("somebody@example.test"), "{finished:?}");

    // A new login goes where the old one is, unless it is said otherwise; nothing of it stays behind then.
    let before = seen_by_others(&user);
    home.log_in("codex", &issuer);
    let after = seen_by_others(&user);
    assert!(after.is_some() && after != before);
    home.log_in_with("codex", &issuer, &["--store", "file"]);
    home.stored_tokens("openai-codex");
    assert_eq!(seen_by_others(&user), None);
    let finished = home.nexus(&["logout", "codex"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!home.file("openai-codex").exists());
}

#[test]
#[ignore = "needs real/servers/with-keyring"]
fn a_key_is_kept_used_and_removed() {
    const KEY: &str = "canary-key-7f1d";

    let home = home();
    let model = Sim::start(Dialect::Responses, Scenario::new([Reply::text("Here.")])).unwrap();
    let routes = format!(
        "groups: {{ local: [server] }}\n\
         backends: {{ server: {{ kind: responses, base_url: {:?}, credential: {{ keyring: command-test }} }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: local, model: {{ exact: any }} }} }}\n",
        model.base_url()
    );
    fs::write(home.path().join("nexus.yaml"), routes).unwrap();
    let turn = ["run", "talker", "Are you there?", "--quiet"];
    let finished = home.nexus(&turn);
    assert_eq!(finished.code, Some(1), "{finished:?}");

    let mut set = home.command(&["key", "set", "command-test", "--json"]);
    let mut set = set.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    set.stdin.take().unwrap().write_all(format!("{KEY}\n").as_bytes()).unwrap();
    let finished = Finished::of(set.wait_with_output().unwrap());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!format!("{finished:?}").contains(KEY), "{finished:?}");
    checked(&["key", "set"], &finished.stdout);
    assert_eq!(seen_by_others("command-test").as_deref(), Some(KEY));
    let listed = home.nexus(&["key", "list", "--json"]);
    assert!(listed.code == Some(0) && listed.stdout.contains("command-test"), "{listed:?}");

    let finished = home.nexus(&turn);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "Here."), "{finished:?}");
    assert_eq!(model.main_calls()[0].bearer(), Some(KEY));

    let finished = home.nexus(&["key", "remove", "command-test"]);
    assert!(finished.stdout.contains("removed"), "{finished:?}");
    assert_eq!(seen_by_others("command-test"), None);
    let finished = home.nexus(&["key", "remove", "command-test"]);
    assert!(finished.code == Some(0) && finished.stdout.contains("no key was stored"), "{finished:?}");
    assert_eq!(home.nexus(&["key", "remove", "command-test", "--json"]).code, Some(0));
    assert_eq!(home.nexus(&turn).code, Some(1));
}

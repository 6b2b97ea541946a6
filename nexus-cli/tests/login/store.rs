//! A place for logins that is broken, or not there.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::home::{Home, issuer};

#[test]
fn a_login_that_cannot_be_read_is_told_and_not_overwritten() {
    let (home, issuer) = (Home::new(), issuer());
    let broken = "{\"version\":1,\"access_tok";
    home.put("openai-codex", broken);

    let finished = home.nexus(&["status"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stdout.contains("codex: the login cannot be read"), "{finished:?}");
    assert!(finished.stdout.contains("openai-codex.json"), "{finished:?}");

    let finished = home.start_login("codex", &issuer, &["--browser", "--json"]).finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let outcome = finished.last_json();
    assert_eq!((&outcome["outcome"], &outcome["kind"]), (&"failed".into(), &"store".into()));
    assert!(outcome["reason"].as_str().unwrap().contains("move it away"), "{outcome}");
    assert!(issuer.asked().is_empty(), "a person was bothered");
    assert_eq!(fs::read_to_string(home.file("openai-codex")).unwrap(), broken);
}

#[test]
fn a_login_that_others_can_read_is_refused_with_the_way_out() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    let file = home.file("openai-codex");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let finished = home.nexus(&["status", "codex", "--json"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let status = finished.json();
    assert_eq!(status["logins"][0]["state"], "unreadable");
    assert!(status["logins"][0]["reason"].as_str().unwrap().contains("600"), "{status}");
}

#[test]
fn a_home_that_cannot_be_made_is_found_before_a_person_is_bothered() {
    let (home, issuer) = (Home::new(), issuer());
    fs::write(home.nexus_home(), "in the way").unwrap();
    let finished = home.start_login("codex", &issuer, &["--browser", "--json"]).finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.last_json()["kind"], "store");
    assert!(issuer.asked().is_empty(), "a person was bothered");
    assert_eq!(fs::read_to_string(home.nexus_home()).unwrap(), "in the way");
}

#[test]
fn without_a_home_nobody_is_logged_in_to_a_folder_of_everybody_s() {
    let issuer = issuer();
    let home = Home::new().with_variable("HOME", "").with_variable("NEXUS_HOME", "");
    let finished = home.start_login("codex", &issuer, &["--browser"]).finish();
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.contains("NEXUS_HOME"), "{finished:?}");
    assert!(issuer.asked().is_empty());
}

#[cfg(feature = "keyring")]
#[test]
fn a_keyring_that_is_not_there_is_told_and_no_file_takes_its_place() {
    let (home, issuer) = (Home::new(), issuer());
    let finished =
        home.start_login("codex", &issuer, &["--browser", "--json", "--store", "keyring"]).finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let outcome = finished.last_json();
    assert_eq!(outcome["kind"], "store");
    assert!(outcome["reason"].as_str().unwrap().contains("keyring"), "{outcome}");
    assert!(issuer.asked().is_empty(), "a person was bothered");
    assert!(!home.file("openai-codex").exists());
}

#[cfg(not(feature = "keyring"))]
#[test]
fn a_build_without_the_keyring_says_so() {
    let (home, issuer) = (Home::new(), issuer());
    let finished = home.start_login("codex", &issuer, &["--browser", "--store", "keyring"]).finish();
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.contains("feature `keyring`"), "{finished:?}");
}

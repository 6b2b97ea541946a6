//! A place for logins that is broken, or not there.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::home::{Home, issuer};

#[test]
fn a_login_that_cannot_be_read_is_moved_aside_by_a_new_one_and_not_before() {
    let broken = "{\"version\":1,\"access_tok";
    for bytes in [broken.as_bytes(), b"\xff\xfe", b""] {
        let (home, issuer) = (Home::new(), issuer());
        home.put("openai-codex", broken);
        fs::write(home.file("openai-codex"), bytes).unwrap();

        let finished = home.nexus(&["status"]);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stdout.contains("codex: the login cannot be read"), "{finished:?}");
        assert!(finished.stdout.contains("openai-codex.json"), "{finished:?}");

        let mut login = home.start_login("codex", &issuer, &["--browser", "--json"]);
        login.line_of_json();
        drop(login);
        assert_eq!(fs::read(home.file("openai-codex")).unwrap(), bytes, "nobody was signed in");

        let finished = home.log_in("codex", &issuer);
        let aside = home.file("openai-codex").with_file_name("openai-codex.json.damaged-1");
        assert_eq!(fs::read(&aside).unwrap(), bytes);
        assert_eq!(aside.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(finished.stdout.contains("openai-codex.json.damaged-1"), "{finished:?}");
        assert_eq!(home.nexus(&["status", "codex"]).code, Some(0));
    }
}

#[test]
fn a_login_of_a_later_version_is_not_moved() {
    let (home, issuer) = (Home::new(), issuer());
    let later = "{\"version\":2}\n";
    home.put("openai-codex", later);
    let finished = home.start_login("codex", &issuer, &["--browser", "--json"]).finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.last_json()["error"]["kind"], "store");
    assert!(issuer.asked().is_empty(), "a person was bothered");
    assert_eq!(fs::read_to_string(home.file("openai-codex")).unwrap(), later);
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
    assert_eq!(finished.last_json()["error"]["kind"], "store");
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
    assert_eq!(outcome["error"]["kind"], "store");
    assert!(outcome["error"]["message"].as_str().unwrap().contains("keyring"), "{outcome}");
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

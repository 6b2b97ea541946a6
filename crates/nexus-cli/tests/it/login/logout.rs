//! Logging out, and what is said of it.

use std::{fs, os::unix::fs::PermissionsExt as _};

use nexus_testkit::issuer::RequestKind;

use super::home::{Home, issuer};

#[test]
fn the_issuer_is_told_and_the_login_is_removed() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    let [access, _] = home.stored_tokens("openai-codex");
    assert!(issuer.accepts(&access));

    let finished = home.nexus(&["logout", "codex"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("codex: logged out. The issuer has revoked the login"), "{finished:?}");
    assert_eq!(issuer.count(RequestKind::Revoke), 1);
    assert!(!issuer.accepts(&access));
    assert!(!home.file("openai-codex").exists());
}

#[test]
fn who_is_not_logged_in_may_log_out_and_nothing_is_made_for_it() {
    let home = Home::new();
    let finished = home.nexus(&["logout", "--all"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for name in ["codex", "grok"] {
        assert!(finished.stdout.contains(&format!("{name}: not logged in")), "{finished:?}");
    }
    assert!(finished.stderr.is_empty(), "{finished:?}");
    let outcome = home.nexus(&["logout", "codex", "--json"]).json();
    assert_eq!((&outcome["outcome"], &outcome["was_logged_in"]), (&"logged_out".into(), &false.into()));
    assert!(!home.nexus_home().exists(), "logging out of nothing made something");
}

#[test]
fn what_a_login_that_was_broken_off_left_behind_goes_with_the_logout() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    let file = home.file("openai-codex");
    let left = file.with_file_name(".openai-codex.json.1-1.new");
    fs::rename(&file, &left).unwrap();
    let finished = home.nexus(&["logout", "codex"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!left.exists() && !file.exists(), "{finished:?}");
}

#[test]
fn a_login_that_cannot_be_read_is_removed_all_the_same() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    let file = home.file("openai-codex");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let finished = home.nexus(&["logout", "codex"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("codex: logged out"), "{finished:?}");
    assert!(!file.exists());
}

#[test]
fn an_issuer_that_is_gone_keeps_nobody_logged_in() {
    let (home, mut issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    issuer.stop();
    let finished = home.nexus(&["logout", "codex", "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let outcome = finished.json();
    assert_eq!(outcome["outcome"], "logged_out");
    assert_eq!(outcome["revocation"], "failed");
    assert!(!outcome["reason"].as_str().unwrap().is_empty(), "{outcome}");
    assert!(!home.file("openai-codex").exists());
}

#[test]
fn a_vendor_without_a_way_to_be_told_is_named_as_such() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("grok", &issuer);
    let finished = home.nexus(&["logout", "grok"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("grok: logged out on this machine"), "{finished:?}");
    assert!(finished.stdout.contains("until they expire"), "{finished:?}");
    assert!(!home.file("grok-build").exists());
}

#[test]
fn all_ends_every_login() {
    let (home, issuer) = (Home::new(), issuer());
    home.log_in("codex", &issuer);
    home.log_in("grok", &issuer);
    let finished = home.nexus(&["logout", "--all", "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.lines().count(), 3, "{finished:?}");
    assert!(!home.file("openai-codex").exists() && !home.file("grok-build").exists());
}

#[test]
fn one_has_to_say_which() {
    assert_eq!(Home::new().nexus(&["logout"]).code, Some(2));
    assert_eq!(Home::new().nexus(&["logout", "codex", "--all"]).code, Some(2));
}

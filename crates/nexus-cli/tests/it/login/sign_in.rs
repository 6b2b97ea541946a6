//! Signing in, by both methods, to each end.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, time::Instant};

use nexus_testkit::issuer::RequestKind;

use super::{
    home::{Home, builder, issuer},
    running::Running,
};
use crate::support::{DEAD, PATIENCE};

#[test]
fn a_browser_s_answer_logs_in_and_what_is_stored_is_told() {
    let (home, issuer) = (Home::new(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--browser", "--json"]);
    let step = login.line_of_json();
    assert_eq!(step["type"], "open_page");
    assert_eq!(step["starts_browser"], false);
    assert!(step["returns_to"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{step}");

    let page = issuer.browser().approve(step["url"].as_str().unwrap()).wait().unwrap();
    assert_eq!(page.status, 200, "{}", page.body);
    let finished = login.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let outcome = finished.last_json();
    assert_eq!(outcome["type"], "logged_in");
    let login = &outcome["login"];
    assert_eq!(login["login"], "codex");
    assert_eq!(login["state"], "logged_in");
    assert_eq!(login["email"], "somebody@example.test");
    assert_eq!(login["account"], "00000000-0000-4000-8000-00000000abba");
    assert_eq!(login["plan"], "pro");
    assert_eq!(login["renews_itself"], true);
    assert_eq!(login["next"], "nexus logout codex");
    assert!(login["place"].as_str().unwrap().contains("openai-codex.json"), "{login}");
    assert!(login["token_expires_at"].as_str().unwrap().ends_with('Z'), "{login}");

    home.stored_tokens("openai-codex");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.file("openai-codex")), 0o600);
    assert_eq!(mode(home.nexus_home().join("auth")), 0o700);
}

#[test]
fn a_code_logs_in_at_both_vendors() {
    for (name, file) in [("codex", "openai-codex"), ("grok", "grok-build")] {
        let (home, issuer) = (Home::new(), issuer());
        let mut login = home.start_login(name, &issuer, &["--device", "--json"]);
        let step = login.line_of_json();
        assert_eq!(step["type"], "enter_code", "{name}");
        assert!(step["expires_in_seconds"].as_u64().unwrap() > 60, "{step}");
        let code = step["user_code"].as_str().unwrap();
        assert_eq!(issuer.browser().approve_device(code).wait().unwrap().status, 200);
        let finished = login.finish();
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert_eq!(finished.last_json()["login"]["login"], name);
        home.stored_tokens(file);
    }
}

#[test]
fn a_client_that_was_registered_outlives_the_login() {
    let (home, issuer) = (Home::new(), builder().registering("a-client").start().unwrap());
    home.log_in("chatgpt", &issuer);
    home.stored_tokens("openai-chatgpt");
    let registration = home.file("openai-chatgpt.registration");
    assert_eq!(fs::metadata(&registration).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = fs::read_to_string(&registration).unwrap();

    let finished = home.nexus(&["logout", "chatgpt"]);
    assert!(
        finished.stdout.contains("chatgpt: logged out. The issuer has revoked the login"),
        "{finished:?}"
    );
    assert!(!home.file("openai-chatgpt").exists());
    assert_eq!(fs::read_to_string(&registration).unwrap(), kept);
    let finished = home.nexus(&["logout", "chatgpt"]);
    assert!(finished.stdout.contains("nothing was changed"), "{finished:?}");

    home.log_in("chatgpt", &issuer);
    assert_eq!(issuer.registered().len(), 1);
    home.log_in_with("chatgpt", &issuer, &["--new-registration"]);
    assert_eq!(issuer.registered().len(), 2);
    let status = home.nexus(&["status", "--json"]).json();
    let login =
        status["logins"].as_array().unwrap().iter().find(|login| login["login"] == "chatgpt").unwrap();
    assert_eq!((&login["state"], &login["email"]), (&"logged_in".into(), &"somebody@example.test".into()));

    let finished = home.nexus(&["login", "codex", "--new-registration"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
}

#[test]
fn a_vendor_without_codes_is_signed_in_at_by_a_browser_also_over_ssh() {
    let home = Home::new().with_variable("SSH_CONNECTION", "1 2 3 4");
    let issuer = builder().registering("a-client").start().unwrap();
    let mut login = home.start_login("chatgpt", &issuer, &[]);
    let shown = login.lines_to("/api/accounts/authorize");
    assert!(shown.contains("ssh -N -L") && !shown.contains("--device"), "{shown}");
    issuer.browser().approve(shown.lines().last().unwrap().trim()).wait().unwrap();
    let finished = login.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("chatgpt-sub-token, and codex-cli with `login: chatgpt`"));
    let finished = home.nexus(&["login", "chatgpt", "--device"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("sign in with a browser"), "{finished:?}");
}

#[test]
fn the_words_for_a_person_hold_all_that_the_json_does() {
    let (home, issuer) = (Home::new(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--browser"]);
    let shown = login.lines_to("/oauth/authorize");
    let page = shown.lines().last().unwrap().trim();
    issuer.browser().approve(page).wait().unwrap();
    let finished = login.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for words in [
        "returns to http://127.0.0.1:",
        "codex: logged in",
        "somebody@example.test (account 00000000-0000-4000-8000-00000000abba)",
        "pro",
        "renewed automatically",
        "openai-codex.json",
        "nexus logout codex",
    ] {
        assert!(finished.stdout.contains(words), "{words:?} is not in {}", finished.stdout);
    }
}

#[test]
fn a_person_who_declines_is_not_logged_in() {
    let (home, issuer) = (Home::new(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--browser", "--json"]);
    let step = login.line_of_json();
    issuer.browser().decline(step["url"].as_str().unwrap()).wait().unwrap();
    let finished = login.finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.last_json()["error"]["kind"], "declined");
    assert!(!home.file("openai-codex").exists());
}

#[test]
fn ctrl_c_leaves_no_port_open_and_nothing_behind() {
    given_up(Running::interrupt, 130);
}

#[test]
fn a_login_that_the_system_ends_leaves_no_port_open_and_nothing_behind() {
    given_up(Running::terminate, 143);
}

/// `code` is what a shell shows of a program that the signal ended.
fn given_up(end: impl Fn(&Running), code: i32) {
    let (home, issuer) = (Home::new(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--browser", "--json"]);
    let step = login.line_of_json();
    let returns_to = step["returns_to"].as_str().unwrap();
    let port: u16 = returns_to.split(['/', ':']).filter_map(|part| part.parse().ok()).next_back().unwrap();
    assert!(TcpListener::bind(("127.0.0.1", port)).is_err(), "nobody listens on {port}");
    let socket = listener(port);
    let began = Instant::now();
    end(&login);
    let finished = login.finish();
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert!(began.elapsed() < PATIENCE, "it took {:?}", began.elapsed());
    assert_eq!(finished.last_json()["error"]["kind"], "cancelled");
    // Another login may listen there by now.
    assert!(socket.is_none() || listener(port) != socket, "a socket on {port} is left");
    assert!(!home.file("openai-codex").exists());
}

/// The socket that listens on a port of loopback, by its inode. `None` where there is no `/proc`.
fn listener(port: u16) -> Option<String> {
    let sockets = fs::read_to_string("/proc/net/tcp").ok()?;
    let address = format!("0100007F:{port:04X}");
    sockets.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        // Local address, state "listening" and inode.
        (words.get(1) == Some(&&*address) && words.get(3) == Some(&"0A")).then(|| words[9].to_owned())
    })
}

#[test]
fn nobody_answers_and_the_time_is_up() {
    let (home, issuer) = (Home::new(), issuer());
    let login = home.start_login("grok", &issuer, &["--json", "--timeout", "0.5"]);
    let finished = login.finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.last_json()["error"]["kind"], "timed_out");
}

#[test]
fn an_issuer_that_is_not_there_is_told() {
    let finished = Home::new().start(&["login", "grok", "--json", "--issuer", DEAD]).finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.last_json()["error"]["kind"], "unreachable");
}

#[test]
fn an_address_that_can_be_no_issuer_is_a_bad_command_line() {
    for address in ["notaurl", "http://issuer.test", "https://me:pass@issuer.test"] {
        let home = Home::new();
        let finished = home.nexus(&["login", "grok", "--json", "--issuer", address]);
        assert_eq!(finished.code, Some(2), "{finished:?}");
        let place = &finished.last_json()["error"]["place"];
        assert!(place.as_str().is_some_and(|place| place.contains("--issuer")), "{finished:?}");
        assert!(finished.stderr.is_empty() && !home.nexus_home().exists(), "{finished:?}");
    }
}

#[test]
fn an_earlier_login_stays_until_the_new_one_is_stored() {
    let (home, first) = (Home::new(), issuer());
    home.log_in("codex", &first);
    let before = home.stored_tokens("openai-codex");

    let second = builder().start().unwrap();
    let mut login = home.start_login("codex", &second, &["--browser", "--json"]);
    login.line_of_json();
    login.interrupt();
    assert_eq!(login.finish().code, Some(130));
    assert_eq!(home.stored_tokens("openai-codex"), before, "a login that was given up replaced one");

    home.log_in("codex", &second);
    let after = home.stored_tokens("openai-codex");
    assert!(second.accepts(&after[0]) && !second.accepts(&before[0]));
    assert_eq!(first.count(RequestKind::Refresh), 0);
}

#[test]
fn a_port_that_is_taken_is_passed_over() {
    let (home, issuer) = (Home::new(), issuer());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let url = issuer.url();
    let mut login = home.start(&[
        "login",
        "codex",
        "--issuer",
        &url,
        "--browser",
        "--json",
        "--port",
        &port,
        "--port",
        "0",
    ]);
    let step = login.line_of_json();
    assert!(!step["returns_to"].as_str().unwrap().contains(&port), "{step}");
    login.interrupt();
    assert_eq!(login.finish().code, Some(130));
}

//! A terminal, a display, a browser, a connection from elsewhere: with and without.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::{
    home::{Home, issuer},
    running::Running,
};
use crate::support::PATIENCE;

/// A home with a display, whose browser writes down what it is asked to open.
fn with_browser() -> (Home, PathBuf) {
    let home = Home::new();
    let (folder, opened) = (home.path().join("bin"), home.path().join("opened"));
    fs::create_dir(&folder).unwrap();
    let launcher = folder.join("xdg-open");
    fs::write(&launcher, format!("#!/bin/sh\nprintf '%s' \"$1\" > '{}'\n", opened.display())).unwrap();
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    (home.with_variable("PATH", &path).with_variable("DISPLAY", ":0"), opened)
}

fn wait_for(path: &PathBuf) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::read_to_string(path) {
            Ok(text) if !text.is_empty() => return text,
            _ => assert!(Instant::now() < deadline, "no browser was started"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn with_a_display_a_browser_opens_the_page_that_is_also_printed() {
    let ((home, opened), issuer) = (with_browser(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--json"]);
    let step = login.line_of_json();
    assert_eq!(step["type"], "open_page");
    assert_eq!(step["starts_browser"], true);
    assert_eq!(wait_for(&opened), step["url"].as_str().unwrap());
    issuer.browser().approve(step["url"].as_str().unwrap()).wait().unwrap();
    assert_eq!(login.finish().code, Some(0));
}

#[test]
fn no_open_starts_no_browser() {
    let ((home, opened), issuer) = (with_browser(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--json", "--no-open"]);
    let step = login.line_of_json();
    assert_eq!((&step["type"], &step["starts_browser"]), (&"open_page".into(), &false.into()));
    issuer.browser().approve(step["url"].as_str().unwrap()).wait().unwrap();
    assert_eq!(login.finish().code, Some(0));
    assert!(!opened.exists());
}

#[test]
fn over_ssh_a_code_is_used_and_no_browser_started() {
    let ((home, opened), issuer) = (with_browser(), issuer());
    let home = home.with_variable("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22");
    let mut login = home.start_login("codex", &issuer, &[]);
    let shown = login.lines_to("/device");
    assert!(shown.contains("This is an SSH session"), "{shown}");
    assert!(shown.contains("--browser"), "{shown}");
    let shown = login.lines_to("-");
    issuer.browser().approve_device(shown.lines().last().unwrap().trim()).wait().unwrap();
    let finished = login.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!opened.exists());
}

#[test]
fn over_ssh_a_browser_is_told_the_way_back() {
    let ((home, opened), issuer) = (with_browser(), issuer());
    let home = home.with_variable("SSH_TTY", "/dev/pts/0");
    let mut login = home.start_login("codex", &issuer, &["--browser"]);
    let shown = login.lines_to("automatically");
    let returns_to = shown.split("http://127.0.0.1:").last().unwrap();
    let port: String = returns_to.chars().take_while(char::is_ascii_digit).collect();
    assert!(shown.contains(&format!("ssh -N -L {port}:127.0.0.1:{port} ")), "{shown}");
    assert!(shown.contains("nexus login codex --device"), "{shown}");
    login.interrupt();
    assert_eq!(login.finish().code, Some(130));
    assert!(!opened.exists());
}

#[test]
fn a_login_needs_no_terminal() {
    let (home, issuer) = (Home::new(), issuer());
    let inner =
        home.command(&["login", "codex", "--browser", "--json", "--port", "0", "--issuer", &issuer.url()]);
    // A session of its own has no terminal, whatever runs the tests.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(inner.get_program()).args(inner.get_args()).current_dir(home.path());
    command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut login = Running::start(command);
    let step = login.line_of_json();
    issuer.browser().approve(step["url"].as_str().unwrap()).wait().unwrap();
    assert_eq!(login.finish().code, Some(0));
}

#[test]
fn without_a_display_codex_uses_a_code() {
    let (home, issuer) = (Home::new(), issuer());
    let mut login = home.start_login("codex", &issuer, &["--json"]);
    assert_eq!(login.line_of_json()["type"], "enter_code");
    login.interrupt();
    assert_eq!(login.finish().code, Some(130));
}

#[test]
fn a_browser_that_does_not_start_stops_nothing() {
    let issuer = issuer();
    // A display, and no launcher at all.
    let home = Home::new().with_variable("DISPLAY", ":0").with_variable("PATH", "/nonexistent");
    let mut login = home.start_login("codex", &issuer, &[]);
    let shown = login.lines_to("No browser could be started");
    let page = shown.lines().find(|line| line.contains("/oauth/authorize")).unwrap().trim();
    issuer.browser().approve(page).wait().unwrap();
    assert_eq!(login.finish().code, Some(0));
}

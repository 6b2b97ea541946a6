//! The examples, run as a newcomer runs them: no login, no CLI, no network.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use nexus_testkit::example::{assert_shows, run, shown};

/// Picture of the README and of the book's first pages.
const PICTURE: &str = "docs/start/first-turn.svg";

#[test]
fn first_turn_writes_a_file_and_says_so() {
    let shown = shown("first_turn");
    assert_shows(
        &shown,
        &["claude-cli", "Five, seven, five.", "wc -l haiku.txt", "On disk, in haiku.txt:\nOne owner"],
    );
}

/// The output with the colours of a terminal: what the reader typed, the route, thinking, calls and their answers.
fn coloured(shown: &str) -> String {
    let is_call = |line: &str| ["* ", "  {", "  -> "].iter().any(|start| line.starts_with(start));
    let mut text = "\u{1b}[1m$ cargo run --example first_turn\u{1b}[0m\n".to_owned();
    // The picture begins at the types of the configuration.
    for line in shown.lines().skip_while(|line| *line != "types:") {
        let style = match line {
            _ if line.starts_with("thinking: ") => "3;90",
            _ if line.starts_with("> ") || line.starts_with("= ") => "1;36",
            _ if is_call(line) => "33",
            _ if line.starts_with("executor (") || line.starts_with("  1. ") => "32",
            _ => "0",
        };
        // Some builds print the keys of an object in the order of their insertion.
        let arguments: Option<BTreeMap<String, serde_json::Value>> = serde_json::from_str(line).ok();
        let sorted = arguments.and_then(|arguments| serde_json::to_string(&arguments).ok());
        let line = sorted.map_or_else(|| line.to_owned(), |sorted| format!("  {sorted}"));
        text += &format!("\u{1b}[{style}m{line}\u{1b}[0m\n");
    }
    text
}

#[test]
fn the_picture_of_the_readme_is_the_output_of_first_turn() {
    let picture = anstyle_svg::Term::new().render_svg(&coloured(&shown("first_turn")));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PICTURE);
    if std::env::var_os("NEXUS_WRITE_BOOK").is_some() {
        fs::write(&path, &picture).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == picture, "{PICTURE} is out of date: run `cargo xtask book`");
}

#[test]
fn swap_vendor_reads_both_answers_back_from_disk() {
    let shown = shown("swap_vendor");
    assert_shows(&shown, &["\"Claude\", written by claude-cli", "\"Codex\", written by codex-cli"]);
}

#[test]
fn fallback_names_who_was_passed_over_and_holds_it() {
    let shown = shown("fallback");
    assert_shows(
        &shown,
        &[
            "answered by codex-cli",
            "passed over claude-cli",
            "hit your session limit",
            "skipped: on hold for ",
        ],
    );
    assert!(
        shown.contains("on hold for 1h") || shown.contains("on hold for 59m"),
        "not as long as the vendor said: {shown}"
    );
    assert_eq!(shown.matches("answered by codex-cli").count(), 2, "{shown}");
}

#[test]
fn conversations_are_gone_on_with_on_another_vendor() {
    let shown = shown("conversations");
    assert_shows(
        &shown,
        &["moons-checked is sent to the model again, with 2 messages", "moons-checked: 4 messages"],
    );
}

#[test]
fn panel_review_counts_a_failed_seat_as_no_vote() {
    let shown = shown("panel_review");
    assert_shows(&shown, &["\"approve\"", "\"reject\"", "no vote", "3 seats, 2 vendors answered"]);
}

#[test]
fn custom_backend_runs_and_falls_back_for_what_it_lacks() {
    let shown = shown("custom_backend");
    assert_shows(&shown, &["7 words", "word-counter", "A vendor answers what the counter cannot"]);
}

#[test]
fn custom_cli_shows_a_tool_a_repair_and_an_error() {
    let shown = shown("custom_cli");
    assert_shows(
        &shown,
        &["tr a-z A-Z", "Nice weather, is it not?", "{\"degrees\":7}", "RateLimited, Guessed(60s)"],
    );
}

#[test]
fn native_tools_answers_the_model_and_gets_the_report() {
    let shown = shown("native_tools");
    assert_shows(
        &shown,
        &[
            "stock",
            "we do not sell cofee",
            "4 tool calls; effects: Read.",
            "The report: 11700 cents. Reorder coffee",
        ],
    );
}

#[test]
fn file_tools_changes_what_was_read_and_nothing_else() {
    let shown = shown("file_tools");
    assert_shows(
        &shown,
        &[
            "src/prices.py:1: PRICES = {'tea': 450",
            "old_text is in the file 2 times, in lines 4, 7",
            "6 tool calls; effects: Wrote.",
            "Denied: ",
            "\".env\" cannot be read: it must not be touched",
            "return PRICES[article] * pieces",
            "return -(PRICES[article] * pieces)",
        ],
    );
    assert!(!shown.contains("0000"), "{shown}");
}

#[test]
fn scoped_tools_holds_three_vendors_to_one_scope() {
    let shown = shown("scoped_tools");
    assert_shows(
        &shown,
        &[
            "Decided by the session, by claude-cli:",
            "Decided by the session, by codex-cli:",
            "Decided by the session, by grok-cli:",
            "\"letters/private/diary.txt\" cannot be read: it must not be touched",
            "The three decision logs are the same.",
        ],
    );
    assert_eq!(shown.matches("  DENIED ").count(), 6, "{shown}");
    assert_eq!(shown.matches("On disk: \"The herons are back.\"").count(), 3, "{shown}");
    assert!(!shown.contains("burns"), "{shown}");
}

#[test]
fn local_model_streams_an_answer() {
    assert_shows(&shown("local_model"), &["Rayleigh scattering", "kind: responses", "the red is left."]);
}

#[test]
fn login_is_renewed_once_for_many_turns_and_shows_no_token() {
    let shown = shown("login");
    assert_shows(
        &shown,
        &[
            "/oauth/authorize?",
            "openai-codex.json",
            "somebody@example.test",
            "refresh token  kept",
            "good for one use",
            "8 answers. The issuer was asked to renew it 1 time, and saw 0 tokens twice; the model saw 2 access tokens.",
            "The issuer was told, and the login is gone.",
            "run `nexus login codex`",
        ],
    );
    // How the simulated issuer's tokens begin.
    for token in ["eyJ", "simulated-refresh"] {
        assert!(!shown.contains(token), "a token is in\n{shown}");
    }
}

#[test]
fn an_unknown_option_is_told() {
    let output = run("first_turn", &["--rael"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown option --rael"));
}

#[test]
fn sandbox_shows_the_tree_alone_and_reaches_two_limits() {
    let output = run("sandbox", &[]);
    let shown = String::from_utf8(output.stdout).unwrap();
    if !output.status.success() {
        // A machine without bubblewrap is told how to get it.
        assert!(shown.starts_with("There is no sandbox on this machine: "), "{shown}");
        assert!(std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "there must be a sandbox here: {shown}");
        return;
    }
    assert_shows(
        &shown,
        &[
            "out: the answer of the tree",
            "../secret: No such file",
            "Read-only file system",
            "Limit(Processes)",
            "Limit(Wall)",
        ],
    );
    assert!(!shown.contains("a login") && !shown.contains("eth0"), "{shown}");
    let shown = String::from_utf8(run("sandbox", &["echo", "mine"]).stdout).unwrap();
    assert_shows(&shown, &["out: mine", "Exited, Code(0)"]);
}

#[test]
fn tree_shows_what_was_hidden_and_lands_what_was_done_again() {
    let has_git = Command::new("git").arg("--version").output().is_ok();
    if !has_git && std::env::var_os("NEXUS_TEST_GIT").is_none() {
        eprintln!("NOT TESTED: there is no git");
        return;
    }
    let shown = shown("tree");
    assert_shows(
        &shown,
        &[
            "changed: .gitattributes\nchanged: .gitignore\nchanged: price.py\n",
            "refused: ",
            "\".git\" can be taken for a `.git`",
            "+    return 450 * pieces\n",
            "the same again: true\nlanded in refs/heads/main\nthe person's log:\nMend the price (Nexus)\nA shop (Person)\n\
             the hook ran: false",
        ],
    );
}

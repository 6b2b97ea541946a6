//! The examples, run as a newcomer runs them: no login, no CLI, no network.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

/// Runs a built example with an environment that holds nothing of the caller's but the search path.
fn run(name: &str, arguments: &[&str]) -> Output {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.pop();
    let program: PathBuf = folder.join("examples").join(name);
    assert!(program.exists(), "{} is not built; `cargo test` without `--test` builds it", program.display());
    let home = tempfile::tempdir().unwrap();
    Command::new(program)
        .args(arguments)
        .current_dir(home.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .output()
        .unwrap()
}

/// Runs an example on the simulator, and gives what it printed.
fn shown(name: &str) -> String {
    let output = run(name, &[]);
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{name} failed\n{stdout}\n{stderr}");
    assert!(stdout.starts_with("No login needed"), "{name} does not say where it runs:\n{stdout}");
    stdout
}

#[track_caller]
fn assert_shows(shown: &str, words: &[&str]) {
    for word in words {
        assert!(shown.contains(word), "{word:?} is not in\n{shown}");
    }
}

#[test]
fn first_turn_writes_a_file_and_says_so() {
    let shown = shown("first_turn");
    assert_shows(
        &shown,
        &["claude-cli", "Five, seven, five.", "wc -l haiku.txt", "On disk, in haiku.txt:\nOne owner"],
    );
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
        &["answered by codex-cli", "passed over claude-cli", "hit your session limit", "skipped: held for "],
    );
    assert!(
        shown.contains("held for 1h") || shown.contains("held for 59m"),
        "not as long as the vendor said: {shown}"
    );
    assert_eq!(shown.matches("answered by codex-cli").count(), 2, "{shown}");
}

#[test]
fn project_finds_again_what_was_decided() {
    let shown = shown("project");
    assert_shows(
        &shown,
        &["TASK\nwrite the cache", "ACCEPTANCE", "workspace-write", "task_add", "cache? yes, in memory"],
    );
}

#[test]
fn conversations_are_gone_on_with_on_another_vendor() {
    let shown = shown("conversations");
    assert_shows(
        &shown,
        &["moons-checked is shown to the model anew, 2 messages", "moons-checked: 4 messages"],
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

#[test]
fn debate_converges_once_the_case_against_was_heard_and_keeps_every_word() {
    assert_shows(
        &shown("debate"),
        &[
            "question  Shall the cache be written through?",
            "next      opening\nnext      analysing\nnext      cross_examining 1\nnext      checking_close 1\n\
             next      converging\nnext      final\nnext      synthesising\nnext      done\n",
            "claim     safe: converged (support) (support: keeper, runner; oppose: none; abstain: reader)",
            "claim     fast: converged (support) (support: keeper, reader, runner; oppose: none; abstain: none)",
            " bytes, every argument word for word",
            " bytes of HTML, as `nexus debate report` writes it",
        ],
    );
}

#[test]
fn testbed_ships_a_wrong_answer_where_reviewers_anchor_and_catches_it_where_they_probe() {
    let can = |program: &str| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if !["git", "python3", "bwrap"].into_iter().all(can) {
        assert!(std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "a trap's programs must run here");
        println!("NOT TESTED: there is no git, no Python or no sandbox");
        return;
    }
    let shown = shown("testbed");
    assert_shows(
        &shown,
        &[
            "run       anchored before the planted answer: confident-wrong",
            "run       probing before the planted answer: honest-escalate",
            "concern   It does not do the same as before. (probe-",
            "run       probing before the right answer: correct",
            "caught    probing: 1 of 1",
        ],
    );
}

#[test]
fn broker_has_a_question_answered_in_mid_task_and_a_person_heard_in_mid_turn() {
    assert_shows(
        &shown("broker"),
        &[
            "[caller:person] -> [manager] [task_assignment]: Task sign:",
            "[manager] -> [tides] [task_assignment]: Task tides:",
            "[sign] -> [manager-of:sign] [query]: Until when does it go?",
            "[manager] -> [sign] [message]: (in reply to ",
            "[tides] -> [manager-of:tides] [status_update]: Task tides: in_progress, 3 %",
            "is told: the agent is at work: it has it between two tool calls",
            "[caller:person] -> [tides] [message]: That is enough.",
            "[sign] -> [manager] [result]: Task sign is done: The sign says: The ferry. Until ten in the evening.",
            "[tides] -> [manager] [result]: Task tides is done: The water is high, and a person said in mid-turn: That is enough.",
            "what came back to the person:\nTask sign is done:\n",
            "manager  started\n",
            "tides    done\n",
        ],
    );
}

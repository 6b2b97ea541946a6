//! The example, run as a newcomer runs it: no login, no CLI, no network.

use std::process::Command;

use nexus_testkit::example::{assert_shows, shown};

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

//! The example, run as a newcomer runs it: no login, no CLI, no network.

use std::process::Command;

use nexus_testkit::example::{assert_shows, shown};

#[test]
fn task_lands_what_two_vendors_advanced() {
    if Command::new("git").arg("--version").output().is_err() && std::env::var_os("NEXUS_TEST_GIT").is_none()
    {
        println!("NOT TESTED: there is no git");
        return;
    }
    assert_shows(
        &shown("task"),
        &[
            "plan      2. reviewer:",
            "vote      seat 1 (boundary-inputs) (north): advance\nvote      seat 2 (hidden-contracts) (south): advance",
            "criterion signs: pass",
            "landed    Landed, refs/heads/main\nsum.sh    echo $(( $1 + $2 ))",
        ],
    );
}

//! The example, run as a newcomer runs it: no login, no CLI, no network.

use nexus_testkit::example::{assert_shows, shown};

#[test]
fn project_finds_again_what_was_decided() {
    let shown = shown("project");
    assert_shows(
        &shown,
        &["TASK\nwrite the cache", "ACCEPTANCE", "workspace-write", "task_add", "cache? yes, in memory"],
    );
}

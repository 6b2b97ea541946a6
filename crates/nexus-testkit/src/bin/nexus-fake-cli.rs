//! `nexus-fake-cli`: poses as `claude`, `codex` or `grok` when it is called by that name.
//!
//! Tests link to it; a person can too: `ln -s .../nexus-fake-cli claude`, with `claude.script.json` beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    nexus_testkit::fake_cli::run_if_invoked();
    eprintln!("nexus-fake-cli is called through a link named claude, codex or grok, with a script beside it");
    ExitCode::from(64)
}

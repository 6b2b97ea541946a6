//! `cargo xtask book`: the generated reference pages.

use std::process::Command;

/// Tests that compare a generated page, and write it if `NEXUS_WRITE_BOOK` is set: package, test program, filter.
const GENERATORS: [[&str; 3]; 2] =
    [["nexus-turn-cli", "it", "book::"], ["nexus-tests", "it", "the_picture_of_the_readme"]];

/// Writes the pages. Returns the number of generators that failed.
pub(crate) fn run() -> Result<usize, String> {
    let mut faults = usize::from(!cargo(&["build", "--package", "nexus-turn", "--example", "first_turn"])?);
    for [package, program, filter] in GENERATORS {
        faults += usize::from(!cargo(&["test", "--package", package, "--test", program, filter])?);
    }
    Ok(faults)
}

/// Returns true if the command succeeds.
fn cargo(arguments: &[&str]) -> Result<bool, String> {
    let status = Command::new(env!("CARGO")).args(arguments).env("NEXUS_WRITE_BOOK", "1").status();
    Ok(status.map_err(|error| format!("cargo {}: {error}", arguments.join(" ")))?.success())
}

//! `cargo xtask book`: the generated reference pages.

use std::process::Command;

/// Tests that compare a generated page, and write it if `NEXUS_WRITE_BOOK` is set: package, test program, filter.
const GENERATORS: [[&str; 3]; 2] =
    [["nexus-turn-cli", "it", "book::"], ["nexus-tests", "it", "the_picture_of_the_readme"]];

/// Writes the pages. Returns the number of generators that failed.
pub(crate) fn run() -> Result<usize, String> {
    let mut faults = 0;
    for [package, program, filter] in GENERATORS {
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--package", package, "--test", program, filter]).env("NEXUS_WRITE_BOOK", "1");
        let status = command.status().map_err(|error| format!("cargo test: {error}"))?;
        faults += usize::from(!status.success());
    }
    Ok(faults)
}

//! `cargo xtask book`: the generated pages and pictures of the book.

use std::process::Command;

/// Beginnings of the names of the tests that compare something generated, and write it if `NEXUS_WRITE_BOOK` is set.
const GENERATORS: [&str; 2] = ["book::", "examples::the_picture_of_the_readme"];

/// Writes the pages. Returns 1 if a generator failed.
pub(crate) fn run() -> Result<usize, String> {
    let mut command = Command::new(env!("CARGO"));
    // The whole workspace, so that no dependency is compiled again with other features.
    command.args(["test", "--workspace", "--test", "it", "--examples", "--"]).args(GENERATORS);
    let status =
        command.env("NEXUS_WRITE_BOOK", "1").status().map_err(|error| format!("cargo test: {error}"))?;
    Ok(usize::from(!status.success()))
}

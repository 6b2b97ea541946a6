//! `cargo xtask structure` measures the structure of the workspace's source: circles of imports between files, vendor
//! names outside the vendors' folders, public type names with two meanings, third-party types in the seam's signatures,
//! links of the pages that lead nowhere, and lines of code.
//!
//! It reads syntax alone, so it needs no build. What only a type checker knows (the file that implements a method) makes
//! no edge.

mod circles;
mod lines;
mod links;
mod modules;
mod resolver;
mod signatures;
mod source;
mod structure;
mod types;
mod vendors;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["structure"] => match structure::run() {
            Ok(0) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(problem) => {
                eprintln!("xtask: {problem}");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("usage: cargo xtask structure");
            ExitCode::from(2)
        }
    }
}

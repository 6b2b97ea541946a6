//! `cargo xtask structure` measures the structure of the workspace's source: circles of imports between files, vendor
//! names outside the vendors' folders, type names with several definitions, third-party types in the seam's signatures,
//! dead links of the pages, and lines of code.
//!
//! It reads syntax alone, so it needs no build. What only a type checker knows (the file that implements a method) makes
//! no edge.
//!
//! `cargo xtask prose` measures how plainly the comments, errors, help texts and pages are written, and
//! `cargo xtask prose --code-unchanged BASE` proves that a rewrite of them since the commit BASE changed no code.
//!
//! `cargo xtask book` writes the reference pages of the book that are generated; the gate compares them.
//!
//! `cargo xtask dist [BASE_URL]` builds the files of a release.
//!
//! `cargo xtask weight` counts the crates that a dependent compiles, and holds each count to a bound.

mod book;
mod circles;
mod dist;
mod layers;
mod lines;
mod links;
mod modules;
mod prose;
mod resolver;
mod signatures;
mod source;
mod structure;
mod types;
mod uses;
mod vendors;
mod weight;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let faults = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["structure"] => structure::run(),
        ["prose"] => prose::run(None),
        ["prose", "--list", below] => prose::run(Some(below)),
        ["prose", "--code-unchanged", base] => prose::code_unchanged(base),
        ["book"] => book::run(),
        ["dist"] => dist::run(None),
        ["dist", base_url] => dist::run(Some(base_url)),
        ["weight"] => weight::run(),
        _ => Err("usage: cargo xtask structure | prose [--list PATH | --code-unchanged BASE] | book | \
                 dist [BASE_URL] | weight"
            .to_owned()),
    };
    match faults {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::from(2)
        }
    }
}

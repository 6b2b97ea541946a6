//! The `nexus` command: one turn, and what would run it, from a shell.

mod args;
mod check;
mod config;
mod explain;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};

/// The command line or the configuration cannot be used.
const EXIT_USAGE: u8 = 2;
/// The turn failed.
const EXIT_FAILED: u8 = 1;
/// The turn was cancelled, as a shell shows a program that SIGINT ended.
const EXIT_CANCELLED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match args.command {
        Command::Run(run) => run::run(&args.config, &run).await,
        Command::Explain { kind, json } => explain::explain(&args.config, kind.as_deref(), json),
        Command::Check { probe, json } => check::check(&args.config, probe, json).await,
    };
    match outcome {
        Ok(code) => code,
        Err(message) => {
            eprintln!("nexus: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

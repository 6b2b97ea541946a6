//! The `nexus` command: one turn, what would run it, and the logins that pay for it, from a shell.

mod args;
mod availability;
mod check;
mod config;
mod core_dump;
mod explain;
#[cfg(feature = "login")]
mod finish;
mod interrupt;
#[cfg(feature = "keyring")]
mod key;
#[cfg(feature = "login")]
mod login;
#[cfg(feature = "login")]
mod login_report;
#[cfg(feature = "login")]
mod logout;
mod output;
mod printer;
mod run;
#[cfg(feature = "login")]
mod spoken_time;
mod status;
#[cfg(feature = "login")]
mod surroundings;
mod warnings;

use std::{process::ExitCode, time::Duration};

use clap::Parser as _;

use args::{Args, Command};

/// The command line or the configuration cannot be used.
const EXIT_USAGE: u8 = 2;
/// The turn or the login failed.
const EXIT_FAILED: u8 = 1;
/// It was cancelled, as a shell shows a program that SIGINT ended.
const EXIT_CANCELLED: u8 = 130;

/// How long work that goes on by itself may take after the last word, such as a search for an address.
const LAST_WORK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    core_dump::forbid();
    let args = Args::parse();
    warnings::show();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("nexus: no thread could be started: {error}");
            return ExitCode::from(EXIT_FAILED);
        }
    };
    let outcome = runtime.block_on(async {
        let outcome = run(args).await;
        #[cfg(feature = "login")]
        finish::finish_refreshes().await;
        outcome
    });
    runtime.shutdown_timeout(LAST_WORK);
    match outcome {
        Ok(code) => code,
        Err(message) => {
            eprintln!("nexus: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

async fn run(args: Args) -> Result<ExitCode, String> {
    match args.command {
        Command::Run(run) => run::run(&args.config, &run).await,
        Command::Explain { kind, json } => explain::explain(&args.config, kind.as_deref(), json),
        Command::Check { example: true, .. } => Ok(check::example()),
        Command::Check { probe, json, .. } => check::check(&args.config, probe, json).await,
        Command::Status(status) => status::status(&args.config, &status).await,
        #[cfg(feature = "login")]
        Command::Login(login) => login::login(&login).await,
        #[cfg(feature = "login")]
        Command::Logout(logout) => logout::logout(&logout).await,
        #[cfg(feature = "keyring")]
        Command::Key(command) => key::key(command).await,
    }
}

//! The `nexus` command: one turn, what would run it, and the logins that pay for it, from a shell.

// These panic when the stream is closed, and lose the failure when it is full: everything goes by `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod acp;
mod args;
mod artifact;
mod availability;
mod broker;
mod broker_home;
mod callback;
mod check;
mod command_error;
mod config;
mod conversation;
mod core_dump;
mod debate;
mod doctor;
mod explain;
#[cfg(feature = "login")]
mod finish;
mod fleet;
mod forget;
mod hook;
mod interrupt;
#[cfg(feature = "keyring")]
mod key;
#[cfg(feature = "login")]
mod login;
#[cfg(feature = "login")]
mod login_report;
#[cfg(feature = "login")]
mod logout;
mod manual;
mod mcp;
mod output;
mod printer;
mod project;
mod run;
mod session;
mod show;
mod skills;
#[cfg_attr(not(feature = "login"), allow(dead_code, reason = "logins need more of it"))]
mod spoken_time;
mod status;
#[cfg(feature = "login")]
mod surroundings;
mod task;
#[cfg(feature = "otlp")]
mod telemetry;
mod testbed;
mod trigger;
mod versions;
mod warnings;
mod worker;

use std::{io, process::ExitCode, sync::Mutex, thread, time::Duration};

use clap::Parser as _;
use nexus::TraceContext;
use tokio::runtime::Runtime;

use args::{Args, Command};
use command_error::CommandError;
use output::complain;

/// The command line or the configuration cannot be used.
const EXIT_USAGE: u8 = 2;
/// The turn or the login failed.
const EXIT_FAILED: u8 = 1;
/// Nothing was typed where something was asked for, as a shell shows a program that SIGINT ended.
#[cfg(feature = "keyring")]
const EXIT_CANCELLED: u8 = 130;

/// Pipes that have as many ends as the runtime has descriptors: an epoll, its copy, an event and a pair of sockets.
const RUNTIME_PIPES: usize = 4;

/// How long work that goes on by itself may take after the last word, such as a search for an address.
const LAST_WORK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    core_dump::forbid();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let answered = hook::unparsed(std::env::args_os(), &error);
            return output::exit_code(answered.unwrap_or_else(|| refuse(&error)));
        }
    };
    // Before anything else that can fail: a hook has its own way to report a failure.
    if let Command::Hook(hook) = &args.command {
        return output::exit_code(hook::hook(hook));
    }
    if !args.command.serves_output() {
        output::watch_reader();
    }
    let as_json = args.command.wants_json();
    let runtime = match start_runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("there are too few threads or open files to run: {error}"));
            return ExitCode::from(EXIT_FAILED);
        }
    };
    let outcome = runtime.block_on(async {
        #[cfg(feature = "otlp")]
        let telemetry = telemetry::Telemetry::start(&args.command)?;
        #[cfg(feature = "otlp")]
        let (layer, trace_context) = (telemetry.layer(), telemetry.trace_context());
        #[cfg(not(feature = "otlp"))]
        let (layer, trace_context) = (None, None);
        warnings::show(layer);
        let outcome = run(args, trace_context).await;
        config::settle_holds().await;
        #[cfg(feature = "otlp")]
        telemetry.finish().await;
        #[cfg(feature = "login")]
        finish::finish_refreshes().await;
        outcome
    });
    runtime.shutdown_timeout(LAST_WORK);
    output::exit_code(outcome.unwrap_or_else(|error| error.report(as_json)))
}

/// Starts the runtime, which panics or hangs where it gets fewer threads or descriptors than it starts with: as many are
/// taken before, and given back.
fn start_runtime() -> io::Result<Runtime> {
    let taken = (0..RUNTIME_PIPES).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>()?;
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let closed = gate.lock();
        // Those that work, and the first that blocks.
        for _ in 0..=thread::available_parallelism().map_or(1, usize::from) {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()))?;
        }
        drop(closed);
        io::Result::Ok(())
    })?;
    drop(taken);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Prints what the parser says of a command line that is none, or of `--help` and `--version`.
fn refuse(error: &clap::Error) -> ExitCode {
    if let Err(unwritten) = error.print()
        && !error.use_stderr()
    {
        output::fail(unwritten);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_USAGE))
}

async fn run(args: Args, trace_context: Option<TraceContext>) -> Result<ExitCode, CommandError> {
    match args.command {
        Command::Run(run) => run::run(&args.config, &run, trace_context).await,
        Command::Show { file, json } => show::show(&file, json),
        Command::Forget { file, json } => forget::forget(&args.config, &file, json).await,
        Command::Explain { kind, json, watch } => {
            explain::explain(&args.config, kind.as_deref(), json, watch).await
        }
        Command::Conversation(command) => conversation::conversation(&args.config, command).await,
        Command::Debate(command) => debate::debate(&args.config, &command).await,
        Command::Task(command) => task::task(&args.config, &command).await,
        Command::Testbed(command) => testbed::testbed(command).await,
        Command::Doctor { json } => doctor::doctor(&args.config, json).await,
        Command::Completions { shell } => Ok(manual::completions(shell)),
        Command::Manual => manual::manual(),
        Command::Acp(acp) => acp::acp(&args.config, &acp).await,
        Command::Mcp(command) => mcp::mcp(&args.config, command).await,
        Command::Hook(hook) => Ok(hook::hook(&hook)),
        Command::Artifact(artifact) => artifact::artifact(&args.config, artifact),
        Command::Project(args) => project::project(args).await,
        Command::Worker(worker) => worker::worker(&args.config, &worker, trace_context).await,
        Command::Trigger(command) => trigger::trigger(&args.config, command).await,
        Command::Init(init) => skills::init(&init),
        Command::Onboard(onboard) => skills::onboard(onboard).await,
        Command::Skills(skills) => skills::skills(skills).await,
        Command::Session(command) => session::session(command).await,
        Command::Broker(command) => broker::broker(&args.config, command).await,
        Command::Fleet(command) => fleet::fleet(&args.config, command).await,
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

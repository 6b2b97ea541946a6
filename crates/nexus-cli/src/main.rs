//! The `nexus` command: turns, tasks, agents and logins, from a shell.

// These macros panic if the stream is closed, and lose the error if it is full. All output goes through `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod acp;
mod activity;
mod agent;
#[cfg(feature = "keyring")]
mod api_key;
mod approval;
mod args;
mod artifact;
mod attendance;
mod broker;
mod broker_home;
mod broker_run;
mod broker_state;
mod callback;
mod chat;
mod check;
mod checks;
mod child;
mod clean;
mod command_error;
mod completion;
mod config;
mod config_use;
mod confirm;
mod conversation;
mod core_dump;
mod debate;
#[cfg(feature = "demo")]
mod demo;
mod doctor;
mod explain;
#[cfg(feature = "login")]
mod finish;
mod fleet;
mod for_a_person;
mod forget;
mod form;
mod hold;
mod hook;
mod input;
mod interrupt;
mod line_reader;
#[cfg(feature = "login")]
mod login;
#[cfg(feature = "login")]
mod login_report;
#[cfg(feature = "login")]
mod logout;
mod manual;
mod mcp;
mod models;
mod output;
mod printable;
mod printer;
mod project;
mod repeated_lines;
mod run;
mod schema;
mod screen;
mod serve;
mod service;
mod session;
mod setup;
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
mod terminal;
mod testbed;
mod trigger;
mod trust;
mod turn_servers;
mod typed_key;
mod undo;
mod uninstall;
mod usage;
mod versions;
mod warnings;
mod worker;
mod works;

use std::{io, process::ExitCode, sync::Mutex, thread, time::Duration};

use clap::FromArgMatches as _;
use futures::FutureExt as _;
use nexus::TraceContext;
use tokio::runtime::Runtime;

use activity::Activity;
use args::{Args, Command};
use command_error::{CommandError, ErrorLine};
use output::{AnswerWriter, complain};

/// The command line or the configuration cannot be used.
const EXIT_USAGE: u8 = 2;
/// The turn or the login failed.
const EXIT_FAILED: u8 = 1;

/// Pipes that have as many ends as the runtime has descriptors: an epoll, its copy, an event and a pair of sockets.
const RUNTIME_PIPES: usize = 4;

/// Longest wait at the end for background work that cannot be cancelled, such as a DNS lookup.
const LAST_WORK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    // Forbid core dumps before any credential is in the memory of this process.
    core_dump::forbid();
    // Open the network of a sandbox here, because `open_if_asked` has to run before any thread starts.
    if let Some(code) = nexus::process::sandbox::open_if_asked() {
        return ExitCode::from(code);
    }
    if completion::answer() {
        return ExitCode::SUCCESS;
    }
    let (args, command) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            let answered = hook::unparsed(std::env::args_os(), &error);
            return output::exit_code(answered.unwrap_or_else(|| refuse(&error)));
        }
    };
    let out = AnswerWriter::new(args.json);
    // Hooks come before everything that can fail, since they report failures in their own way.
    if let Command::Hook(hook) = &args.command {
        if args.json {
            complain("--json has no effect: a hook answers in the JSON of the program that starts it");
        }
        return output::exit_code(hook::hook(hook));
    }
    if let (true, Some(reason)) = (args.json, schema::reason_for_none(&command)) {
        let message = format!("`nexus {command}` has no JSON output: {reason}");
        let error = CommandError::usage(message).with_advice("leave out --json");
        return output::exit_code(error.report(out));
    }
    // These commands wait for nothing, so they work without the threads of a runtime.
    if args.command.is_immediate() {
        let outcome = run(out, args, None).now_or_never();
        let waits = || Err(CommandError::failed("this command waits for something, but it must not"));
        let outcome = outcome.unwrap_or_else(waits);
        return output::exit_code(outcome.unwrap_or_else(|error| error.report(out)));
    }
    if !args.command.serves_output() {
        output::watch_reader();
    }
    let runtime = match start_runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            let words = format_args!("too few threads or open files are available: {error}");
            return output::exit_code(CommandError::failed(words).report(out));
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
        let outcome = run(out, args, trace_context).await;
        // Slots of the fleet are released in the background. Without this wait they may stay taken for 30 s.
        config::settle_holds().await;
        #[cfg(feature = "otlp")]
        telemetry.finish().await;
        #[cfg(feature = "login")]
        finish::finish_refreshes().await;
        outcome
    });
    // Blocking work, such as a read of standard input, cannot be cancelled.
    runtime.shutdown_timeout(LAST_WORK);
    output::exit_code(outcome.unwrap_or_else(|error| error.report(out)))
}

/// Starts the runtime. It panics or hangs if it gets fewer threads or descriptors than it needs at the start. So this function
/// first allocates as many, and frees them again.
fn start_runtime() -> io::Result<Runtime> {
    let taken = (0..RUNTIME_PIPES).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>()?;
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // All threads wait at this gate, so that they exist at the same time as in the runtime.
        let closed = gate.lock();
        // One thread for each worker of the runtime, and one for its first blocking task.
        for _ in 0..=thread::available_parallelism().map_or(1, usize::from) {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()))?;
        }
        drop(closed);
        io::Result::Ok(())
    })?;
    // The runtime needs these descriptors for itself, so release them first.
    drop(taken);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Parses the command line. Also returns the name of the command.
fn parse() -> Result<(Args, String), clap::Error> {
    let matches = match args::command().try_get_matches() {
        Err(error) if lacks_command(&error) => {
            // A person at a terminal who names no command gets a chat. Everyone else gets the help.
            let chat =
                || args::command().try_get_matches_from(std::env::args_os().chain(["chat".into()])).ok();
            match chat::is_default().then(chat).flatten() {
                Some(matches) => matches,
                None => return Err(error),
            }
        }
        parsed => parsed?,
    };
    let mut names = Vec::new();
    let mut at = &matches;
    while let Some((name, below)) = at.subcommand() {
        names.push(name);
        at = below;
    }
    let mut args = Args::from_arg_matches(&matches)?;
    args.config = args.config.or_of_environment();
    Ok((args, names.join(" ")))
}

/// Returns true if the command line ends before its command.
fn lacks_command(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, MissingSubcommand};
    matches!(error.kind(), DisplayHelpOnMissingArgumentOrSubcommand | MissingSubcommand)
}

/// Prints the parser's message: an error in the command line, or the text of `--help` or `--version`.
fn refuse(error: &clap::Error) -> ExitCode {
    // The command line could not be parsed. This search is safe, since no option takes a value that looks like an option.
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if error.use_stderr() && words.any(|word| word == "--json") {
        output::say_json(&ErrorLine::of_parser(error));
    } else {
        let text = args::with_plain_spaces(&error.render().to_string());
        match error.use_stderr() {
            true => output::complain_line(text.trim_end()),
            false => output::say_bytes(text.as_bytes()),
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_USAGE))
}

async fn run(
    out: AnswerWriter,
    args: Args,
    trace_context: Option<TraceContext>,
) -> Result<ExitCode, CommandError> {
    let config = &args.config;
    let _activity = args.command.activity().map(Activity::start);
    match args.command {
        Command::Run(run) => run::run(out, config, &run, trace_context).await,
        Command::Chat(args) => chat::chat(out, config, &args).await,
        Command::Undo(args) => undo::undo(out, &args).await,
        Command::Diff(args) => undo::diff(out, &args).await,
        Command::Show { file } => show::show(out, &file),
        Command::Forget { file } => forget::forget(out, config, &file).await,
        Command::Agent(command) => agent::agent(out, &command).await,
        Command::Usage(args) => usage::usage(out, &args),
        Command::Hold(command) => hold::hold(out, config, command).await,
        Command::Explain { kind, watch } => explain::explain(out, config, kind.as_deref(), watch).await,
        Command::Conversation(command) => conversation::conversation(out, config, command).await,
        Command::Debate(command) => debate::debate(out, config, command).await,
        Command::Task(command) => task::task(out, config, command).await,
        Command::Serve(args) => serve::serve(out, config, args).await,
        Command::Service(command) => service::service(out, config, command).await,
        Command::Testbed(command) => testbed::testbed(out, command).await,
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::demo(args).await,
        Command::Setup(args) => setup::setup(out, config, &args).await,
        Command::Doctor => doctor::doctor(out, config).await,
        Command::Completions { shell } => manual::completions(out, shell),
        Command::Manual => manual::manual(out),
        Command::Schema(command) => schema::schema(out, &command),
        Command::Clean(arguments) => clean::clean(out, config, arguments).await,
        Command::Uninstall(arguments) => uninstall::uninstall(out, &arguments),
        Command::Acp(acp) => acp::acp(config, &acp).await,
        Command::Mcp(command) => mcp::mcp(config, command).await,
        Command::Hook(hook) => Ok(hook::hook(&hook)),
        Command::Artifact(artifact) => artifact::artifact(out, config, artifact),
        Command::Project(args) => project::project(out, args).await,
        Command::Worker(worker) => worker::worker(config, &worker, trace_context).await,
        Command::Trigger(command) => trigger::trigger(out, config, command).await,
        Command::Init(init) => skills::init(out, &init),
        Command::Onboard(onboard) => skills::onboard(out, onboard).await,
        Command::Skills(skills) => skills::skills(out, skills).await,
        Command::Session(command) => session::session(out, command).await,
        Command::Broker(command) => broker::broker(out, config, command).await,
        Command::Fleet(command) => fleet::fleet(out, config, command).await,
        Command::Check { example: true, .. } => Ok(check::example(out)),
        Command::Check { print: true, .. } => check::print(out, config),
        Command::Check { probe, .. } => check::check(out, config, probe).await,
        Command::Trust(args) => trust::trust(out, &args),
        Command::Models(args) => models::models(out, config, &args).await,
        Command::Status(status) => status::status(out, config, &status).await,
        #[cfg(feature = "login")]
        Command::Login(login) => login::login(out, &login).await,
        #[cfg(feature = "login")]
        Command::Logout(logout) => logout::logout(out, &logout).await,
        #[cfg(feature = "keyring")]
        Command::Key(command) => api_key::api_key(out, command).await,
    }
}

//! `nexus mcp`: tools for other programs, by the Model Context Protocol.

pub(crate) mod registration;

use std::{
    io::ErrorKind,
    path::{Path, PathBuf, absolute},
    process::ExitCode,
    sync::Arc,
};

use nexus::BuildContext;
use nexus_mcp::{
    HttpServer, HttpSettings, HttpToken, ServerFile, StdioEnd, StdioSettings, attach, serve_stdio,
};
use nexus_spawn::{TaskConfiguration, TaskError, TaskErrorKind, TaskTools, Tasks, TasksOptions};

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, McpCommand, McpSpawnArgs},
    command_error::CommandError,
    config,
    interrupt::interrupted,
    output::{EXIT_CLOSED_PIPE, complain, say},
};

/// What the files of the server of tasks are called in the home.
const SERVER_FILES: &str = "spawn";

pub(crate) async fn mcp(config: &ConfigArgs, command: McpCommand) -> Result<ExitCode, CommandError> {
    match command {
        McpCommand::Spawn(args) => spawn(config, args).await,
    }
}

async fn spawn(config: &ConfigArgs, args: McpSpawnArgs) -> Result<ExitCode, CommandError> {
    let mut context = BuildContext::from_process();
    if let Some(home) = &args.home {
        context.home.clone_from(home);
    }
    // The folder that it is started in is its client's.
    context.home = absolute(&context.home).map_err(CommandError::failed)?;
    let home = context.home.clone();
    if args.attach {
        return attach(&home, SERVER_FILES, ended())
            .await
            .map_or_else(|error| Err(CommandError::failed(with_causes(&error))), |end| ended_by(&end));
    }
    let file = config.config.clone();
    let tools = Arc::new(TaskTools::new(move || open(file.as_deref(), context.clone())));
    match args.http {
        None => match serve_stdio(tools, StdioSettings::default(), ended()).await {
            Ok(end) => ended_by(&end),
            Err(error) => Err(CommandError::failed(format_args!(
                "standard input and output cannot be taken over: {error}"
            ))),
        },
        Some(address) => {
            let claim = ServerFile::claim(&home, SERVER_FILES)
                .map_err(|error| CommandError::failed(with_causes(&error)))?;
            let path = ServerFile::token_path(&home, SERVER_FILES);
            let token = HttpToken::load_or_create(&path)
                .map_err(|error| CommandError::failed(with_causes(&error)))?;
            let mut settings = HttpSettings::new(address, token);
            settings.hosts = args.host;
            let server = HttpServer::bind(tools, settings).await.map_err(|error| {
                CommandError::failed(format_args!("{address} cannot be listened on: {error}"))
            })?;
            claim.announce(server.address()).map_err(|error| CommandError::failed(with_causes(&error)))?;
            if !server.address().ip().is_loopback() {
                complain("others reach this address, and what is sent there is not encrypted");
            }
            say(format_args!("{} (the token is in {})", server.url(), path.display()));
            server.serve(ended()).await;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Opens the tasks of a home: loads the configuration, which is never one of the folder that the server was started in.
fn open(file: Option<&Path>, context: BuildContext) -> Result<Tasks, TaskError> {
    let home = context.home.clone();
    let path: PathBuf = file.map_or_else(|| home.join("nexus.yaml"), Path::to_owned);
    if !path.exists() {
        let message = format!("there is no configuration {}", path.display());
        let instead = format!(
            "{}, or register the server with --config FILE; then make the same call again",
            config::BEGIN
        );
        return Err(TaskError::new(TaskErrorKind::NotConfigured, message, instead));
    }
    let refused = |problem: String| {
        let message = format!("the configuration {} cannot be used: {problem}", path.display());
        TaskError::new(TaskErrorKind::NotConfigured, message, "mend it, then make the same call again")
    };
    let router = config::load_file(&path, context).map_err(|error| refused(error.to_string()))?;
    let TaskConfiguration { roots, defaults, .. } =
        TaskConfiguration::of(&router).map_err(|error| refused(error.to_string()))?;
    let mut options = TasksOptions::in_home(home);
    options.roots = roots;
    options.settings = defaults;
    Ok(Tasks::new(router, options))
}

/// Waits until somebody wants the server to end.
async fn ended() {
    if let Err(error) = interrupted().await {
        complain(format_args!("signals cannot be listened to: {error}"));
        std::future::pending::<()>().await;
    }
}

/// How the command ends after its client's lines did.
fn ended_by(end: &StdioEnd) -> Result<ExitCode, CommandError> {
    match end {
        StdioEnd::OutputFailed(error) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(ExitCode::from(EXIT_CLOSED_PIPE))
        }
        StdioEnd::OutputFailed(error) => {
            complain(format_args!("standard output cannot be written: {error}"));
            Ok(ExitCode::from(EXIT_FAILED))
        }
        StdioEnd::InputFailed(error) => {
            complain(format_args!("standard input cannot be read: {error}"));
            Ok(ExitCode::from(EXIT_FAILED))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// An error with what is behind it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

//! `nexus mcp`: tools for other programs, by the Model Context Protocol.

pub(crate) mod registration;

use std::{
    io::ErrorKind,
    path::{Path, absolute},
    process::ExitCode,
    sync::Arc,
};

use nexus::{BuildContext, Router};
use nexus_debates::{DebateError, DebateErrorKind, DebateTools, Debates};
use nexus_mcp::{
    HttpServer, HttpSettings, HttpToken, ServerFile, StdioEnd, StdioSettings, ToolService, attach,
    serve_stdio,
};
use nexus_project::ProjectTools;
use nexus_tasks::{TaskConfiguration, TaskError, TaskErrorKind, TaskTools, Tasks, TasksOptions};

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, McpCommand, McpServerArgs},
    command_error::{CommandError, with_causes},
    config::{self, ConfigSource},
    debate, input,
    interrupt::interrupted,
    output::{EXIT_CLOSED_PIPE, complain, say},
    project,
};

/// Name of each server's files in the home.
const SPAWN: &str = "spawn";
const DEBATE: &str = "debate";
/// Program that calls the tools, for people.
const CLIENT: &str = "a client of the Model Context Protocol";

pub(crate) async fn mcp(config: &ConfigArgs, command: McpCommand) -> Result<ExitCode, CommandError> {
    match command {
        McpCommand::Spawn(args) => {
            let file = config.config.clone();
            let tools =
                |context: BuildContext| TaskTools::new(move || open(file.as_deref(), context.clone()));
            serve(SPAWN, args, tools).await
        }
        McpCommand::Debate(args) => {
            let file = config.config.clone();
            let tools = |context: BuildContext| {
                DebateTools::new(move || open_debates(file.as_deref(), context.clone()))
            };
            serve(DEBATE, args, tools).await
        }
        McpCommand::Project(args) => {
            let prefix = args.prefix.parse().map_err(CommandError::usage)?;
            let tools = Arc::new(ProjectTools::new(project::find(args.project.as_deref())?, prefix));
            input::expect_program(CLIENT);
            match serve_stdio(tools, StdioSettings::default(), ended()).await {
                Ok(end) => ended_by(&end),
                Err(error) => Err(not_taken_over(&error)),
            }
        }
    }
}

/// Serves tools. `files` is the name of the server's files in the home.
async fn serve<S: ToolService>(
    files: &str,
    args: McpServerArgs,
    tools: impl FnOnce(BuildContext) -> S,
) -> Result<ExitCode, CommandError> {
    let mut context = BuildContext::from_process();
    if let Some(home) = &args.home {
        context.home.clone_from(home);
    }
    // The client chooses the current folder, so relative paths are resolved once, here.
    context.home = absolute(&context.home).map_err(CommandError::failed)?;
    let home = context.home.clone();
    if args.attach {
        input::expect_program(CLIENT);
        return attach(&home, files, ended())
            .await
            .map_or_else(|error| Err(CommandError::failed(with_causes(&error))), |end| ended_by(&end));
    }
    let tools = Arc::new(tools(context));
    match args.http {
        None => {
            input::expect_program(CLIENT);
            match serve_stdio(tools, StdioSettings::default(), ended()).await {
                Ok(end) => ended_by(&end),
                Err(error) => Err(not_taken_over(&error)),
            }
        }
        Some(address) => {
            // Claim the file first: a second server of this home fails here, before it opens a port.
            let claim =
                ServerFile::claim(&home, files).map_err(|error| CommandError::failed(with_causes(&error)))?;
            let path = ServerFile::token_path(&home, files);
            let token = HttpToken::load_or_create(&path)
                .map_err(|error| CommandError::failed(with_causes(&error)))?;
            let mut settings = HttpSettings::new(address, token);
            settings.hosts = args.host;
            let server = HttpServer::bind(tools, settings).await.map_err(|error| {
                CommandError::failed(format_args!("{address} cannot be listened on: {error}"))
            })?;
            // Announce only now: the port 0 gets its number when it is bound.
            claim.announce(server.address()).map_err(|error| CommandError::failed(with_causes(&error)))?;
            if !server.address().ip().is_loopback() {
                complain("other machines can reach this address, and its traffic is not encrypted");
            }
            say(format_args!("{} (the token is in {})", server.url(), path.display()));
            server.serve(ended()).await;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn not_taken_over(error: &dyn std::error::Error) -> CommandError {
    CommandError::failed(format_args!("standard input and output cannot be opened: {error}"))
}

/// Opens the tasks of a home with its configuration. A configuration in the server's current folder is never used.
fn open(file: Option<&Path>, context: BuildContext) -> Result<Tasks, TaskError> {
    let not_configured =
        |(message, instead): (String, String)| TaskError::new(TaskErrorKind::NotConfigured, message, instead);
    let home = context.home.clone();
    let (source, router) = load(file, context).map_err(not_configured)?;
    let TaskConfiguration { roots, defaults, .. } = TaskConfiguration::of(&router)
        .map_err(|error| not_configured(refused(&source, &error.to_string())))?;
    let mut options = TasksOptions::in_home(home);
    options.roots = roots;
    options.settings = defaults;
    Ok(Tasks::new(router, options))
}

/// Like `open`, for the debates of a home.
fn open_debates(file: Option<&Path>, context: BuildContext) -> Result<Debates, DebateError> {
    let not_configured = |(message, instead): (String, String)| {
        DebateError::new(DebateErrorKind::NotConfigured, message, instead)
    };
    let (source, router) = load(file, context.clone()).map_err(not_configured)?;
    debate::open(&router, context).map_err(|error| not_configured(refused(&source, &error.to_string())))
}

/// Loads the configuration. The error contains the problem and the advice.
fn load(file: Option<&Path>, context: BuildContext) -> Result<(ConfigSource, Router), (String, String)> {
    let advice = format!("{}, or register the server with --config FILE", config::begin(&context));
    let source = config::find_for_server(file, &context, &advice)
        .map_err(|error| (error.message().to_owned(), format!("{advice}; then make the same call again")))?;
    match config::load_source(source.clone(), context) {
        Ok(router) => Ok((source, router)),
        Err(error) => Err(refused(&source, &error.to_string())),
    }
}

fn refused(source: &ConfigSource, problem: &str) -> (String, String) {
    let message = format!("the configuration {source} cannot be used: {problem}");
    (message, "correct it, then make the same call again".to_owned())
}

/// Waits for a signal that ends the server.
async fn ended() {
    if let Err(error) = interrupted().await {
        complain(format_args!("signals cannot be received: {error}"));
        // Without signals the client can still end the server by closing the input.
        std::future::pending::<()>().await;
    }
}

/// Exit code after the client's lines have ended.
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

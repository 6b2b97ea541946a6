//! `nexus acp`: an agent for editors, by the Agent Client Protocol.

use std::{
    future::pending,
    io::ErrorKind,
    path::{Path, absolute},
    process::ExitCode,
};

use nexus::{BuildContext, Router};
use nexus_editor::{AcpAgent, AcpEnd, AcpOptions};
use nexus_mcp::own_streams;
use tokio::fs::File;

use crate::{
    EXIT_FAILED,
    args::{AcpArgs, ConfigArgs},
    command_error::CommandError,
    config, input,
    interrupt::interrupted,
    output::{EXIT_CLOSED_PIPE, complain},
};

pub(crate) async fn acp(config: &ConfigArgs, args: &AcpArgs) -> Result<ExitCode, CommandError> {
    let mut context = BuildContext::from_process();
    // The client chooses the current folder, so relative paths are resolved once, here.
    context.home = absolute(&context.home).map_err(CommandError::failed)?;
    let home = context.home.clone();
    let file = config.config.clone();
    let options = AcpOptions::default()
        .with_kind(args.kind.clone())
        .with_access(args.access.into())
        .with_tool_call_within(args.tool_call_limit);
    let agent = AcpAgent::new(move || load(file.as_deref(), context.clone()), home, options);
    // Take the standard streams, so that no other code of this program reads or writes them.
    input::expect_program("an editor");
    let (input, output) = own_streams().map_err(|error| {
        CommandError::failed(format_args!("standard input and output cannot be opened: {error}"))
    })?;
    let end = agent.serve(File::from_std(input), File::from_std(output), ended()).await;
    Ok(match end {
        AcpEnd::OutputFailed(error) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::from(EXIT_CLOSED_PIPE)
        }
        AcpEnd::OutputFailed(error) => {
            complain(format_args!("standard output cannot be written: {error}"));
            ExitCode::from(EXIT_FAILED)
        }
        AcpEnd::InputFailed(error) => {
            complain(format_args!("standard input cannot be read: {error}"));
            ExitCode::from(EXIT_FAILED)
        }
        _ => ExitCode::SUCCESS,
    })
}

/// Loads the configuration that the command line names, else the one in the home, else the detected one.
fn load(file: Option<&Path>, context: BuildContext) -> Result<Router, String> {
    let advice = format!("{}, or start `nexus acp` with --config FILE", config::begin(&context));
    let loaded = config::find_for_server(file, &context, &advice)
        .and_then(|source| config::load_source(source, context));
    loaded.map_err(|error| error.to_string())
}

/// Waits for a signal that ends the agent.
async fn ended() {
    if let Err(error) = interrupted().await {
        complain(format_args!("signals cannot be received: {error}"));
        pending::<()>().await;
    }
}

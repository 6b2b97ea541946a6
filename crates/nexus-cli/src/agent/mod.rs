//! `nexus agent`: the agents that a backend of the kind `acp` can name.

mod add;
mod entry;
#[cfg(feature = "judge")]
mod judge;
mod listed;
mod names;
mod registry_file;

use std::process::ExitCode;

use nexus::{AgentFileError, BuildContext, KnownAgentList, KnownAgentSummary, agents};

pub(crate) use self::add::AddedAgent;
#[cfg(feature = "judge")]
pub(crate) use self::judge::JudgedAgent;
pub(crate) use self::listed::ListedAgent;
use self::{listed::Columns, names::listed_names};
use crate::{
    args::AgentCommand,
    command_error::CommandError,
    output::{AnswerWriter, complain, printable, printable_lines},
};

pub(crate) async fn agent(out: AnswerWriter, command: &AgentCommand) -> Result<ExitCode, CommandError> {
    let context = BuildContext::from_process();
    match command {
        AgentCommand::List => list(out, agents(&context)),
        AgentCommand::Show { name } => show(out, &context, name)?,
        AgentCommand::Add(args) => add::add(out, &context, args)?,
        #[cfg(feature = "judge")]
        AgentCommand::Judge(args) => return judge::judge(out, &context, args).await,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(out: AnswerWriter, list: KnownAgentList) {
    let agents: Vec<ListedAgent> = list.agents.into_iter().map(ListedAgent::of).collect();
    let columns = Columns::of(&agents);
    for agent in &agents {
        out.line(agent, printable(&agent.in_list(columns)));
    }
    list.faults.iter().for_each(complain);
}

fn show(out: AnswerWriter, context: &BuildContext, name: &str) -> Result<(), CommandError> {
    let agent = ListedAgent::of(find(context, name)?);
    out.line(&agent, printable_lines(&agent.in_full()));
    Ok(())
}

/// Finds an agent by its name. The error names the known ones.
fn find(context: &BuildContext, name: &str) -> Result<KnownAgentSummary, CommandError> {
    let KnownAgentList { agents, faults, .. } = agents(context);
    if let Some(fault) = faults.into_iter().find(|fault| fault.agent == name) {
        return Err(unusable(&fault));
    }
    let message = format!(
        "unknown agent {name:?}; known: {}. Any other program runs with `command:` of the kind acp",
        listed_names(agents.iter().map(|agent| agent.name.as_str()))
    );
    agents.into_iter().find(|agent| agent.name == name).ok_or_else(|| CommandError::usage(message))
}

fn unusable(fault: &AgentFileError) -> CommandError {
    CommandError::usage(fault).with_subject(fault.file.display())
}

//! The command line.

mod acp;
mod agent;
#[cfg(feature = "keyring")]
mod api_key;
mod artifact;
mod broker;
mod chat;
mod clean;
mod conversation;
mod debate;
#[cfg(feature = "demo")]
mod demo;
mod examples;
mod fleet;
mod help;
mod hold;
#[cfg(feature = "login")]
mod issuer_url;
#[cfg(feature = "login")]
mod login;
#[cfg(feature = "login")]
mod login_word;
mod mcp;
mod models;
mod project;
mod run;
mod schema;
mod serve;
mod session;
mod setup;
mod skills;
mod status;
mod task;
mod testbed;
mod trigger;
mod trust;
mod undo;
mod uninstall;
mod usage;

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use acp::AcpArgs;
#[cfg(feature = "judge")]
pub(crate) use agent::AgentJudgeArgs;
pub(crate) use agent::{AgentAddArgs, AgentCommand};
#[cfg(feature = "keyring")]
pub(crate) use api_key::KeyCommand;
pub(crate) use artifact::{ArtifactArgs, ArtifactCommand, HandoffCommand, NewArtifact};
pub(crate) use broker::{BrokerCommand, SendArgs};
pub(crate) use chat::ChatArgs;
pub(crate) use clean::{CleanArgs, HomeItemKind};
pub(crate) use conversation::ConversationCommand;
pub(crate) use debate::{DebateCommand, NewDebateArgs};
#[cfg(feature = "demo")]
pub(crate) use demo::{DEMO_ADDRESS, DemoArgs, DemoCommand, DemoHomeArgs, DemoServerArgs, DemoTaskArgs};
pub(crate) use fleet::{FleetCommand, WorkerArgs};
pub(crate) use help::{command, with_plain_spaces};
pub(crate) use hold::HoldCommand;
#[cfg(feature = "login")]
pub(crate) use login::{LoginArgs, LogoutArgs, Method, StoreChoice};
pub(crate) use mcp::{McpCommand, McpServerArgs};
pub(crate) use models::ModelsArgs;
pub(crate) use project::{HookArgs, ProjectArgs, ProjectCommand};
pub(crate) use run::RunArgs;
pub(crate) use schema::SchemaCommand;
pub(crate) use serve::{ServeArgs, ServiceCommand, ServiceProgram};
pub(crate) use session::SessionCommand;
pub(crate) use setup::SetupArgs;
pub(crate) use skills::{InitArgs, OnboardArgs, SkillsArgs, SkillsCommand};
pub(crate) use status::StatusArgs;
pub(crate) use task::{NewTaskArgs, QueueTaskArgs, RunTaskArgs, TaskCommand};
pub(crate) use testbed::{RunTestbedArgs, TestbedCommand, TrapArgs};
pub(crate) use trigger::{TriggerArgs, TriggerCommand};
pub(crate) use trust::TrustArgs;
pub(crate) use undo::{DiffArgs, UndoArgs};
pub(crate) use uninstall::UninstallArgs;
pub(crate) use usage::UsageArgs;

/// Runs agent turns on the vendors that nexus.yaml names.
#[derive(Debug, Parser)]
#[command(
    name = "nexus",
    version,
    after_help = "Exit codes: 0 done, 1 the turn or the login failed, 2 bad command line \
or configuration, 130 cancelled. `nexus status --help` has its own."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print JSON: one line for each list item or event, else a single line. See `nexus schema output`
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigArgs {
    /// Configuration file. Default: $NEXUS_CONFIG, else ./nexus.yaml of a trusted folder (not for task, debate, broker, trigger, mcp and
    /// acp), else nexus.yaml in $NEXUS_HOME (~/.nexus), else what the machine has
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl ConfigArgs {
    /// Takes the file of the environment if the command line names none. An empty variable counts as unset.
    pub(crate) fn or_of_environment(self) -> Self {
        let variable = || std::env::var_os("NEXUS_CONFIG").filter(|value| !value.is_empty());
        Self { config: self.config.or_else(|| variable().map(PathBuf::from)) }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one turn and show its progress. Prints only the answer to standard output
    Run(Box<RunArgs>),
    /// Talk to an agent: a conversation with history, steering and approvals. `nexus` alone at a terminal starts it
    #[command(after_help = chat::CHAT_HELP)]
    Chat(Box<ChatArgs>),
    /// Restore the files that the last turn changed in a folder
    #[command(after_help = undo::UNDO_HELP)]
    Undo(UndoArgs),
    /// Show what turns changed in a folder. See `nexus undo --help` for the files that are covered
    Diff(DiffArgs),
    /// Print the record of turns that `nexus run --keep FILE` wrote: prompt, events, answer, backend and cost
    Show {
        /// File that `nexus run --keep` wrote
        file: PathBuf,
    },
    /// Take a goal to reviewed work: agents plan it and do it step by step, and reviewers of two vendors decide
    #[command(subcommand)]
    Task(TaskCommand),
    /// Run queued tasks, agents, triggers and servers in one process, until interrupted
    #[command(after_help = serve::SERVE_HELP)]
    Serve(ServeArgs),
    /// Install `nexus serve` or `nexus worker` as a service of systemd for your user
    #[command(subcommand, after_help = serve::SERVICE_HELP)]
    Service(ServiceCommand),
    /// Measure which reviewers catch a confident wrong answer: traps, scripted models, and experiments with statistics
    #[command(subcommand)]
    Testbed(TestbedCommand),
    /// Let a panel debate a question: first each panelist alone, then against the best case for each other position
    #[command(subcommand)]
    Debate(DebateCommand),
    /// Try a whole task on simulated vendors: no login, no network, a few seconds
    #[cfg(feature = "demo")]
    #[command(after_help = demo::DEMO_HELP)]
    Demo(DemoArgs),
    /// Find what this machine has, try it, and write nexus.yaml. No model call
    #[command(after_help = setup::SETUP_HELP)]
    Setup(SetupArgs),
    /// Delete the conversations that `nexus run --keep FILE` stored at the backends. The record in the file stays
    Forget {
        /// File that `nexus run --keep` wrote
        file: PathBuf,
    },
    /// Manage named conversations, which `nexus run --conversation NAME` creates
    #[command(subcommand)]
    Conversation(ConversationCommand),
    /// Show which backends a work-kind would run on, and why. Nothing is started
    Explain {
        /// Type of the configuration. Default: all
        kind: Option<String>,
        /// Explain again whenever the configuration file changes, until Ctrl-C
        #[arg(long)]
        watch: bool,
    },
    /// Manage the backends that are suspended after their vendor refused a turn
    #[command(subcommand)]
    Hold(HoldCommand),
    /// List, show, add and judge the agents of the Agent Client Protocol that a backend can name
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Check the configuration, and print its contents or its errors
    Check {
        /// Also check that each backend can start: its program, version, credential and server. No model call
        #[arg(long)]
        probe: bool,
        /// Print an example configuration with every key, and read nothing
        #[arg(long, conflicts_with = "probe")]
        example: bool,
        /// Print the configuration as YAML: the text of its file, or the detected one to begin a file with
        #[arg(long, conflicts_with_all = ["probe", "example"])]
        print: bool,
    },
    /// Trust the nexus.yaml of a folder, and show the programs and addresses that it uses
    #[command(after_help = trust::TRUST_HELP)]
    Trust(TrustArgs),
    /// Show the logins, their accounts and expiry, and the backends that would run. No model call, and no login is renewed
    Status(StatusArgs),
    /// Show what turns of this home spent, by day, vendor, model, task, agent or type. No model call
    #[command(after_help = usage::USAGE_HELP)]
    Usage(UsageArgs),
    /// List the models that the servers of the backends offer. No model call
    Models(ModelsArgs),
    /// Find problems that stop turns on this machine, print advice, and end processes that dead runs left. No model call
    #[command(after_help = "Exit codes: 0 no problem was found, 1 a problem was found.")]
    Doctor,
    /// Serve an editor as its agent, by the Agent Client Protocol. A type of the configuration answers
    #[command(after_help = acp::HELP)]
    Acp(AcpArgs),
    /// Serve tools to other programs, by the Model Context Protocol
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Plan a project and track its tasks, in files that people and agents share
    #[command(after_help = project::HELP)]
    Project(ProjectArgs),
    /// Manage milestones, slices and tasks as Markdown files: create, lint and evaluate them
    #[command(after_help = artifact::HELP)]
    Artifact(ArtifactArgs),
    /// Answer a hook event of a program, as `nexus project install` configures it. Reads and writes JSON
    #[command(
        after_help = "A refusal is an answer on standard output. Exit codes: 0, or 1 for an unknown event. \
                      Never 2, because some programs then refuse every tool."
    )]
    Hook(HookArgs),
    /// Run agents that send each other messages, and write to them
    #[command(subcommand, after_help = broker::BROKER_HELP)]
    Broker(BrokerCommand),
    /// Send messages at times, and on files, requests, events and reports
    #[command(subcommand, after_help = trigger::TRIGGER_HELP)]
    Trigger(TriggerCommand),
    /// Create a workspace: AGENTS.md, SOUL.md, IDENTITY.md and the folders of skills. Existing files are not changed. `nexus setup`
    /// prepares the vendors and writes nexus.yaml
    Init(InitArgs),
    /// Create a workspace, list the skill packs that suit this machine, and sign in. `nexus setup` prepares everything else
    Onboard(OnboardArgs),
    /// Manage the skills of a workspace: your own, and those of a hub
    #[command(after_help = skills::SKILLS_HELP)]
    Skills(SkillsArgs),
    /// Read, search and fork the sessions of agents
    #[command(subcommand, after_help = session::SESSION_HELP)]
    Session(SessionCommand),
    /// Run turns of a pool on this machine, for callers on other machines
    #[command(after_help = fleet::WORKER_HELP)]
    Worker(WorkerArgs),
    /// Show the workers of other machines, and create the resources that they need on their servers
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Log in to your plan, independently of the vendor's own program
    #[cfg(feature = "login")]
    Login(Box<LoginArgs>),
    /// Log out of a plan. The vendor's own program stays logged in
    #[cfg(feature = "login")]
    Logout(LogoutArgs),
    /// Store API keys in the keyring of the system, for `credential: { keyring: NAME }`
    #[cfg(feature = "keyring")]
    #[command(subcommand)]
    Key(KeyCommand),
    /// Print the completion script of a shell
    #[command(after_help = "\
bash: nexus completions bash > ~/.local/share/bash-completion/completions/nexus
zsh:  nexus completions zsh > \"${fpath[1]}/_nexus\"
fish: nexus completions fish > ~/.config/fish/completions/nexus.fish")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page: `nexus manual > nexus.1`
    Manual,
    /// List what the home holds with its sizes, and remove what is old or ended
    #[command(after_help = clean::CLEAN_HELP)]
    Clean(CleanArgs),
    /// Remove this command, if the installer of a release installed it
    Uninstall(UninstallArgs),
    /// Print JSON Schemas of the output of this command
    #[command(subcommand)]
    Schema(SchemaCommand),
}

impl Command {
    /// Returns the activity of a command that can take more than two seconds and prints nothing before its end.
    pub(crate) fn activity(&self) -> Option<&'static str> {
        Some(match self {
            Self::Status(_) => "checking the backends",
            Self::Doctor => "checking this machine",
            Self::Models(ModelsArgs { providers: false, .. }) => "asking the servers for their models",
            Self::Check { probe: true, .. } => "checking the backends",
            Self::Forget { .. } => "deleting the conversations at the backends",
            Self::Conversation(ConversationCommand::Delete { .. }) => "deleting the conversation",
            Self::Task(TaskCommand::Land(_)) => "landing the commits",
            Self::Task(TaskCommand::Report { .. }) | Self::Debate(DebateCommand::Report { .. }) => {
                "writing the report"
            }
            Self::Task(TaskCommand::Cancel(_)) => "stopping the task",
            Self::Task(TaskCommand::Remove(_)) => "removing the task",
            Self::Session(SessionCommand::Search { .. }) => "indexing the messages",
            Self::Skills(SkillsArgs { command, .. }) => match command {
                SkillsCommand::List { hub: Some(_) } => "reading the hub",
                SkillsCommand::Install { .. } | SkillsCommand::Update { .. } => "fetching skills",
                _ => return None,
            },
            Self::Testbed(TestbedCommand::Prove(_)) => "proving the traps",
            Self::Fleet(FleetCommand::Status { watch: None, .. } | FleetCommand::Setup { .. }) => {
                "asking the servers"
            }
            _ => return None,
        })
    }

    /// Returns true if the command waits for nothing: it needs no runtime and no threads.
    pub(crate) fn is_immediate(&self) -> bool {
        match self {
            Self::Completions { .. } | Self::Manual | Self::Schema(_) | Self::Init(_) => true,
            Self::Check { example, .. } => *example,
            _ => false,
        }
    }

    /// Returns true if a closed standard output is a normal end: its reader is a program that has received everything it needs.
    pub(crate) fn serves_output(&self) -> bool {
        match self {
            Self::Acp(_) | Self::Worker(_) => true,
            Self::Mcp(McpCommand::Spawn(args) | McpCommand::Debate(args)) => args.http.is_none(),
            Self::Mcp(McpCommand::Project(_)) => true,
            _ => false,
        }
    }
}

/// Parses a positive time with a unit, such as 30s, 10m or 2h.
fn time_with_unit(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("write a time such as 30s, 10m or 2h".to_owned()),
    }
}

/// Parses a time with a unit, such as 30s, 10m or 2h, or 0.
fn time_or_zero(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a time such as 30s, 10m or 2h, or 0".to_owned())
}

/// Parses a positive number of seconds.
fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        time if time.is_zero() => Err("write more than 0 seconds".to_owned()),
        time => Ok(time),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "write a number of seconds, 0 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    /// The words of a line of shell, up to its comment, redirection or second command.
    #[cfg(all(feature = "login", feature = "keyring", feature = "otlp"))]
    pub(super) fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for character in line.chars() {
            match (quote, character) {
                (Some(end), _) if character == end => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (None, '#' | '>' | '<' | '|' | '&') => break,
                (None, ' ') => words.extend(word.take()),
                _ => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        words
    }

    #[cfg(all(feature = "login", feature = "keyring", feature = "otlp"))]
    #[test]
    fn the_pages_show_commands_that_exist() {
        let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![repository.join("README.md"), repository.join("CONTRIBUTING.md")];
        let mut folders = vec![repository.join("docs")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "md") {
                    pages.push(path);
                }
            }
        }
        let mut shown = 0;
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap();
            let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
            for line in blocks.flat_map(str::lines).filter(|line| line.starts_with("nexus ")) {
                let parsed = Args::try_parse_from(words(line));
                let is_right = parsed.as_ref().map_or_else(|error| !error.use_stderr(), |_| true);
                assert!(is_right, "{}: {line}: {parsed:?}", page.display());
                shown += 1;
            }
        }
        assert!(shown >= 60, "only {shown} commands were found");
    }

    #[test]
    fn a_prompt_may_begin_with_a_dash_after_two() {
        let args = Args::try_parse_from(["nexus", "run", "writer", "--", "-x"]).unwrap();
        assert!(matches!(args.command, Command::Run(run) if run.second.as_deref() == Some("-x")));
    }

    #[test]
    fn a_deadline_is_a_number_of_seconds() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("-1").is_err());
        assert!(seconds("soon").is_err());
    }

    #[cfg(feature = "login")]
    #[test]
    fn who_looks_for_claude_s_login_is_told_where_it_is() {
        for command in ["login", "logout", "status"] {
            let error = Args::try_parse_from(["nexus", command, "claude"]).unwrap_err().to_string();
            let told = format!("claude manages its own login: run `claude auth {command}`");
            assert!(error.contains(&told) && !error.contains("similar"), "{error}");
            let error = Args::try_parse_from(["nexus", command, "codec"]).unwrap_err().to_string();
            assert!(error.contains("codex"), "{error}");
        }
    }

    #[cfg(feature = "keyring")]
    #[test]
    fn a_key_cannot_be_given_on_the_command_line() {
        assert!(Args::try_parse_from(["nexus", "key", "set", "openai"]).is_ok());
        assert!(Args::try_parse_from(["nexus", "key", "set", "openai", "sk-private"]).is_err());
    }
}

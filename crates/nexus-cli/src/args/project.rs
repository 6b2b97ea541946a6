//! The command line of `nexus project`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// Text below the options of `nexus project`.
pub(super) const HELP: &str = "\
A cycle, by hand:
    nexus project init
    nexus project plan \"Faster reads\" --issue \"cache?\" --issue \"where?\"
    nexus project decide 1 \"yes, by key\"
    nexus project decide 2 \"in memory\"
    nexus project add \"write the cache\" --owner engineer
    nexus project add \"check it\" --owner tester --after 1
    nexus project begin 1
    nexus project done 1
    nexus project begin 2
    nexus project done 2
    nexus project close
    nexus project history cache

An agent does the same with the tools of `nexus mcp project`. All files are in .nexus/ of the project: the nearest parent folder with \
.nexus/state/, or the top folder of the git repository.";

/// Text below the options of `nexus project conformance`.
const CONFORMANCE_HELP: &str = "\
Each fixture runs in its own project, in a new folder in which the server is started. A fixture contains the initial files, the calls, \
and the expected content of the results and files as JSONPath (RFC 9535).

Exit codes: 0 all fixtures passed, 1 a fixture failed, 2 bad command line or fixtures.";

#[derive(Debug, ClapArgs)]
pub(crate) struct ProjectArgs {
    /// Folder of the project. Default: the project that contains the current folder
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Create .nexus/, and report what an earlier session left. Nothing is deleted
    Init,
    /// Show the branch, the plan, the decisions and the tasks
    Status,
    /// Start a plan. An existing plan moves to the history first
    Plan {
        /// Topic of the plan
        topic: String,
        /// Issue to decide. May be repeated
        #[arg(long, value_name = "TEXT")]
        issue: Vec<String>,
        /// Findings on the topic
        #[arg(long, value_name = "TEXT")]
        research: Option<String>,
    },
    /// Record a decision on an issue of the plan
    Decide {
        /// Number of the issue
        issue: u32,
        /// Decision, with its reason
        decision: String,
    },
    /// Make a decided issue pending again. The earlier decision is kept
    Reopen {
        /// Number of the issue
        issue: u32,
    },
    /// Add a task
    Add(Box<AddArgs>),
    /// List the tasks
    Tasks,
    /// Print the prompt that an agent gets for a task, with the index of the project's knowledge
    Prompt {
        /// Number of the task
        task: u32,
    },
    /// Mark a task as begun
    Begin {
        /// Number of the task
        task: u32,
        /// Agent that does the task
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Mark a task as done
    Done {
        /// Number of the task
        task: u32,
        /// File that the task changed, relative to the project. May be repeated
        #[arg(long, value_name = "PATH")]
        file: Vec<String>,
        /// Agent that did the task
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Release a task that was begun
    Back {
        /// Number of the task
        task: u32,
    },
    /// Move plan, decisions and tasks to the history, as one cycle
    Close {
        /// Close even if tasks are open
        #[arg(long)]
        force: bool,
    },
    /// List earlier cycles, newest first
    History {
        /// Words that a cycle must contain, all of them
        words: Vec<String>,
    },
    /// List the roles, or print the instructions of a role
    Roles {
        /// The role
        name: Option<String>,
        /// Register all roles as agent types that plans of `nexus task` may name. Stored in $NEXUS_HOME (~/.nexus)
        #[arg(long, conflicts_with = "name")]
        register: bool,
    },
    /// Write hooks for this project into a program's settings. They report the state of the work, and refuse an edit without a task
    Install {
        /// Program to install hooks for. An unknown name prints the known ones
        harness: String,
        /// Shell command by which the program starts nexus. Default: nexus
        #[arg(long, value_name = "COMMAND", default_value = "nexus")]
        command: String,
    },
    /// Remove the hooks. The rest of the settings stays byte for byte
    Uninstall {
        /// Program to remove hooks from. An unknown name prints the known ones
        harness: String,
    },
    /// Print the JSON Schema of a file in .nexus/
    Schema {
        /// File name, such as plan.json. An unknown name prints the known ones
        file: String,
    },
    /// Test a server of the eleven tools against the fixtures
    #[command(after_help = CONFORMANCE_HELP)]
    Conformance {
        /// Program of the server with its arguments, separated by spaces
        #[arg(long, value_name = "COMMAND")]
        server: String,
        /// Prefix of the tool names
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
        /// Fixture files. Default: the fixtures of Nexus
        fixtures: Vec<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddArgs {
    /// Title of the task
    pub(crate) title: String,
    /// Background that the agent needs
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,
    /// Approach to take
    #[arg(long, value_name = "TEXT")]
    pub(crate) approach: Option<String>,
    /// Acceptance criterion
    #[arg(long, value_name = "TEXT")]
    pub(crate) acceptance: Option<String>,
    /// Role that does the task
    #[arg(long, value_name = "ROLE")]
    pub(crate) owner: Option<String>,
    /// Number of a task that must be completed first. May be repeated
    #[arg(long, value_name = "TASK")]
    pub(crate) after: Vec<u32>,
    /// File that the task is about, relative to the project. May be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<String>,
}

/// Arguments of `nexus hook`.
#[derive(Debug, ClapArgs)]
pub(crate) struct HookArgs {
    /// The event: session_start, user_message, subagent_spawn, subagent_complete, pre_tool_use, post_tool_use, session_end or
    /// context_compact
    pub(crate) event: String,
    /// Name of the program, as in `nexus project install`
    #[arg(long, value_name = "NAME")]
    pub(crate) harness: String,
    /// Folder of the project. Default: the project that contains the folder in which the program works
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
}

/// Arguments of `nexus mcp project`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ProjectServerArgs {
    /// Folder of the project. Default: the project that contains the folder in which the server is started
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    /// Prefix of the tool names
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prefix: String,
}

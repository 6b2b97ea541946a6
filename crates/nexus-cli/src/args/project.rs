//! The command line of `nexus project`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// What follows the options of `nexus project`.
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

An agent does the same by the tools of `nexus mcp project`. Everything lies in .nexus/ of the project: the folder above that has
.nexus/state/ in it, or the top of the git repository.";

/// What follows the options of `nexus project conformance`.
const CONFORMANCE_HELP: &str = "\
Each fixture has a project of its own, in a new folder; the server is started there. A fixture says what is there before, what is
called, and what must be in the result and in the files then, by JSONPath (RFC 9535).

Exit codes: 0 all are passed, 1 one is not, 2 bad command line or fixtures.";

#[derive(Debug, ClapArgs)]
pub(crate) struct ProjectArgs {
    /// The project. Default: the one that this folder belongs to
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Make .nexus/, and say what an earlier session left. Nothing is deleted
    Init,
    /// Say where the work stands: branch, plan, decisions, tasks
    Status,
    /// Begin a plan. One that is there goes to the history first
    Plan {
        /// What is planned
        topic: String,
        /// What is to be decided. May be repeated
        #[arg(long, value_name = "TEXT")]
        issue: Vec<String>,
        /// What is known about it
        #[arg(long, value_name = "TEXT")]
        research: Option<String>,
    },
    /// Record a decision on an issue of the plan
    Decide {
        /// The issue's number
        issue: u32,
        /// What is decided, and why
        decision: String,
    },
    /// Make a decided issue pending again. What was decided is kept
    Reopen {
        /// The issue's number
        issue: u32,
    },
    /// Add a task
    Add(Box<AddArgs>),
    /// List the tasks
    Tasks,
    /// Print what an agent is told of a task, with the index of what the project knows
    Prompt {
        /// The task's number
        task: u32,
    },
    /// Say that work on a task begins
    Begin {
        /// The task's number
        task: u32,
        /// The agent that does it
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Say that a task is done
    Done {
        /// The task's number
        task: u32,
        /// A file that was changed for it, relative to the project. May be repeated
        #[arg(long, value_name = "PATH")]
        file: Vec<String>,
        /// The agent that did it
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Give a task back that was begun
    Back {
        /// The task's number
        task: u32,
    },
    /// Put plan, decisions and tasks into the history, as one cycle
    Close {
        /// Although tasks are open
        #[arg(long)]
        force: bool,
    },
    /// List earlier cycles, newest first
    History {
        /// Words that all have to be in a cycle
        words: Vec<String>,
    },
    /// List the roles, or print what one is told
    Roles {
        /// The role
        name: Option<String>,
        /// Make all of them types of agents that plans of `nexus task` may name. It is kept in $NEXUS_HOME (~/.nexus)
        #[arg(long, conflicts_with = "name")]
        register: bool,
    },
    /// Write hooks into a program's settings for this project: they tell it where the work stands, and refuse an edit without a task
    Install {
        /// The program. One that is not known prints those that are
        harness: String,
        /// What starts nexus there, for a shell. Default: nexus
        #[arg(long, value_name = "COMMAND", default_value = "nexus")]
        command: String,
    },
    /// Take the hooks away again. Everything else in the settings stays byte for byte
    Uninstall {
        /// The program. One that is not known prints those that are
        harness: String,
    },
    /// Print the JSON Schema of a file of .nexus/
    Schema {
        /// The file, as plan.json. One that is not known prints those that are
        file: String,
    },
    /// Hold a server of the eleven tools against the fixtures
    #[command(after_help = CONFORMANCE_HELP)]
    Conformance {
        /// The server: a program and its arguments, by spaces
        #[arg(long, value_name = "COMMAND")]
        server: String,
        /// What the names of its tools begin with
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
        /// Files of fixtures. Default: those that come with Nexus
        fixtures: Vec<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddArgs {
    /// What is to be done
    pub(crate) title: String,
    /// What whoever does it has to know
    #[arg(long, value_name = "TEXT")]
    pub(crate) context: Option<String>,
    /// How it is to be done
    #[arg(long, value_name = "TEXT")]
    pub(crate) approach: Option<String>,
    /// By what it is seen to be done
    #[arg(long, value_name = "TEXT")]
    pub(crate) acceptance: Option<String>,
    /// The role that does it
    #[arg(long, value_name = "ROLE")]
    pub(crate) owner: Option<String>,
    /// The number of a task that must be completed before. May be repeated
    #[arg(long, value_name = "TASK")]
    pub(crate) after: Vec<u32>,
    /// A file that it is about, relative to the project. May be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<String>,
}

/// What follows `nexus hook`.
#[derive(Debug, ClapArgs)]
pub(crate) struct HookArgs {
    /// The event: session_start, user_message, subagent_spawn, subagent_complete, pre_tool_use, post_tool_use, session_end or
    /// context_compact
    pub(crate) event: String,
    /// The program, as `nexus project install` names it
    #[arg(long, value_name = "NAME")]
    pub(crate) harness: String,
    /// The project. Default: the one that the program's folder belongs to
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
}

/// What follows `nexus mcp project`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ProjectServerArgs {
    /// The project. Default: the one that the folder belongs to in which the server is started
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    /// What the names of the tools begin with
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prefix: String,
}

//! The command line of `nexus chat`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use nexus::{ConversationName, Effort};

use super::run::Access;

/// Text below the options of `nexus chat`.
pub(crate) const CHAT_HELP: &str = "\
In the chat: /help lists the commands, and @path shows a file or a picture to the model. A line that you type during a turn goes to the \
agent. Ctrl-C cancels the turn, and Ctrl-D leaves. Without a terminal, each line of standard input is one prompt.";

#[derive(Debug, ClapArgs)]
pub(crate) struct ChatArgs {
    /// Type of the configuration. Default: executor
    #[arg(value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Working folder of the turns. Default: the current folder
    #[arg(long = "cd", value_name = "FOLDER")]
    pub(crate) directory: Option<PathBuf>,
    /// Tools that a turn may use. The agent asks before a call that the level leaves open
    #[arg(long, value_enum, default_value_t = Access::ReadOnly)]
    pub(crate) access: Access,
    /// Conversation to start or to resume. Default: a new one with the time as its name
    #[arg(long, value_name = "NAME")]
    pub(crate) conversation: Option<ConversationName>,
    /// Model, by the vendor's name, in place of the configured one
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Effort of the model, in place of the configured one: minimal, low, medium, high, xhigh, max
    #[arg(long)]
    pub(crate) effort: Option<Effort>,
    /// Instructions above each prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
}

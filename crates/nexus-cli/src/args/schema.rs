//! The command line of `nexus schema`.

use clap::Subcommand;

/// Text below the options of `nexus schema output`.
const OUTPUT_HELP: &str = "\
With --json a list prints one JSON object a line, a document prints one object, and a command that keeps running prints one object for each \
event, with its \"type\". A command that fails prints {\"error\": {\"kind\", \"message\", \"place\", \"advice\"}} as the last line of standard output. \
The schema describes each line.";

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Print the JSON Schema of the lines that a command prints with --json; without a command, list the commands
    #[command(after_help = OUTPUT_HELP)]
    Output {
        /// The command, without its arguments, such as task list
        command: Vec<String>,
    },
}

//! `nexus completions` and `nexus manual`: the command line, for shells and for `man`.

use std::process::ExitCode;

use clap_complete::Shell;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::{command, with_plain_spaces},
    command_error::CommandError,
    completion,
    output::AnswerWriter,
};

/// Completion script of a shell.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShellCompletions {
    /// The shell.
    shell: String,
    /// The script.
    script: String,
}

/// Manual page.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ManualPage {
    /// The page, in roff.
    page: String,
}

/// Prints the script that registers the completions with a shell.
pub(crate) fn completions(out: AnswerWriter, shell: Shell) -> Result<ExitCode, CommandError> {
    let script = completion::script(shell).map_err(CommandError::failed)?;
    let completions = ShellCompletions { shell: shell.to_string(), script };
    out.line(&completions, &completions.script);
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page: the command, then each of its subcommands.
pub(crate) fn manual(out: AnswerWriter) -> Result<ExitCode, CommandError> {
    let mut command = command();
    // Building adds the global options to each subcommand.
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(CommandError::failed)?;
    render_subcommands(&command, "nexus", &mut page).map_err(CommandError::failed)?;
    let manual = ManualPage { page: with_plain_spaces(String::from_utf8_lossy(&page).trim_end()) };
    out.line(&manual, &manual.page);
    Ok(ExitCode::SUCCESS)
}

fn render_subcommands(command: &clap::Command, name: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let name = format!("{name} {}", subcommand.get_name());
        page.extend_from_slice(format!("\n.SH {}\n", name.to_uppercase()).as_bytes());
        let man = clap_mangen::Man::new(subcommand.clone());
        let mut section = Vec::new();
        man.render_description_section(&mut section)?;
        man.render_synopsis_section(&mut section)?;
        man.render_options_section(&mut section)?;
        man.render_extra_section(&mut section)?;
        // The subcommand is a section, so its own sections (description, synopsis, options) become subsections.
        let section = String::from_utf8_lossy(&section).replace(".SH EXTRA", ".SH NOTES");
        page.extend_from_slice(section.replace(".SH ", ".SS ").as_bytes());
        render_subcommands(subcommand, &name, page)?;
    }
    Ok(())
}

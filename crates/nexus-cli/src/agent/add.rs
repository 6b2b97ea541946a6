//! `nexus agent add`: a row in the home, from a registry or from a command line.

use std::path::{Path, PathBuf};

use nexus::{AgentFiles, BuildContext, agents};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ListedAgent, find, listed::command_line, registry_file::RegistryFile, unusable};
use crate::{
    args::AgentAddArgs,
    command_error::CommandError,
    output::{AnswerWriter, printable, printable_lines},
};

/// An agent that was added.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AddedAgent {
    /// Name, for `agent:` of a backend.
    agent: String,
    /// The written file.
    file: PathBuf,
    /// The written row.
    row: Map<String, Value>,
    /// True if Nexus has an agent of this name, which the row replaces.
    is_replacing: bool,
    /// Advice on how to install it. Nothing was installed.
    install: String,
    /// Lines of `nexus.yaml` that use it.
    entry: String,
    /// Command that started an agent of this name until now.
    #[serde(skip)]
    replaced: Option<Vec<String>>,
}

pub(super) fn add(
    out: AnswerWriter,
    context: &BuildContext,
    args: &AgentAddArgs,
) -> Result<(), CommandError> {
    let row = match (&args.registry, &args.command) {
        (Some(file), _) => RegistryFile::read(file)?.row(&args.name, args.program.as_deref())?,
        (None, Some(command)) => of_command(command)?,
        (None, None) => return Err(CommandError::usage("name a registry with --registry, or a --command")),
    };
    check_program(&row)?;
    // Read the present row before it is replaced, because the answer shows what it started.
    let earlier = agents(context).agents.into_iter().find(|agent| agent.name == args.name);
    let is_replacing = earlier.as_ref().is_some_and(|agent| !agent.is_yours);
    if is_replacing && !args.force {
        let message = format!("Nexus has an agent {:?}: {}", args.name, effect_on_entries(&args.name, &row));
        return Err(
            CommandError::failed(message).with_advice("replace it with --force, or choose another name")
        );
    }
    let files = AgentFiles::in_home(&context.home);
    let is_written = files.write_row(&args.name, &row, args.force).map_err(|fault| unusable(&fault))?;
    let file = files.path(&args.name);
    if !is_written {
        let effect = effect_on_entries(&args.name, &row);
        let message = format!("{} has a row already: {effect}", file.display());
        return Err(CommandError::failed(message).with_advice("replace it with --force"));
    }
    // Read the row back as later commands do, so that a fault in it is reported now.
    let listed = ListedAgent::of(find(context, &args.name)?);
    let added = AddedAgent {
        agent: args.name.clone(),
        file,
        row,
        is_replacing,
        install: listed.install().to_owned(),
        entry: listed.entry(),
        replaced: earlier.map(|agent| agent.command),
    };
    out.line(&added, printable_lines(&added.as_text()));
    Ok(())
}

/// Checks that the program of a row is the name of a program or the path of one.
fn check_program(row: &Map<String, Value>) -> Result<(), CommandError> {
    let program = row.get("program").and_then(Value::as_str).unwrap_or_default();
    // `.` and `..` name folders, and the command that starts the program would read a `-` as an option.
    match Path::new(program).file_name().is_some() && !program.starts_with('-') {
        true => Ok(()),
        false => Err(CommandError::usage(format_args!(
            "program {program:?} of the row: write the name of a program on the PATH, or an absolute path"
        ))),
    }
}

/// Returns the program and the arguments of a row.
fn command_of(row: &Map<String, Value>) -> Vec<String> {
    let arguments = row.get("arguments").and_then(Value::as_array).into_iter().flatten();
    row.get("program")
        .into_iter()
        .chain(arguments)
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect()
}

/// Returns the effect of a new row on the entries that exist.
fn effect_on_entries(name: &str, row: &Map<String, Value>) -> String {
    format!(
        "with this row every entry of nexus.yaml with `agent: {name}` starts `{}`, with the credential of that entry if it has one",
        command_line(&command_of(row))
    )
}

/// Builds the row of a program that is in no registry.
fn of_command(command: &str) -> Result<Map<String, Value>, CommandError> {
    let words = words(command).ok_or_else(|| CommandError::usage("--command has an open quotation mark"))?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(CommandError::usage("--command names no program"));
    };
    Ok(Map::from_iter([("program".to_owned(), json!(program)), ("arguments".to_owned(), json!(arguments))]))
}

/// Splits a command line at its spaces, except between quotation marks. Returns `None` if one is open.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for character in line.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => word.get_or_insert_default().push(character),
            None if matches!(character, '"' | '\'') => {
                // An opening quote begins a word, so that `''` gives an empty argument.
                word.get_or_insert_default();
                quote = Some(character);
            }
            None if character.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

impl AddedAgent {
    fn as_text(&self) -> String {
        let row = Value::Object(self.row.clone());
        let replaced = self.replaced.as_ref().map(|command| {
            let origin = if self.is_replacing { "the agent of Nexus" } else { "your row" };
            let effect = effect_on_entries(&self.agent, &self.row);
            printable(&format!(
                "It replaces {origin} with this name, which started `{}`: {effect}.",
                command_line(command)
            ))
        });
        let replaced = replaced.map(|text| format!("\n{text}")).unwrap_or_default();
        format!(
            "wrote {}:\n{row:#}{replaced}\n\nNothing was installed: {}.\n\nAn entry for nexus.yaml:\n\n{}\n\n\
             `nexus agent judge {}` shows what it can do, once its row has `with_server`.",
            printable(&self.file.display().to_string()),
            printable(&self.install),
            self.entry,
            self.agent
        )
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_command_line_is_split_like_that_of_a_shell_without_expansion() {
        for (line, expected) in [
            ("my-agent --acp", Some(vec!["my-agent", "--acp"])),
            ("  'a b'\"c d\" '' $X ", Some(vec!["a bc d", "", "$X"])),
            ("", Some(vec![])),
            ("a 'b", None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(words(line), expected, "{line}");
        }
    }
}

//! The type and the prompt that the command line of `nexus run` names.

use crate::{args::RunArgs, command_error::CommandError};

/// Type of a turn whose command line names none.
pub(crate) const DEFAULT_TYPE: &str = "executor";

/// Least similarity to a type at which a single word is taken for a misspelt type, by Jaro-Winkler. Source: our own choice: it allows
/// one wrong or missing letter.
const LEAST_LIKENESS: f64 = 0.9;

/// Type and prompt of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Purpose {
    /// Name of the type.
    pub(super) kind: String,
    /// The prompt. `None` if it is on standard input.
    pub(super) prompt: Option<String>,
}

impl Purpose {
    /// Returns the type and the prompt. Two arguments are a type and a prompt. A single one is the prompt, unless it is the name of a
    /// type, whose prompt is then on standard input.
    pub(super) fn of(args: &RunArgs, types: &[String]) -> Result<Self, CommandError> {
        let is_type = |word: &str| types.iter().any(|known| known == word);
        let (kind, prompt) = match (&args.type_name, &args.first, &args.second) {
            (Some(kind), Some(first), Some(second)) => {
                let message =
                    format!("--type {kind} names the type, but {first:?} and {second:?} are two arguments");
                return Err(CommandError::usage(message).with_advice("put the prompt in quotes"));
            }
            (Some(kind), first, second) => (kind, first.clone().or_else(|| second.clone())),
            (None, Some(kind), Some(prompt)) => (kind, Some(prompt.clone())),
            (None, Some(kind), None) if is_type(kind) => (kind, None),
            (None, Some(prompt), None) | (None, None, Some(prompt)) => {
                if let Some(meant) = misspelt(prompt, types) {
                    let message = format!("{prompt:?} is no type, but similar to {meant:?}");
                    let advice = format!("if it is the prompt, write `--type {DEFAULT_TYPE}` before it");
                    return Err(CommandError::usage(message).with_advice(advice));
                }
                (&DEFAULT_TYPE.to_owned(), Some(prompt.clone()))
            }
            (None, None, None) => {
                return Err(CommandError::usage("the prompt is missing")
                    .with_advice("write it in quotes, such as `nexus run \"Explain this folder.\" --cd . --access read-only`"));
            }
        };
        if args.type_name.is_none() && kind == DEFAULT_TYPE && !is_type(kind) {
            let message = format!("the configuration has no type {DEFAULT_TYPE:?}");
            let advice = format!("name one with --type: {}", types.join(", "));
            return Err(CommandError::usage(message).with_advice(advice));
        }
        Ok(Self { kind: kind.clone(), prompt })
    }
}

/// Returns the type that a single word was probably meant to be. A prompt of several words is never one.
fn misspelt<'t>(word: &str, types: &'t [String]) -> Option<&'t String> {
    if word.contains(char::is_whitespace) {
        return None;
    }
    types.iter().find(|known| strsim::jaro_winkler(known, word) >= LEAST_LIKENESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn of(words: &[&str]) -> Result<(String, Option<String>), String> {
        let parsed = Args::try_parse_from(["nexus", "run"].iter().chain(words)).unwrap();
        let Command::Run(run) = parsed.command else { panic!("{words:?}") };
        let types = ["executor", "reviewer"].map(str::to_owned);
        let purpose = Purpose::of(&run, &types).map_err(|error| error.to_string())?;
        Ok((purpose.kind, purpose.prompt))
    }

    #[test]
    fn the_type_and_the_prompt_are_told_apart() {
        for (words, kind, prompt) in [
            (&["Fix the test."][..], "executor", Some("Fix the test.")),
            (&["hello"], "executor", Some("hello")),
            (&["-"], "executor", Some("-")),
            (&["reviewer"], "reviewer", None),
            (&["reviewer", "Look."], "reviewer", Some("Look.")),
            (&["unknown", "Look."], "unknown", Some("Look.")),
            (&["--type", "reviewer", "Look."], "reviewer", Some("Look.")),
            (&["--type", "reviewer", "executor"], "reviewer", Some("executor")),
            (&["--type", "reviewer"], "reviewer", None),
        ] {
            assert_eq!(of(words), Ok((kind.to_owned(), prompt.map(str::to_owned))), "{words:?}");
        }
        assert!(of(&["--type", "reviewer", "a", "b"]).unwrap_err().contains("put the prompt in quotes"));
        assert!(of(&[]).unwrap_err().contains("the prompt is missing"));
        assert!(of(&["reviewr"]).unwrap_err().contains("similar to \"reviewer\""));
    }
}

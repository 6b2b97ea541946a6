//! Commands of a chat, which begin with a slash.

/// Every command, its arguments, and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 11] = [
    ("/help", "", "list the commands"),
    ("/type", "[TYPE]", "show the types, or run the next turns on another one"),
    ("/model", "[MODEL|default]", "show the model, or ask for another one by the vendor's name"),
    (
        "/access",
        "[LEVEL]",
        "show or set the tools of a turn: scoped-only, read-only, workspace-write, unrestricted",
    ),
    (
        "/diff",
        "[TURN]",
        "show what changed in the folder since the last turn began, or what one turn changed",
    ),
    (
        "/undo",
        "[force]",
        "restore the files that the last turn changed; `force` overwrites your later changes",
    ),
    ("/redo", "", "undo the last undo"),
    ("/cost", "", "show the tokens and the cost of this chat"),
    ("/resume", "[NAME|NUMBER]", "list the conversations, or continue another one"),
    ("/new", "", "begin a new conversation"),
    ("/quit", "", "leave; Ctrl-D does the same"),
];

/// A line of a chat.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatLine {
    /// Nothing was typed.
    Empty,
    /// A prompt for the model.
    Prompt(String),
    Help,
    Type(Option<String>),
    Model(Option<String>),
    Access(Option<String>),
    Diff(Option<u64>),
    Undo {
        is_forced: bool,
    },
    Redo,
    Cost,
    Resume(Option<String>),
    New,
    Quit,
}

impl ChatLine {
    /// Reads a line. A word with a second slash is a path, and so part of a prompt. So is a line that begins with a space.
    ///
    /// # Errors
    ///
    /// An unknown command, or arguments that it does not take.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        if line.trim().is_empty() {
            return Ok(Self::Empty);
        }
        let mut words = line.split_whitespace();
        let command = words.next().unwrap_or_default();
        // A path such as `/etc/hosts` is the beginning of a prompt, not a command.
        if !line.starts_with('/') || command[1..].contains('/') || command == "/" {
            return Ok(Self::Prompt(line.trim().to_owned()));
        }
        let (argument, more) = (words.next(), words.next());
        let text = argument.map(str::to_owned);
        let known = match (command, argument) {
            ("/help", None) => Self::Help,
            ("/type", _) => Self::Type(text),
            ("/model", _) => Self::Model(text),
            ("/access", _) => Self::Access(text),
            ("/diff", None) => Self::Diff(None),
            ("/diff", Some(turn)) => {
                let number = turn.parse().map_err(|_| format!("{turn:?} is no number of a turn"))?;
                Self::Diff(Some(number))
            }
            ("/undo", None) => Self::Undo { is_forced: false },
            ("/undo", Some("force")) => Self::Undo { is_forced: true },
            ("/redo", None) => Self::Redo,
            ("/cost", None) => Self::Cost,
            ("/resume", _) => Self::Resume(text),
            ("/new", None) => Self::New,
            ("/quit" | "/exit", None) => Self::Quit,
            _ => return Err(unknown(command)),
        };
        if more.is_some() {
            return Err(unknown(command));
        }
        Ok(known)
    }
}

fn unknown(command: &str) -> String {
    match COMMANDS.iter().find(|(name, ..)| *name == command) {
        Some((name, arguments, _)) => format!("write `{}`", format!("{name} {arguments}").trim_end()),
        None => format!(
            "no command {command:?}; /help lists them, and a space before the slash sends the line to the model"
        ),
    }
}

/// Returns the list of the commands.
pub(super) fn help() -> String {
    let mut text = String::new();
    for (name, arguments, about) in COMMANDS {
        text.push_str(&format!("{:<24}{about}\n", format!("{name} {arguments}")));
    }
    text.push_str(
        "\n@path             the content of a file, or a picture; Tab completes the path\n\
         Alt-Enter         a line break in the prompt\n\
         Ctrl-C            cancel the turn; at an empty prompt, twice to leave\n\
         a line during a turn goes to the agent between its tool calls\n\
         a space before a line keeps it out of the history",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_from_a_prompt() {
        for (line, read) in [
            ("", ChatLine::Empty),
            (" \t", ChatLine::Empty),
            ("Fix it.", ChatLine::Prompt("Fix it.".into())),
            (" /help", ChatLine::Prompt("/help".into())),
            ("/etc/hosts is odd", ChatLine::Prompt("/etc/hosts is odd".into())),
            ("/ is the root", ChatLine::Prompt("/ is the root".into())),
            ("/help", ChatLine::Help),
            ("/type  reviewer ", ChatLine::Type(Some("reviewer".into()))),
            ("/model", ChatLine::Model(None)),
            ("/diff 3", ChatLine::Diff(Some(3))),
            ("/undo force", ChatLine::Undo { is_forced: true }),
            ("/exit", ChatLine::Quit),
        ] {
            assert_eq!(ChatLine::read(line).as_ref(), Ok(&read), "{line:?}");
        }
        for (line, error) in [
            ("/hlep", "no command \"/hlep\""),
            ("/diff x", "\"x\" is no number"),
            ("/undo now", "write `/undo [force]`"),
            ("/cost a b", "write `/cost`"),
        ] {
            assert!(ChatLine::read(line).unwrap_err().contains(error), "{line:?}");
        }
    }

    #[test]
    fn every_command_of_the_help_is_one() {
        for (name, ..) in COMMANDS {
            assert!(!matches!(ChatLine::read(name), Ok(ChatLine::Prompt(_)) | Err(_)), "{name}");
        }
    }
}

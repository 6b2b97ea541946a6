//! Help of every command: examples, global options once, and the overview of `nexus --help`.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::{Args, examples::examples_of};
use crate::terminal::{self, folded};

/// Commands of the overview, by heading. A command that no heading names is listed under the last one; a test finds it.
const HEADINGS: [(&str, &[&str]); 5] = [
    ("Run agents", &["chat", "run", "task", "serve", "debate", "testbed", "broker", "trigger"]),
    ("Read and continue earlier work", &["diff", "undo", "show", "conversation", "session", "forget"]),
    ("Plan projects", &["project", "artifact", "skills", "hook"]),
    ("Serve editors, programs and machines", &["acp", "mcp", "worker", "fleet"]),
    (
        "Set up and check",
        &[
            "setup",
            "demo",
            "init",
            "onboard",
            "login",
            "logout",
            "key",
            "trust",
            "check",
            "explain",
            "status",
            "usage",
            "models",
            "agent",
            "doctor",
            "hold",
            "service",
            "clean",
            "completions",
            "manual",
            "schema",
            "uninstall",
            "help",
        ],
    ),
];

/// Heading of the options that every command has.
const GLOBAL_OPTIONS: &str = "Global options";

/// Widest help. Longer lines are hard to read. Source: our own choice, the width without a terminal.
const MAX_WIDTH: usize = 100;
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// Space of a command line in a help text. clap wraps only at ordinary spaces, so a line to copy stays whole.
const HARD_SPACE: char = '\u{a0}';

/// Indentation of command lines in a help text.
const CODE: &str = "    ";

/// Builds the command line, with its complete help.
pub(crate) fn command() -> Command {
    let width = terminal::columns().unwrap_or(WIDTH_WITHOUT_TERMINAL).min(MAX_WIDTH);
    let command = completed(Args::command(), "", &[]).term_width(width);
    let overview = overview(&command, width);
    command.before_help(overview).help_template(
        "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Global options:\n{options}{after-help}",
    )
}

/// Restores the ordinary spaces of a rendered help.
pub(crate) fn with_plain_spaces(rendered: &str) -> String {
    rendered.replace(HARD_SPACE, " ")
}

/// Adds examples and global options to a command and all below it. `inherited` are the global options of the commands above.
fn completed(command: Command, name: &str, inherited: &[Arg]) -> Command {
    let own: Vec<Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help).help("Print help");
    let mut command = command
        .mut_args(|arg| if arg.is_global_set() { arg.help_heading(GLOBAL_OPTIONS) } else { arg })
        .args(inherited)
        .disable_help_flag(true)
        .arg(help.help_heading(GLOBAL_OPTIONS));
    let after = after_help(&command, name);
    if !after.is_empty() {
        command = command.after_help(after);
    }
    let globals: Vec<Arg> = inherited.iter().cloned().chain(own.into_iter().map(shortened)).collect();
    command.mut_subcommands(|below| {
        let name = format!("{name} {}", below.get_name());
        completed(below, name.trim_start(), &globals)
    })
}

/// Cuts the help of a global option to its first sentence. The command that declares the option shows all of it.
fn shortened(option: Arg) -> Arg {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let first = first_part(&help).to_owned();
    option.help(first).long_help(None).help_heading(GLOBAL_OPTIONS).hide_env(true)
}

/// Returns the examples of a command, then the text that it declares itself.
fn after_help(command: &Command, name: &str) -> String {
    let mut text = String::new();
    let examples = examples_of(name);
    if !examples.is_empty() {
        text.push_str("Examples:");
        for example in examples {
            let _ = write!(text, "\n{CODE}{example}");
        }
    }
    if let Some(own) = command.get_after_help() {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        let _ = write!(text, "{gap}{own}");
    }
    let lines = text.lines().map(|line| match line.strip_prefix(CODE) {
        // clap wraps at plain spaces only, so a line to copy stays whole.
        Some(code) => format!("{CODE}{}", code.replace(' ', &HARD_SPACE.to_string())),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the first sentence of a text, or its part before a colon if that part says enough. Quoted code is never cut.
fn first_part(text: &str) -> &str {
    // An even number of back-quotes before a place means that it is outside of code.
    let is_outside_code = |at: &usize| text[..*at].matches('`').count().is_multiple_of(2);
    let sentence = text.match_indices(". ").map(|(at, _)| at).find(is_outside_code);
    // A single word before the colon explains nothing.
    let says_enough = |at: &usize| is_outside_code(at) && text[..*at].split(' ').count() > 1;
    let clause = text.match_indices(": ").map(|(at, _)| at).find(says_enough);
    let end = [sentence, clause].into_iter().flatten().min();
    &text[..end.unwrap_or(text.len())]
}

/// Lists the commands under their headings, each with the first part of its description.
fn overview(command: &Command, width: usize) -> String {
    let mut about: Vec<(&str, String)> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(|below| {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            (below.get_name(), first_part(&about).to_owned())
        })
        .collect();
    about.push(("help", "Print the help of a command".to_owned()));
    let named = |name: &str| HEADINGS.iter().any(|(_, names)| names.contains(&name));
    let indent = about.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 4;
    let mut text = String::new();
    for (index, (heading, names)) in HEADINGS.iter().enumerate() {
        let _ = write!(text, "{}{heading}:", if index == 0 { "" } else { "\n\n" });
        let listed = names.iter().filter_map(|name| about.iter().find(|(listed, _)| listed == name));
        let is_last = index + 1 == HEADINGS.len();
        let unlisted = about.iter().filter(|(name, _)| is_last && !named(name));
        for (name, about) in listed.chain(unlisted) {
            let row = format!("\n  {name:<0$}{1}", indent - 2, folded(about, indent, width));
            // clap would wrap the aligned rows again, without their indentation.
            text.push_str(&row.replace(' ', &HARD_SPACE.to_string()));
        }
    }
    text
}

#[cfg(all(test, feature = "login", feature = "keyring", feature = "otlp"))]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser as _;

    use super::*;

    fn every_command(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
        found.push((name.to_owned(), command.clone()));
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            every_command(below, format!("{name} {}", below.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn the_overview_lists_every_command_once() {
        let mut listed: Vec<&str> = HEADINGS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = Args::command();
        let mut commands: Vec<&str> =
            command.get_subcommands().map(Command::get_name).chain(["help"]).collect();
        listed.sort_unstable();
        commands.sort_unstable();
        assert_eq!(listed, commands, "HEADINGS and the commands differ");
    }

    #[test]
    fn a_first_part_is_a_sentence_or_a_clause_and_never_half_of_a_command() {
        assert_eq!(first_part("Print JSON: one line. See `x`"), "Print JSON");
        assert_eq!(
            first_part("Keys for `credential: { keyring: NAME }`. More"),
            "Keys for `credential: { keyring: NAME }`"
        );
        assert_eq!(first_part("Log out. The program stays"), "Log out");
    }

    #[test]
    fn every_page_has_two_examples_that_the_command_line_accepts() {
        let mut commands = Vec::new();
        every_command(&Args::command(), "", &mut commands);
        let mut without = BTreeSet::new();
        for (name, _) in &commands {
            let examples = examples_of(name);
            if examples.len() < 2 {
                without.insert(name);
            }
            for example in examples {
                let is_of_it = example.contains(&format!("nexus {name}").trim_end().to_owned());
                assert!(is_of_it, "{example:?} is no example of `nexus {name}`");
                assert!(example.chars().count() <= 76, "{example:?} does not fit 80 columns");
                let line = &example[example.find("nexus ").unwrap()..];
                let parsed = Args::try_parse_from(super::super::tests::words(line));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
        assert!(without.is_empty(), "no examples in args/examples.rs: {without:?}");
    }

    #[test]
    fn no_page_is_wider_than_the_terminal_except_for_lines_to_copy() {
        let mut commands = Vec::new();
        let mut whole = completed(Args::command(), "", &[]).term_width(80);
        whole.build();
        every_command(&whole, "", &mut commands);
        for (name, mut command) in commands {
            for page in [command.render_long_help(), command.render_help()] {
                for line in page.to_string().lines().filter(|line| !line.contains(HARD_SPACE)) {
                    let width = line.trim_end().chars().count();
                    // A single long word, such as a file name, cannot be wrapped.
                    assert!(width <= 80 || !line.trim().contains(' '), "nexus {name}: {line:?}");
                }
            }
        }
    }

    #[test]
    fn a_global_option_is_described_at_length_only_where_it_is_declared() {
        let page = |name: &str| {
            let mut command = command();
            let error = command.try_get_matches_from_mut(name.split(' ').chain(["--help"])).unwrap_err();
            with_plain_spaces(&error.to_string()).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let long = "Folder of the project. Default: the project that contains the current folder";
        assert!(page("nexus project").contains(long));
        let below = page("nexus project begin");
        assert!(below.contains("--project <FOLDER> Folder of the project --"), "{below}");
        assert!(
            page("nexus").contains("see `nexus schema output`")
                || page("nexus").contains("See `nexus schema output`")
        );
        assert!(!below.contains("schema output"), "{below}");
    }
}

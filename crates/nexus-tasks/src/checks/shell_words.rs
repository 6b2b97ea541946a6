//! The commands in a shell script, split into words without expansion.

/// Characters that end a command.
const ENDS: [char; 9] = [';', '|', '&', '(', ')', '{', '}', '`', '\n'];

/// Returns the commands of a text, each as its words without quotes. Comments are dropped; nothing is expanded.
pub(super) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let mut letters = text.chars().peekable();
    let mut is_begun = false;
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            // Single quotes do not protect a backslash here, unlike in a shell. Paths have none, so the difference does not matter.
            (_, '\\') => match letters.next() {
                Some('\n') | None => {}
                Some(next) => {
                    word.push(next);
                    is_begun = true;
                }
            },
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), letter) => word.push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                is_begun = true;
            }
            // `${…}` and `$(…)` stay part of their word.
            (None, '$') if matches!(letters.peek(), Some('{' | '(')) => {
                let close = if letters.peek() == Some(&'{') { '}' } else { ')' };
                word.push(letter);
                is_begun = true;
                for inner in letters.by_ref() {
                    word.push(inner);
                    if inner == close {
                        break;
                    }
                }
            }
            (None, '#') if !is_begun => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
            }
            (None, letter) if letter.is_whitespace() || ENDS.contains(&letter) => {
                if is_begun && let Some(command) = commands.last_mut() {
                    command.push(std::mem::take(&mut word));
                }
                is_begun = false;
                if ENDS.contains(&letter) && commands.last().is_some_and(|command| !command.is_empty()) {
                    commands.push(Vec::new());
                }
            }
            (None, letter) => {
                word.push(letter);
                is_begun = true;
            }
        }
    }
    if (is_begun || !word.is_empty())
        && let Some(command) = commands.last_mut()
    {
        command.push(word);
    }
    commands.retain(|command| !command.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_told_apart_and_quotes_are_taken_off() {
        let text = "# a comment\nset -e; . \"$(dirname \"$0\")/lib.sh\" && 'my tool' a\\ b \\\n  c#d | ${X}/run # more\n";
        let found = commands(text);
        let found: Vec<Vec<&str>> =
            found.iter().map(|command| command.iter().map(String::as_str).collect()).collect();
        assert_eq!(found[0], ["set", "-e"]);
        assert_eq!(found[1][0], ".");
        assert!(found[1][1].ends_with("/lib.sh"), "{found:?}");
        assert_eq!(found[2..], [vec!["my tool", "a b", "c#d"], vec!["${X}/run"]]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[ -~\n]{0,80}|\\PC{0,40}") {
            for command in commands(&text) {
                prop_assert!(!command.is_empty());
            }
        }
    }
}

//! Advice for a person who must sign in to an agent.

use std::path::Path;

use agent_client_protocol_schema::v1::AuthMethod;
use nexus_core::{variable_name_fault, visible::is_invisible};
use serde_json::Value;

/// Key below `_meta` under which OpenCode names its sign-in command, in the capabilities of the client and in the method.
/// Source: `initialize` of OpenCode 1.18.34, which has no method of type `terminal`.
pub(super) const TERMINAL_AUTH: &str = "terminal-auth";

/// The login that an agent uses.
#[derive(Clone, Debug)]
pub(super) enum AgentLogin {
    /// A lent credential.
    Lent,
    /// The login in the person's home. `command` starts the agent.
    Person { command: Vec<String> },
    /// None: the home of the agent is private, and no folder with a login is shown in it.
    Nowhere,
}

impl AgentLogin {
    /// Returns true if the person can sign in with the agent's program.
    pub(super) fn is_of_person(&self) -> bool {
        matches!(self, Self::Person { .. })
    }

    /// Returns the advice for a turn that the agent rejected because nobody is signed in.
    pub(super) fn advice(&self, methods: &[AuthMethod]) -> Option<String> {
        let command = match self {
            // The credential is the caller's, so the agent's own methods change nothing.
            Self::Lent => return None,
            Self::Nowhere => {
                let advice = "its home has no login: name the folders with its login in `login_folders`, or lend it a key";
                return Some(advice.to_owned());
            }
            Self::Person { command } => command,
        };
        let commands: Vec<String> = methods.iter().filter_map(|method| sign_in(command, method)).collect();
        if !commands.is_empty() {
            return Some(format!("sign in with {}, then run the turn again", commands.join(" or ")));
        }
        let ways = methods.iter().map(|method| match method.description() {
            Some(description) => format!("{} ({description})", method.name()),
            None => method.name().to_owned(),
        });
        let ways: Vec<String> = ways.collect();
        (!ways.is_empty()).then(|| format!("sign in with the agent's own program: {}", ways.join(", ")))
    }
}

/// Returns the command line of a method that runs in a terminal.
fn sign_in(command: &[String], method: &AuthMethod) -> Option<String> {
    let (program, _) = command.split_first()?;
    match method {
        // The arguments are appended to the usual command. Source: the protocol, `AuthMethodTerminal`.
        AuthMethod::Terminal(terminal) => {
            let mut words = Vec::new();
            let mut variables: Vec<_> = terminal.env.iter().collect();
            variables.sort();
            for (name, value) in variables {
                if variable_name_fault(name).is_some() {
                    return None;
                }
                words.push(format!("{name}={}", quoted(value)?));
            }
            for word in command.iter().chain(&terminal.args) {
                words.push(quoted(word)?);
            }
            Some(format!("`{}`", words.join(" ")))
        }
        method => {
            let named = method.meta()?.get(TERMINAL_AUTH)?;
            // An agent may name its own program alone, as with a method of the protocol.
            let name = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
            if name(named.get("command")?.as_str()?) != name(program) {
                return None;
            }
            let arguments = match named.get("args") {
                None | Some(Value::Null) => Vec::new(),
                Some(arguments) => {
                    arguments.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?
                }
            };
            let words: Option<Vec<String>> =
                std::iter::once(program.as_str()).chain(arguments).map(quoted).collect();
            Some(format!("`{}`", words?.join(" ")))
        }
    }
}

/// Returns a word for a shell; `None` for one that a person could not read.
fn quoted(word: impl AsRef<str>) -> Option<String> {
    let word = word.as_ref();
    if word.chars().any(|letter| letter.is_control() || is_invisible(letter)) {
        return None;
    }
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./:=@%+,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Some(word.to_owned()),
        false => Some(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn advice(login: &AgentLogin, methods: Value) -> Option<String> {
        let methods: Vec<AuthMethod> = serde_json::from_value(methods).unwrap();
        login.advice(&methods)
    }

    fn person() -> AgentLogin {
        AgentLogin::Person { command: vec!["/opt/my agent".into(), "acp".into()] }
    }

    #[test]
    fn the_command_that_signs_in_is_named_with_the_arguments_of_the_agent() {
        let terminal = json!([{
            "type": "terminal", "id": "t", "name": "T", "args": ["--login", "it's"], "env": { "B": "2", "A": "1 1" },
        }]);
        let expected =
            r"sign in with `A='1 1' B=2 '/opt/my agent' acp --login 'it'\''s'`, then run the turn again";
        assert_eq!(advice(&person(), terminal).as_deref(), Some(expected));

        let of_opencode = |command: &str| {
            json!([{
                "id": "opencode-login", "name": "Login", "description": "Run `opencode auth login`",
                "_meta": { "terminal-auth": { "command": command, "args": ["auth", "login"], "label": "Login" } },
            }])
        };
        let login = AgentLogin::Person { command: vec!["/opt/bin/opencode".into(), "acp".into()] };
        let expected = "sign in with `/opt/bin/opencode auth login`, then run the turn again";
        assert_eq!(advice(&login, of_opencode("opencode")).as_deref(), Some(expected));
        // Another program than the agent is not advised.
        let words = "sign in with the agent's own program: Login (Run `opencode auth login`)";
        assert_eq!(advice(&login, of_opencode("sh")).as_deref(), Some(words));
    }

    #[test]
    fn a_command_that_hides_something_is_not_shown() {
        for method in [
            json!({ "type": "terminal", "id": "t", "name": "T", "args": ["a\nrm -rf ~"] }),
            json!({ "type": "terminal", "id": "t", "name": "T", "args": ["a\u{202e}b"] }),
            json!({ "type": "terminal", "id": "t", "name": "T", "env": { "A;B": "1" } }),
        ] {
            let words = "sign in with the agent's own program: T";
            assert_eq!(advice(&person(), json!([method])).as_deref(), Some(words), "{method}");
        }
    }

    #[test]
    fn without_a_login_of_the_person_another_way_is_named_or_none() {
        let method = json!([{ "id": "a", "name": "A" }]);
        assert_eq!(advice(&AgentLogin::Lent, method.clone()), None);
        assert!(advice(&AgentLogin::Nowhere, method).unwrap().contains("login_folders"));
        assert_eq!(advice(&person(), json!([])), None);
    }
}

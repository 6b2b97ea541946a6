//! Advice for a person who must sign in to an agent.

use std::path::Path;

use agent_client_protocol_schema::v1::AuthMethod;
use nexus_core::visible::is_invisible;
use nexus_files::shell_word;
use serde_json::Value;

use super::elicitation::shown;

/// Key below `_meta` under which OpenCode names its sign-in command, in the capabilities of the client and in the method.
/// Source: `initialize` of OpenCode 1.18.34, which has no method of type `terminal`.
pub(super) const TERMINAL_AUTH: &str = "terminal-auth";

/// Largest number of methods that are named. Source: our own bound.
const MAX_METHODS: usize = 10;
/// Largest size of a command line that is shown, in bytes. Source: our own bound.
const MAX_COMMAND_BYTES: usize = 1_000;

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

    /// Returns the advice for a turn that the agent rejected because the user is not signed in.
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
        let commands = methods.iter().take(MAX_METHODS).filter_map(|method| sign_in(command, method));
        let commands: Vec<String> = commands.collect();
        if !commands.is_empty() {
            return Some(format!("sign in with {}, then run the turn again", commands.join(" or ")));
        }
        let ways = methods.iter().map(|method| match method.description() {
            Some(description) => format!("{} ({})", shown(method.name()), shown(description)),
            None => shown(method.name()),
        });
        let ways: Vec<String> = ways.take(MAX_METHODS).collect();
        (!ways.is_empty()).then(|| format!("sign in with the agent's own program: {}", ways.join(", ")))
    }
}

/// Returns the command line of a method that runs in a terminal.
fn sign_in(command: &[String], method: &AuthMethod) -> Option<String> {
    let (program, usual) = command.split_first()?;
    let further: Vec<&str> = match method {
        // The arguments are appended to the usual command. Source: the protocol, `AuthMethodTerminal`.
        AuthMethod::Terminal(terminal) => {
            if !terminal.env.is_empty() {
                return None;
            }
            terminal.args.iter().map(String::as_str).collect()
        }
        method => {
            let named = method.meta()?.get(TERMINAL_AUTH)?;
            // An agent may name its own program alone, with its usual arguments, as with a method of the protocol.
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
            let has_env =
                named.get("env").is_some_and(|env| env.as_object().is_none_or(|env| !env.is_empty()));
            if has_env || !arguments.iter().zip(usual).all(|(one, other)| one == other) {
                return None;
            }
            arguments.get(usual.len()..)?.to_vec()
        }
    };
    // The agent could choose an interpreter's program, or the libraries of its own: so the usual command comes first,
    // whole and without variables.
    let words: Option<Vec<String>> = command.iter().map(String::as_str).chain(further).map(quoted).collect();
    let line = words?.join(" ");
    (line.len() <= MAX_COMMAND_BYTES).then(|| format!("`{line}`"))
}

/// Returns a word for a shell; `None` for one that a person could not read.
fn quoted(word: impl AsRef<str>) -> Option<String> {
    let word = word.as_ref();
    if word.chars().any(|letter| letter.is_control() || is_invisible(letter)) {
        return None;
    }
    Some(shell_word(word))
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
            "type": "terminal", "id": "t", "name": "T", "args": ["--login", "it's"],
        }]);
        let expected = r"sign in with `'/opt/my agent' acp --login 'it'\''s'`, then run the turn again";
        assert_eq!(advice(&person(), terminal).as_deref(), Some(expected));

        let method = |command: &str, arguments: Value| {
            json!([{
                "id": "opencode-login", "name": "Login", "description": "Run `opencode auth login`",
                "_meta": { "terminal-auth": { "command": command, "args": arguments, "label": "Login" } },
            }])
        };
        let login = AgentLogin::Person { command: vec!["/bin/python3".into(), "agent.py".into()] };
        let expected = "sign in with `/bin/python3 agent.py login`, then run the turn again";
        let usual = || json!(["agent.py", "login"]);
        assert_eq!(advice(&login, method("python3", usual())).as_deref(), Some(expected));
        // Another program than the agent is not advised.
        let words = "sign in with the agent's own program: Login (Run `opencode auth login`)";
        for (command, arguments) in [
            ("sh", usual()),
            ("python3", json!(["-c", "agent.py"])),
            ("python3", json!([])),
            ("python3", json!(7)),
        ] {
            assert_eq!(advice(&login, method(command, arguments)).as_deref(), Some(words), "{command}");
        }
        let mut with_variables = method("python3", usual());
        with_variables[0]["_meta"]["terminal-auth"]["env"] = json!({ "LD_PRELOAD": "x.so" });
        assert_eq!(advice(&login, with_variables).as_deref(), Some(words));
    }

    #[test]
    fn a_command_that_hides_something_is_not_shown() {
        for method in [
            json!({ "type": "terminal", "id": "t", "name": "T", "args": ["a\nrm -rf ~"] }),
            json!({ "type": "terminal", "id": "t", "name": "T", "args": ["a\u{202e}b"] }),
            json!({ "type": "terminal", "id": "t", "name": "T", "env": { "PATH": "/tmp" } }),
            json!({ "type": "terminal", "id": "t", "name": "T", "args": ["a".repeat(1_001)] }),
        ] {
            let words = "sign in with the agent's own program: T";
            assert_eq!(advice(&person(), json!([method])).as_deref(), Some(words), "{method}");
        }
    }

    #[test]
    fn names_of_methods_are_cut_and_counted() {
        let method = |_| json!({ "id": "a", "name": "b".repeat(200), "description": "c".repeat(200) });
        let words = advice(&person(), (0..20).map(method).collect()).unwrap();
        for letter in ["b", "c"] {
            assert!(words.contains(&format!("{}…", letter.repeat(100))), "{words}");
        }
        assert_eq!((words.matches('…').count(), words.contains(&"b".repeat(101))), (20, false), "{words}");
    }

    #[test]
    fn without_a_login_of_the_person_another_way_is_named_or_none() {
        let method = json!([{ "id": "a", "name": "A" }]);
        assert_eq!(advice(&AgentLogin::Lent, method.clone()), None);
        assert!(advice(&AgentLogin::Nowhere, method).unwrap().contains("login_folders"));
        assert_eq!(advice(&person(), json!([])), None);
    }
}

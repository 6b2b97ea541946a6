//! Values of a configuration that matter for the decision to trust it: the programs, commands and addresses that it would use.

use std::{collections::BTreeSet, fmt, path::Path};

use nexus::{ConfigFile, redact::Redactor};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::output::printable;

/// Most values of a configuration that are shown.
const MOST_SHOWN: usize = 40;
/// Longest shown value, in characters.
const LONGEST_SHOWN: usize = 160;

/// Kind of a value that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConfigUseKind {
    /// A backend, which starts its vendor's program or calls its vendor's server.
    Backend,
    /// A program that is started.
    Program,
    /// A command that is run in a project.
    Command,
    /// A server that receives prompts, answers or credentials.
    Address,
    /// The location of a credential that is sent to a server or given to a program.
    Credential,
    /// A file with certificate authorities, whose owner can read encrypted connections.
    Authority,
}

/// Keys whose values are shown, at any depth.
const SHOWN: [(&str, ConfigUseKind); 14] = [
    ("executable", ConfigUseKind::Program),
    ("command", ConfigUseKind::Program),
    ("agent", ConfigUseKind::Program),
    ("setup", ConfigUseKind::Command),
    ("test_command", ConfigUseKind::Command),
    ("base_url", ConfigUseKind::Address),
    ("proxy", ConfigUseKind::Address),
    ("url", ConfigUseKind::Address),
    ("servers", ConfigUseKind::Address),
    ("credential", ConfigUseKind::Credential),
    ("credentials", ConfigUseKind::Credential),
    ("secret_environment", ConfigUseKind::Credential),
    ("key_file", ConfigUseKind::Credential),
    ("ca_file", ConfigUseKind::Authority),
];

/// A value of a configuration that names a program, a command, an address or a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ConfigUse {
    kind: ConfigUseKind,
    /// Keys that lead to the value, with dots between them.
    key: String,
    /// The value, without possible secrets.
    value: String,
    /// True for a program in the folder of the configuration. It can change while the configuration stays the same.
    is_in_folder: bool,
}

/// The values of one configuration that are shown, and the number of further ones.
#[derive(Clone, Debug)]
pub(crate) struct ConfigUses {
    pub(crate) shown: Vec<ConfigUse>,
    left_out: usize,
}

impl ConfigUses {
    /// Returns the values of a file. A file that is not YAML has none.
    pub(crate) fn of(file: &ConfigFile) -> Self {
        let value = file.value().unwrap_or_default();
        let folder = file.path().parent().unwrap_or(Path::new(""));
        let mut found = backends(&value);
        collect(&value, "", folder, &mut found);
        found.sort_by_key(|found| found.kind);
        let left_out = found.len().saturating_sub(MOST_SHOWN);
        found.truncate(MOST_SHOWN);
        Self { shown: found, left_out }
    }

    /// Returns true if the configuration names a program in its own folder.
    pub(crate) fn has_program_in_folder(&self) -> bool {
        self.shown.iter().any(|shown| shown.is_in_folder)
    }
}

impl fmt::Display for ConfigUses {
    /// Writes one indented line for each value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shown.is_empty() {
            return f.write_str("\n  no program, command or address");
        }
        for ConfigUse { kind, key, value, .. } in &self.shown {
            let kind = match kind {
                ConfigUseKind::Backend => "backend",
                ConfigUseKind::Program => "program",
                ConfigUseKind::Command => "command",
                ConfigUseKind::Address => "address",
                ConfigUseKind::Credential => "credential",
                ConfigUseKind::Authority => "authority",
            };
            write!(f, "\n  {kind:<10}  {value}  ({key})")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Returns the backends of the configuration: those of its groups, and its own entries.
fn backends(value: &Value) -> Vec<ConfigUse> {
    let groups = value["groups"].as_object().into_iter().flat_map(|groups| groups.values());
    let members = groups.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    let entries = value["backends"].as_object().into_iter().flat_map(|entries| entries.keys());
    let names: BTreeSet<&str> = members.chain(entries.map(String::as_str)).collect();
    let of = |name: &str| ConfigUse {
        kind: ConfigUseKind::Backend,
        value: shown(name),
        key: match value["backends"][name]["kind"].as_str() {
            Some(kind) => format!("kind {}", shown(kind)),
            None => "backends".to_owned(),
        },
        is_in_folder: false,
    };
    names.into_iter().map(of).collect()
}

fn collect(value: &Value, at: &str, folder: &Path, found: &mut Vec<ConfigUse>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let path = if at.is_empty() { shown(key) } else { format!("{at}.{}", shown(key)) };
                let kind = SHOWN.iter().find(|(known, _)| known == key).map(|(_, kind)| *kind);
                match kind.filter(|_| !value.is_null()) {
                    // A panel's seat or an agent of a section may have an entry with the name of a shown key.
                    Some(kind) => found.push(ConfigUse {
                        kind,
                        key: path,
                        value: shown_value(value),
                        is_in_folder: kind == ConfigUseKind::Program && is_in(folder, value),
                    }),
                    None => collect(value, &path, folder, found),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{at}[{index}]"), folder, found);
            }
        }
        _ => {}
    }
}

/// Returns true if the program is in the folder. A name without a separator is looked up on the `PATH`.
fn is_in(folder: &Path, program: &Value) -> bool {
    let name = program.as_str().or_else(|| program.get(0)?.as_str());
    name.is_some_and(|name| {
        let path = Path::new(name);
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        name.contains('/') && (path.is_relative() || path.starts_with(folder))
    })
}

fn shown_value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    shown(&text)
}

/// Returns text that is safe to print: on one line, of bounded length, without possible secrets.
fn shown(text: &str) -> String {
    let text = printable(&Redactor::default().redact_text(&without_user(text)));
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Masks the user and password of a URL.
fn without_user(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://•{}", &rest[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(text: &str) -> ConfigUses {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nexus.yaml");
        std::fs::write(&path, text).unwrap();
        ConfigUses::of(&ConfigFile::read(path).unwrap())
    }

    #[test]
    fn the_programs_commands_and_addresses_of_a_configuration_are_shown_without_its_secrets() {
        let uses = uses(concat!(
            "groups: { a: [claude-cli, mine] }\n",
            "backends:\n",
            "  mine: { kind: acp, command: [bin/agent, --fast], base_url: 'http://me:canary@evil.test/v1' }\n",
            "  other: { kind: responses, credential: { env: OPENAI_API_KEY }, network: { ca_file: mine.pem } }\n",
            "fleet: { servers: ['nats://evil.test:4222'] }\n",
            "tasks: { defaults: { sandbox: { setup: [[make, \"evil\\u001b[2J\"]] } } }\n",
        ));
        assert!(uses.has_program_in_folder());
        insta::assert_snapshot!(uses.to_string(), @r#"

          backend     claude-cli  (backends)
          backend     mine  (kind acp)
          backend     other  (kind responses)
          program     bin/agent --fast  (backends.mine.command)
          command     [["make","evil\u001b[2J"]]  (tasks.defaults.sandbox.setup)
          address     http://•@evil.test/v1  (backends.mine.base_url)
          address     nats://evil.test:4222  (fleet.servers)
          credential  {"env":"OPENAI_API_KEY"}  (backends.other.credential)
          authority   mine.pem  (backends.other.network.ca_file)
        "#);
    }

    #[test]
    fn a_file_with_many_programs_is_cut_and_one_without_yaml_shows_none() {
        let many: String = (0..100).map(|index| format!("  b{index}: {{ executable: x }}\n")).collect();
        assert!(uses(&format!("backends:\n{many}")).to_string().ends_with("and 160 more"));
        assert_eq!(uses("{").to_string(), "\n  no program, command or address");
    }
}

//! A registry of agents: `registry.json` of the Agent Client Protocol, as its `FORMAT.md` describes it.

use std::{collections::BTreeMap, fmt, fs::OpenOptions, path::Path};

use nexus_files::{open_regular, read_text, shell_word};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::names::{listed_names, shortened};
use crate::command_error::CommandError;

/// Largest registry, in bytes. Source: our own bound; the public one has less than a megabyte.
const MAX_BYTES: u64 = 16 << 20;

/// A registry. Unknown keys are ignored, because its format grows.
#[derive(Debug, Deserialize)]
pub(super) struct RegistryFile {
    agents: Vec<RegistryAgent>,
    #[serde(skip)]
    path: String,
}

/// Entry of an agent.
#[derive(Debug, Deserialize)]
struct RegistryAgent {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    repository: Option<String>,
    #[serde(default)]
    website: Option<String>,
    #[serde(default)]
    distribution: Distribution,
}

#[derive(Debug, Default, Deserialize)]
struct Distribution {
    npx: Option<PackageDistribution>,
    uvx: Option<PackageDistribution>,
    #[serde(default)]
    binary: BTreeMap<String, BinaryDistribution>,
}

/// A package of a registry of programs.
#[derive(Debug, Deserialize)]
struct PackageDistribution {
    package: String,
    #[serde(default)]
    cmd: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// An archive with a program for one platform.
#[derive(Debug, Deserialize)]
struct BinaryDistribution {
    archive: String,
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// Start of an installed agent.
struct AgentStart<'a> {
    program: String,
    arguments: &'a [String],
    environment: &'a BTreeMap<String, String>,
    install: String,
}

impl RegistryFile {
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let fault = |error: &dyn fmt::Display| {
            let error = shortened(&error.to_string());
            CommandError::usage(format_args!("{}: {error}", path.display())).with_subject(path.display())
        };
        // A pipe or a device in place of the file could block, or never end.
        let file = open_regular(path, OpenOptions::new().read(true)).map_err(|error| fault(&error))?;
        let text = read_text(file, MAX_BYTES).map_err(|error| fault(&error))?;
        let mut registry: Self = serde_json::from_str(&text).map_err(|error| fault(&error))?;
        registry.path = path.display().to_string();
        Ok(registry)
    }

    /// Builds the row of an agent, which is started by its installed program.
    pub(super) fn row(&self, id: &str, program: Option<&str>) -> Result<Map<String, Value>, CommandError> {
        let Some(agent) = self.agents.iter().find(|agent| agent.id == id) else {
            let ids = listed_names(self.agents.iter().map(|agent| agent.id.as_str()));
            let message = format!("{} has no agent {id:?}; it has: {ids}", self.path);
            return Err(CommandError::usage(message));
        };
        let start = agent.distribution.start().map_err(|reason| {
            CommandError::usage(format_args!("{}: agent {id:?}: distribution: {reason}", self.path))
        })?;
        let mut row = Map::from_iter([
            ("program".to_owned(), json!(program.unwrap_or(&start.program))),
            ("arguments".to_owned(), json!(start.arguments)),
            ("install".to_owned(), json!(start.install)),
        ]);
        if !agent.name.is_empty() {
            row.insert("title".to_owned(), json!(agent.name));
        }
        if !start.environment.is_empty() {
            row.insert("always".to_owned(), json!({ "variables": start.environment }));
        }
        if let Some(source) = agent.website.as_ref().or(agent.repository.as_ref()) {
            row.insert("source".to_owned(), json!(source));
        }
        Ok(row)
    }
}

impl Distribution {
    fn start(&self) -> Result<AgentStart<'_>, String> {
        if let Some(npx) = &self.npx {
            return npx.start("npm install --global");
        }
        if let Some(uvx) = &self.uvx {
            return uvx.start("uv tool install");
        }
        let platform = format!("{}-{}", system(), std::env::consts::ARCH);
        let Some(binary) = self.binary.get(&platform) else {
            let platforms = listed_names(self.binary.keys().map(String::as_str));
            return Err(match platforms.is_empty() {
                true => "it has neither npx nor uvx nor binary".to_owned(),
                false => format!("it has no program for {platform}, only for {platforms}"),
            });
        };
        // The archive may be unpacked anywhere, so the row names only a program to find on the PATH.
        let program = last_part(&binary.cmd);
        Ok(AgentStart {
            install: format!(
                "download {}, and put its `{}` on the PATH",
                binary.archive,
                shell_word(&program)
            ),
            program,
            arguments: &binary.args,
            environment: &binary.env,
        })
    }
}

impl PackageDistribution {
    fn start(&self, installer: &str) -> Result<AgentStart<'_>, String> {
        let Some(name) = name_of_package(&self.package) else {
            return Err(format!(
                "package {:?}: write a name of letters, digits, `.`, `_` and `-`, perhaps after `@scope/`, and a version after `@` or `==`",
                shortened(&self.package)
            ));
        };
        let program = match &self.cmd {
            Some(command) => last_part(command),
            None => name.to_owned(),
        };
        Ok(AgentStart {
            install: format!(
                "install it with `{installer} {}`, which must bring the program `{}`, or correct `program` of the row",
                self.package,
                shell_word(&program)
            ),
            program,
            arguments: &self.args,
            environment: &self.env,
        })
    }
}

/// Returns the registry's word for this system.
fn system() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

/// Returns the name of a package without its scope and version: `@scope/name@1.0`, `name==1.0`. Returns `None` for everything else,
/// such as an option, a path, an address, or a command for a shell.
fn name_of_package(package: &str) -> Option<&str> {
    let is_plain = |part: &str, others: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.chars().all(|character| character.is_ascii_alphanumeric() || others.contains(character))
    };
    let unscoped = match package.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').filter(|(scope, _)| is_plain(scope, "._-"))?.1,
        None => package,
    };
    // Python pins a version with `==`, npm with `@`.
    let (name, version) = match unscoped.split_once("==").or_else(|| unscoped.split_once('@')) {
        Some((name, version)) => (name, Some(version)),
        None => (unscoped, None),
    };
    let is_package = is_plain(name, "._-") && version.is_none_or(|version| is_plain(version, "._-+"));
    is_package.then_some(name)
}

fn last_part(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::name_of_package;

    #[test]
    fn only_a_name_and_a_version_are_a_package() {
        for (package, name) in [
            ("@scope/one@2.0.0", Some("one")),
            ("@scope/one", Some("one")),
            ("two-acp==1.0.0+local", Some("two-acp")),
            ("two_acp@latest", Some("two_acp")),
            ("evil-pkg; rm -rf ~", None),
            ("evil`id`", None),
            ("--registry=evil", None),
            ("one@$(id)", None),
            ("one@", None),
            ("somebody/repository", None),
            ("../here", None),
            ("https://evil.test/a.tgz", None),
            ("@scope", None),
            ("@/one", None),
            ("", None),
        ] {
            assert_eq!(name_of_package(package), name, "{package}");
        }
    }
}

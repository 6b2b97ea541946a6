//! A registry of agents: `registry.json` of the Agent Client Protocol, as its `FORMAT.md` describes it.

use std::{collections::BTreeMap, fmt, fs::OpenOptions, path::Path};

use nexus_files::{open_regular, read_text};
use serde::Deserialize;
use serde_json::{Map, Value, json};

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
            CommandError::usage(format_args!("{}: {error}", path.display())).with_subject(path.display())
        };
        let file = open_regular(path, OpenOptions::new().read(true)).map_err(|error| fault(&error))?;
        let text = read_text(file, MAX_BYTES).map_err(|error| fault(&error))?;
        let mut registry: Self = serde_json::from_str(&text).map_err(|error| fault(&error))?;
        registry.path = path.display().to_string();
        Ok(registry)
    }

    /// Builds the row of an agent, which is started by its installed program.
    pub(super) fn row(&self, id: &str, program: Option<&str>) -> Result<Map<String, Value>, CommandError> {
        let Some(agent) = self.agents.iter().find(|agent| agent.id == id) else {
            let ids: Vec<_> = self.agents.iter().map(|agent| agent.id.as_str()).collect();
            let message = format!("{} has no agent {id:?}; it has: {}", self.path, ids.join(", "));
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
            return Ok(npx.start("npm install --global"));
        }
        if let Some(uvx) = &self.uvx {
            return Ok(uvx.start("uv tool install"));
        }
        let platform = format!("{}-{}", system(), std::env::consts::ARCH);
        let Some(binary) = self.binary.get(&platform) else {
            let platforms: Vec<_> = self.binary.keys().map(String::as_str).collect();
            return Err(match platforms.is_empty() {
                true => "it has neither npx nor uvx nor binary".to_owned(),
                false => format!("it has no program for {platform}, only for {}", platforms.join(", ")),
            });
        };
        let program = last_part(&binary.cmd);
        Ok(AgentStart {
            install: format!("download {}, and put its `{program}` on the PATH", binary.archive),
            program,
            arguments: &binary.args,
            environment: &binary.env,
        })
    }
}

impl PackageDistribution {
    fn start(&self, installer: &str) -> AgentStart<'_> {
        let program = match &self.cmd {
            Some(command) => last_part(command),
            None => last_part(without_version(&self.package)),
        };
        AgentStart {
            install: format!(
                "install it with `{installer} {}`, which must bring the program `{program}`, or correct `program` of the row",
                self.package
            ),
            program,
            arguments: &self.args,
            environment: &self.env,
        }
    }
}

/// Returns the registry's word for this system.
fn system() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

/// Removes the version from the name of a package: `@scope/name@1.0`, `name==1.0`, `name[extra]`.
fn without_version(package: &str) -> &str {
    let end = package.char_indices().skip(1).find(|(_, character)| "@=<>~[".contains(*character));
    end.map_or(package, |(end, _)| &package[..end])
}

fn last_part(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

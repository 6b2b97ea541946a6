//! `nexus init`, `nexus onboard` and `nexus skills`: working folders, and the skills in them.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use async_trait::async_trait;
use nexus::{
    BuildContext,
    http::{ClientPlan, Network, read_whole},
};
use nexus_project::{
    ProjectError, ProjectErrorKind, create_working_folder,
    hub::{FolderHub, FoundSkill, HubIndex, HubReader, HubSkill, SkillChange, SkillFolder, clone_hub},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::{InitArgs, OnboardArgs, SkillsArgs, SkillsCommand},
    command_error::CommandError,
    output::{AnswerWriter, complain, printable, printable_lines, say},
    works::blocking,
};

/// Limit for connecting to a hub, and for reading one file.
const CONNECT_TIME: Duration = Duration::from_secs(10);
const READ_TIME: Duration = Duration::from_secs(60);

/// Skill or pack of a hub.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum HubLine {
    /// A skill.
    Skill {
        /// Its name.
        skill: String,
        #[serde(flatten)]
        about: HubSkillLine,
    },
    /// Skills that belong together.
    Pack {
        /// The name of the pack.
        pack: String,
        /// The skills.
        skills: Vec<String>,
    },
}

/// Entry of a skill in a hub.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HubSkillLine {
    /// Purpose of the skill.
    description: String,
    /// Its kind.
    kind: String,
    /// Its version.
    version: String,
    /// Platforms that it is suggested for. Empty means all.
    platforms: Vec<String>,
}

/// Text of a skill.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillText {
    /// The skill.
    skill: String,
    /// Text that an agent reads.
    text: String,
}

/// Outcome for one skill.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedSkill {
    /// The skill.
    skill: String,
    #[serde(flatten)]
    change: SkillChange,
}

pub(crate) fn init(out: AnswerWriter, args: &InitArgs) -> Result<ExitCode, CommandError> {
    out.show(&create_working_folder(&args.folder, args.git)?, |report| {
        for (what, paths) in [("made", &report.made), ("kept", &report.kept)] {
            for path in paths {
                say(printable(&format!("{what} {}", path.display())));
            }
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Creates a workspace, lists the packs that suit this platform, and starts the sign-ins that the person chooses.
pub(crate) async fn onboard(out: AnswerWriter, args: OnboardArgs) -> Result<ExitCode, CommandError> {
    init(out, &InitArgs { folder: args.folder.clone(), git: false })?;
    match &args.hub {
        None => say("no hub is named: give --hub or set NEXUS_SKILL_HUB to see its packs"),
        Some(source) => {
            let hub = open(source).await?;
            let index = HubIndex::read(&*hub).await?;
            for (pack, names) in &index.packs {
                let suits = |name: &String| {
                    let platforms = &index.skills[name].platforms;
                    platforms.is_empty() || platforms.iter().any(|platform| platform == std::env::consts::OS)
                };
                if names.iter().all(suits) {
                    say(printable(&format!("pack {pack}: {}", names.join(", "))));
                }
            }
            say("install one with `nexus skills install PACK`");
        }
    }
    let code = sign_in()?;
    say("`nexus setup` checks the vendors, and writes nexus.yaml");
    Ok(code)
}

#[cfg(not(feature = "login"))]
fn sign_in() -> Result<ExitCode, CommandError> {
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "login")]
fn sign_in() -> Result<ExitCode, CommandError> {
    use std::{
        io::{IsTerminal as _, Write as _},
        process::Command,
    };

    let program = std::env::current_exe().map_err(CommandError::failed)?;
    let mut code = ExitCode::SUCCESS;
    for login in nexus::logins() {
        let word = login.as_str();
        // Without a terminal no person can complete a login here.
        if !std::io::stdin().is_terminal() {
            say(format_args!("sign in with `nexus login {word}`"));
            continue;
        }
        let _ = write!(std::io::stderr(), "log in to {word}? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(CommandError::failed)?;
        if answer.trim().eq_ignore_ascii_case("y") {
            let status =
                Command::new(&program).args(["login", word]).status().map_err(CommandError::failed)?;
            if !status.success() {
                code = ExitCode::from(EXIT_FAILED);
            }
        }
    }
    Ok(code)
}

pub(crate) async fn skills(out: AnswerWriter, args: SkillsArgs) -> Result<ExitCode, CommandError> {
    let place = SkillFolder::new(&args.skills);
    match args.command {
        SkillsCommand::List { hub: Some(hub) } => {
            let index = HubIndex::read(&*open(&hub).await?).await?;
            if index.skills.is_empty() {
                out.nothing(format_args!("the hub {hub} has no skills"));
            }
            for (skill, about) in index.skills {
                let HubSkill { description, kind, version, platforms, .. } = about;
                let text = printable(&format!("{skill}  {kind} {version}  {description}"));
                let about = HubSkillLine { description, kind: kind.to_string(), version, platforms };
                out.line(&HubLine::Skill { skill, about }, text);
            }
            for (pack, skills) in index.packs {
                let text = printable(&format!("pack {pack}: {}", skills.join(", ")));
                out.line(&HubLine::Pack { pack, skills }, text);
            }
        }
        SkillsCommand::List { hub: None } => {
            let mut is_damaged = false;
            let (skills, left_out) = (place.list()?, place.left_out()?);
            if skills.is_empty() && left_out.is_empty() {
                out.nothing(format_args!(
                    "no skills in {}; `nexus skills install NAME --hub HUB` installs one",
                    args.skills.display()
                ));
            }
            for skill in skills {
                if let Some(damaged) = &skill.damaged {
                    is_damaged = true;
                    complain(printable_lines(damaged));
                }
                let from = match (&skill.hub, &skill.damaged) {
                    (Some(_), _) => "hub",
                    (None, Some(_)) => "damaged",
                    (None, None) => "own",
                };
                let text = format!("{}  {} ({from})  {}", skill.name, skill.kind, skill.description);
                out.line(&skill, printable(&text));
            }
            for left_out in left_out {
                let folder = left_out.folder.display();
                complain(printable(&format!("{folder} is not listed: {}", left_out.reason)));
            }
            if is_damaged {
                return Ok(ExitCode::from(EXIT_FAILED));
            }
        }
        SkillsCommand::Use { name } => {
            let text = place.text(&name)?;
            out.show(&SkillText { skill: name, text }, |skill| {
                say(printable_lines(skill.text.trim_end_matches('\n')));
            });
        }
        SkillsCommand::Info { name } => out.show(&place.find(&name)?, print),
        SkillsCommand::Install { names, hub } => {
            let hub = open(&hub).await?;
            show_changes(out, place.install(&*hub, &names).await?);
        }
        SkillsCommand::Update { names, hub } => {
            let hub = open(&hub).await?;
            show_changes(out, place.update(&*hub, &names).await?);
        }
        SkillsCommand::Remove { names } => {
            let mut changes = BTreeMap::new();
            for name in names {
                let change = place.remove(&name)?;
                changes.insert(name, change);
            }
            let is_kept = changes.values().any(|change| matches!(change, SkillChange::Kept { .. }));
            show_changes(out, changes);
            if is_kept {
                return Ok(ExitCode::from(EXIT_FAILED));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints where a skill came from.
fn print(skill: &FoundSkill) {
    say(printable(&format!("{}: {}", skill.name, skill.description)));
    say(printable(&format!("folder: {}", skill.folder.display())));
    match (&skill.hub, &skill.damaged) {
        (Some((hub, version)), _) => say(printable(&format!("version {version} of {hub}"))),
        (None, Some(damaged)) => say(printable_lines(&format!("no command changes it: {damaged}"))),
        (None, None) => say("your own: no command changes it"),
    }
    if !skill.changed.is_empty() {
        say(printable(&format!("changed: {}", skill.changed.join(", "))));
    }
    say("it adds no permissions: the agent's scope limits the agent");
}

fn show_changes(out: AnswerWriter, changes: BTreeMap<String, SkillChange>) {
    if changes.is_empty() {
        out.nothing("no skill of this hub is installed; `nexus skills list --hub HUB` lists its skills");
    }
    for (skill, change) in changes {
        let what = match &change {
            SkillChange::Installed { version } => format!("installed, version {version}"),
            SkillChange::Updated { from, to } => format!("updated from {from} to {to}"),
            SkillChange::Unchanged => "as it was".to_owned(),
            SkillChange::Kept { reason } => format!("left alone: {reason}"),
            SkillChange::Removed => "removed".to_owned(),
            _ => "done".to_owned(),
        };
        let text = printable(&format!("{skill}: {what}"));
        out.line(&ChangedSkill { skill, change }, text);
    }
}

/// Opens the hub that a word names.
async fn open(source: &str) -> Result<Box<dyn HubReader>, CommandError> {
    if source.is_empty() || source == "git+" {
        return Err(CommandError::usage("no hub is named: write a folder, git+URL, or an https:// address"));
    }
    if let Some(repository) = source.strip_prefix("git+") {
        let repository = repository.to_owned();
        return Ok(Box::new(blocking(move || clone_hub(&repository)).await?));
    }
    let (scheme, rest) = source.split_once("://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    // Skills become instructions for agents, so plain HTTP is accepted from this machine only.
    let is_here = matches!(authority.split(':').next(), Some("127.0.0.1" | "localhost"));
    if authority.contains('@') {
        return Err(CommandError::usage("the address of a hub must not contain a user or a password"));
    }
    if scheme == "https" || scheme == "http" && is_here {
        return Ok(Box::new(UrlHub { base: source.trim_end_matches('/').to_owned() }));
    }
    if source.contains("://") {
        return Err(CommandError::usage("write a hub as a folder, git+URL, or an https:// address"));
    }
    Ok(Box::new(FolderHub::new(source)))
}

/// Formats the error of a request with its chain of causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let layer = error.to_string();
        // Some layers already quote their cause at their end.
        if !text.ends_with(&layer) {
            text = format!("{text}: {layer}");
        }
        source = error.source();
    }
    text
}

/// A hub whose files are read over HTTP.
#[derive(Debug)]
struct UrlHub {
    base: String,
}

#[async_trait]
impl HubReader for UrlHub {
    async fn read(&self, path: &str, at_most: u64) -> Result<Vec<u8>, ProjectError> {
        let failed = |reason: String| {
            ProjectError::new(
                ProjectErrorKind::Failed,
                format!("{path} of {}: {reason}", self.base),
                "try again; nothing was installed",
            )
        };
        let network = Network::default().with_inherited_proxy(true);
        let plan = ClientPlan::new(&network, &BuildContext::from_process(), CONNECT_TIME);
        let client = plan
            .map_err(|error| failed(error.reason))?
            .build(true)
            .map_err(|error| failed(error.to_string()))?;
        // The characters of the path were checked: only a space must be escaped in a URL.
        let address = format!("{}/{}", self.base, path.replace(' ', "%20"));
        let answer = tokio::time::timeout(READ_TIME, async {
            let response =
                client.get(address).send().await.map_err(|error| failed(chain(&error.without_url())))?;
            if !response.status().is_success() {
                let kind = match response.status().as_u16() {
                    404 => ProjectErrorKind::Unknown,
                    _ => ProjectErrorKind::Failed,
                };
                return Err(ProjectError::new(
                    kind,
                    format!("{path} of {}: {}", self.base, response.status()),
                    "check the address of the hub; nothing was installed",
                ));
            }
            let limit = usize::try_from(at_most).unwrap_or(usize::MAX);
            let bytes = read_whole(response, limit)
                .await
                .map_err(|error| failed(format!("it cannot be read: {error:?}")))?;
            Ok(bytes.to_vec())
        });
        answer.await.unwrap_or_else(|_| Err(failed(format!("it took more than {} s", READ_TIME.as_secs()))))
    }

    fn name(&self) -> &str {
        &self.base
    }
}

//! The command line of `nexus init`, `nexus onboard` and `nexus skills`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// Text below the options of `nexus skills`.
pub(super) const SKILLS_HELP: &str = "\
A skill is a folder with a SKILL.md, below skills/tools, skills/connectors or skills/guides. A hub is a folder, git+URL of a repository, or the https:// address \
of a folder, with a hub.json: the skills by name, each with the SHA-256 of its files, and packs of them. If a skill fails its check, no skill of the \
same command is installed. Your own skills, and skills that you changed, are never modified.";

#[derive(Debug, ClapArgs)]
pub(crate) struct InitArgs {
    /// Folder of the new workspace
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Also create a git repository in it
    #[arg(long)]
    pub(crate) git: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OnboardArgs {
    /// Folder of the workspace
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Hub whose packs are suggested
    #[arg(long, value_name = "HUB", env = "NEXUS_SKILL_HUB", hide_env_values = true)]
    pub(crate) hub: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SkillsArgs {
    /// Folder of the skills
    #[arg(long, value_name = "FOLDER", default_value = "skills", global = true)]
    pub(crate) skills: PathBuf,
    #[command(subcommand)]
    pub(crate) command: SkillsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the installed skills, or those of a hub
    List {
        /// Hub: its folder, git+URL or https:// address
        #[arg(long, value_name = "HUB")]
        hub: Option<String>,
    },
    /// Print a skill as an agent reads it
    Use {
        /// Name of the skill
        name: String,
    },
    /// Print the origin of a skill and its changed files
    Info {
        /// Name of the skill
        name: String,
    },
    /// Install skills and packs
    Install {
        /// Names of skills and packs
        #[arg(required = true)]
        names: Vec<String>,
        /// Hub: its folder, git+URL or https:// address
        #[arg(long, value_name = "HUB", env = "NEXUS_SKILL_HUB", hide_env_values = true)]
        hub: String,
    },
    /// Update skills to the versions of their hub
    Update {
        /// Skills to update. Default: all skills of the hub
        names: Vec<String>,
        /// Hub: its folder, git+URL or https:// address
        #[arg(long, value_name = "HUB", env = "NEXUS_SKILL_HUB", hide_env_values = true)]
        hub: String,
    },
    /// Remove skills that came from a hub
    Remove {
        /// Skills to remove
        #[arg(required = true)]
        names: Vec<String>,
    },
}

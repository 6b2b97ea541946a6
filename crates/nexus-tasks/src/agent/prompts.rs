//! System prompts of agents, by phase.

use std::{borrow::Cow, fs, io, path::Path};

use super::AgentPhase;

/// Longest prompt that a person's own file may hold, in bytes. Source: our own bound, far below any context.
const MOST_BYTES: u64 = 64 << 10;

/// System prompts for the agents of each phase: built in, or written by a person.
///
/// A person's prompts are files in a folder, such as `NEXUS_HOME/prompts`: `orchestrate.md`, `implement.md`, `survey.md`, `review.md`,
/// `reflect.md`, `cartographer.md`. Each replaces the built-in text of that name. No rule of the engine depends on their content.
#[derive(Clone, Debug, Default)]
pub struct Prompts {
    own: Vec<(&'static str, String)>,
}

/// A person's own prompt cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the prompt {path:?} cannot be used: {problem}; correct it, or remove it to use the built-in prompt")]
pub struct PromptError {
    /// The file.
    pub path: std::path::PathBuf,
    /// Reason why it cannot be used.
    pub problem: String,
}

impl Prompts {
    /// The built-in texts.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Reads the files in `folder`; each replaces a built-in text. Files may be missing, and so may the folder.
    ///
    /// # Errors
    ///
    /// [`PromptError`] if a file cannot be read, is empty, longer than 64 KiB, or not UTF-8.
    pub fn with_folder(folder: &Path) -> Result<Self, PromptError> {
        let mut own = Vec::new();
        for (name, _) in BUILT_IN {
            let path = folder.join(format!("{name}.md"));
            let text = match read(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(PromptError { path, problem: error.to_string() }),
            };
            own.push((name, text));
        }
        Ok(Self { own })
    }

    /// Returns the system prompt of this phase.
    pub fn system(&self, phase: AgentPhase) -> &str {
        let name = phase.name();
        let own = self.own.iter().find(|(own, _)| *own == name).map(|(_, text)| text.as_str());
        own.or_else(|| BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text))
            .unwrap_or_default()
    }

    /// Returns the system prompt of this phase, followed by the prompt of the agent's type if it has one.
    pub fn system_with<'p>(&'p self, phase: AgentPhase, of_the_type: Option<&str>) -> Cow<'p, str> {
        let system = self.system(phase);
        match of_the_type {
            Some(text) => Cow::Owned(format!("{}\n\n{}", system.trim_end(), text.trim_end())),
            None => Cow::Borrowed(system.trim_end()),
        }
    }
}

const BUILT_IN: [(&str, &str); 6] = [
    ("orchestrate", include_str!("../../prompts/orchestrate.md")),
    ("implement", include_str!("../../prompts/implement.md")),
    ("survey", include_str!("../../prompts/survey.md")),
    ("review", include_str!("../../prompts/review.md")),
    ("reflect", include_str!("../../prompts/reflect.md")),
    ("cartographer", include_str!("../../prompts/cartographer.md")),
];

fn read(path: &Path) -> io::Result<String> {
    // Check before opening: a pipe would block the read, and a huge file would fill the memory.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file, as required"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(io::Error::other(format!("it has {} bytes, more than {MOST_BYTES}", metadata.len())));
    }
    let text = fs::read_to_string(path)?;
    if text.trim().is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_persons_own_replaces_the_built_in_text_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("review.md"), "Be kind.\n").unwrap();
        fs::write(folder.path().join("other.md"), "Nobody reads it.").unwrap();
        let prompts = Prompts::with_folder(folder.path()).unwrap();
        assert_eq!(
            prompts.system_with(AgentPhase::Review, Some("Look at locks.\n")),
            "Be kind.\n\nLook at locks."
        );
        assert_eq!(prompts.system(AgentPhase::Implement), Prompts::built_in().system(AgentPhase::Implement));
        assert!(Prompts::with_folder(&folder.path().join("missing")).is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_told_and_never_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reflect.md");
        let long = vec![b'x'; 70_000];
        for content in [&b" \n"[..], b"\xff\xfe", &long] {
            fs::write(&path, content).unwrap();
            let error = Prompts::with_folder(folder.path()).unwrap_err();
            assert!(error.to_string().contains("reflect.md"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(Prompts::with_folder(folder.path()).is_err());
    }

    #[test]
    fn every_built_in_text_names_the_tool_that_hands_in_and_no_vendor() {
        use AgentPhase::{Cartographer, Implement, Orchestrate, Reflect, Review, Survey};
        let phases = [Orchestrate, Implement, Survey, Review, Reflect, Cartographer];
        for phase in phases {
            let prompts = Prompts::built_in();
            let text = prompts.system(phase);
            let submit = phase.tools().into_iter().find(|tool| tool.starts_with("submit_")).unwrap();
            assert!(text.contains(submit), "{phase:?}");
            // Every tool that a text speaks of is one of the phase's.
            let known: Vec<&str> = phases.into_iter().flat_map(AgentPhase::tools).collect();
            for word in text.split(|character: char| !character.is_ascii_lowercase() && character != '_') {
                let is_tool = known.contains(&word) || word.starts_with("submit_");
                assert!(!is_tool || phase.tools().contains(&word), "{phase:?} speaks of {word}");
            }
            let lower = text.to_lowercase();
            for vendor in ["claude", "anthropic", "codex", "openai", "gpt", "grok", "xai"] {
                assert!(!lower.contains(vendor), "{phase:?} names {vendor}");
            }
        }
    }
}

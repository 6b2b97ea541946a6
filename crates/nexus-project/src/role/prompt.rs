//! Prompt of an agent for its task.

use std::fs;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::ProjectError,
    file,
    folder::{KNOWLEDGE, ProjectFolder},
    state::ProjectTask,
};

/// Number of bytes of a file that are searched for its title.
const MOST_HEAD: u64 = 4 << 10;
/// Maximum number of listed files of one folder. Source: our own bound; an agent that needs more lists the folder.
const MOST_NAMED: usize = 100;

/// A file of what the project knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KnowledgeFile {
    /// Path of the file, relative to the project.
    pub path: String,
    /// First heading or line of the file.
    pub title: String,
}

impl ProjectFolder {
    /// Returns the project's knowledge: the files of `memory`, `context` and `rules`, each folder sorted by
    /// name.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn knowledge(&self) -> Result<Vec<KnowledgeFile>, ProjectError> {
        let mut found = Vec::new();
        for folder in KNOWLEDGE {
            let path = self.path(folder);
            let Ok(entries) = fs::read_dir(&path) else { continue };
            let mut names: Vec<_> = entries
                .flatten()
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| {
                    name.ends_with(".md") && !name.starts_with('.') && !name.contains(char::is_control)
                })
                .collect();
            names.sort();
            for name in names.into_iter().take(MOST_NAMED) {
                // Skip entries that are not text files.
                let Some(text) = file::read_start(&path.join(&name), MOST_HEAD) else { continue };
                let first = text
                    .lines()
                    .map(|line| line.trim_start_matches('#').trim())
                    .find(|line| !line.is_empty());
                let title = nexus_mcp::page::cut(first.unwrap_or_default(), 200);
                found.push(KnowledgeFile { path: format!(".nexus/{folder}/{name}"), title });
            }
        }
        Ok(found)
    }

    /// Returns the prompt of an agent for a task: TASK, CONTEXT, APPROACH and ACCEPTANCE if the task has them,
    /// and the knowledge files that it may read.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn task_prompt(&self, task: &ProjectTask) -> Result<String, ProjectError> {
        let mut sections = vec![format!("TASK\n{}", task.title)];
        for (name, text) in
            [("CONTEXT", &task.context), ("APPROACH", &task.approach), ("ACCEPTANCE", &task.acceptance)]
        {
            if let Some(text) = text {
                sections.push(format!("{name}\n{}", text.trim_end()));
            }
        }
        let knowledge = self.knowledge()?;
        if !knowledge.is_empty() {
            let lines: Vec<_> =
                knowledge.iter().map(|file| format!("- {}: {}", file.path, file.title)).collect();
            sections.push(format!("INDEX\n{}", lines.join("\n")));
        }
        Ok(sections.join("\n\n") + "\n")
    }
}

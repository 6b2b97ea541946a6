//! Files that agents write for other agents of the cycle.

use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{error::ProjectError, file, folder::ProjectFolder};

/// Maximum size of the content, in bytes. Source: our own bound.
const MOST_CONTENT: usize = 8 << 20;
/// Maximum length of a name, and of one component of it, in bytes. Source: limits of file systems.
const MOST_NAME: [usize; 2] = [1_024, 200];

/// Arguments of `artifact_write`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactWriteRequest {
    /// Path to write to, below `.nexus/state/artifacts/`: `report.md`, `research/prices.csv`.
    pub name: String,
    /// Content to write. It replaces an existing file.
    pub content: String,
}

/// Result of `artifact_write`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ArtifactWritten {
    /// Its path, relative to the project.
    pub path: String,
    /// Number of written bytes.
    pub bytes: usize,
    /// True if a file of this name existed before.
    pub replaced: bool,
}

impl ProjectFolder {
    /// Writes a file below `.nexus/state/artifacts/`, as a whole.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn artifact_write(&self, request: &ArtifactWriteRequest) -> Result<ArtifactWritten, ProjectError> {
        let ArtifactWriteRequest { name, content } = request;
        if let Some(fault) = fault_of(name) {
            let message =
                format!("{:?} is not a name of an artifact: {fault}", nexus_mcp::page::cut(name, 200));
            return Err(ProjectError::invalid(message, "use a relative path such as research/prices.csv"));
        }
        if content.len() > MOST_CONTENT {
            let message = format!("`content` has {} bytes, more than {MOST_CONTENT}", content.len());
            return Err(ProjectError::invalid(message, "write it as several files"));
        }
        self.locked(|| {
            let mut folder = self.state_path("artifacts");
            file::make_folder(&folder)?;
            let name_path = Path::new(name);
            // Each component must be a real folder and not a link.
            for part in name_path.parent().into_iter().flat_map(Path::components) {
                folder.push(part);
                file::make_folder(&folder)?;
            }
            let path = self.state_path("artifacts").join(name_path);
            let replaced = path.symlink_metadata().is_ok();
            file::replace(&path, content.as_bytes())?;
            Ok(ArtifactWritten {
                path: format!(".nexus/state/artifacts/{name}"),
                bytes: content.len(),
                replaced,
            })
        })
    }
}

fn fault_of(name: &str) -> Option<&'static str> {
    let is_plain = |part: &str| {
        !part.is_empty()
            && part.len() <= MOST_NAME[1]
            && !part.starts_with('.')
            && !part.ends_with(['.', ' '])
    };
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > MOST_NAME[0] {
        return Some("it has more than 1,024 bytes");
    }
    if name.chars().any(|character| character.is_control() || "\\:*?\"<>|".contains(character)) {
        return Some("it has a character that some file systems do not support");
    }
    if Path::new(name).components().any(|part| !matches!(part, Component::Normal(_))) {
        return Some("it leads out of the folder");
    }
    if !name.split('/').all(is_plain) {
        return Some("a part of it is empty, longer than 200 bytes, or begins or ends with a dot");
    }
    None
}

//! Faults of a row that its types cannot express.

use std::path::{Component, Path};

use nexus_core::{SettingsError, variable_name_fault};
use nexus_process::sandbox::AllowedHosts;
use serde_json::Value;

use super::row::{ListedAgent, ProcessPart};
use super::template::KEY;

/// APIs that a server of `with_server` can speak.
const WIRES: [&str; 4] = ["chat", "gemini", "messages", "responses"];

impl ListedAgent {
    /// Checks the row. An error names the key and the fix.
    pub(in crate::acp) fn check_row(&self) -> Result<(), SettingsError> {
        // A path relative to a folder would run a program of the current project.
        let is_name = !self.program.contains('/') && !self.program.contains('\\');
        if self.program.trim().is_empty() || !(is_name || Path::new(&self.program).is_absolute()) {
            let reason = "write the name of a program on the PATH, or an absolute path";
            return Err(SettingsError::new("program", reason));
        }
        if let Err(error) = AllowedHosts::parse(self.hosts.iter().map(String::as_str)) {
            return Err(SettingsError::new("hosts", error.to_string()));
        }
        if let Some(folder) = self.login_folders.iter().find(|folder| !is_below_home(folder)) {
            let reason = format!("{folder:?} must be a folder below the home, such as .config/my-agent");
            return Err(SettingsError::new("login_folders", reason));
        }
        match (&self.with_server, self.wire.as_deref()) {
            (Some(_), Some(wire)) if WIRES.contains(&wire) => {}
            (None, None) => {}
            (Some(_), _) => {
                let reason = format!("say what the server speaks: {}", WIRES.join(", "));
                return Err(SettingsError::new("wire", reason));
            }
            (None, Some(_)) => {
                return Err(SettingsError::new(
                    "wire",
                    "applies only with `with_server`: add that, or remove it",
                ));
            }
        }
        self.parts().try_for_each(|(key, part)| check_part(key, part, self.resumes))
    }
}

/// Checks one part. `is_stored`: the agent's home is stored with its conversations.
fn check_part(key: &str, part: &ProcessPart, is_stored: bool) -> Result<(), SettingsError> {
    let fault = |inner: &str, name: &str, reason: String| SettingsError {
        path: [key, inner, name].map(str::to_owned).to_vec(),
        reason,
    };
    for name in part.variables.keys() {
        if let Some(reason) = variable_name_fault(name) {
            return Err(fault("variables", name, reason.to_owned()));
        }
    }
    if part.arguments.iter().any(|argument| argument.contains(KEY)) {
        let reason = format!(
            "cannot have {KEY}, because every user of the machine can read arguments: use a variable"
        );
        return Err(SettingsError { path: [key, "arguments"].map(str::to_owned).to_vec(), reason });
    }
    let has_key = |(_, content): &(&String, &Value)| content.to_string().contains(KEY);
    if let Some((path, _)) = part.files.iter().find(has_key).filter(|_| is_stored) {
        let reason = format!("cannot have {KEY} with `resumes`, because the file is stored: use a variable");
        return Err(fault("files", path, reason));
    }
    match part.files.keys().find(|path| !is_below_home(path)) {
        Some(path) => Err(fault("files", path, "must be a path below the agent's home".to_owned())),
        None => Ok(()),
    }
}

fn is_below_home(path: &str) -> bool {
    let parts = Path::new(path).components();
    !path.is_empty()
        && !path.contains('\0')
        && parts.into_iter().all(|part| matches!(part, Component::Normal(_)))
}

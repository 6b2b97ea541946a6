//! One turn of each vendor's program on a simulated vendor: in a temporary home, with an invented key, on this machine.

use std::{collections::BTreeSet, path::Path};

use nexus::LoopMode;
use serde_json::Value;

use crate::{
    checks::{Check, Readiness},
    command_error::CommandError,
};

/// Tries a turn on each backend that can be pointed at the simulated vendors. `value` is the configuration, and `folder` that of its file.
pub(super) async fn trials(
    backends: &[Readiness],
    value: &Value,
    folder: &Path,
) -> Result<Vec<Check>, CommandError> {
    let mut checks = Vec::new();
    let mut tried = BTreeSet::new();
    let mut stage = None;
    for backend in backends.iter().filter(|backend| backend.is_ready()) {
        let id = backend.id.as_str();
        let settings = &value["backends"][id];
        let kind = settings["kind"].as_str().unwrap_or(id);
        let subject = format!("simulated turn {id}");
        let not_tried = |reason: &str| Check::unknown(&subject, format!("not tried: {reason}"));
        let reason = match kind {
            _ if settings["parked"].is_string() => Some("the configuration parks the backend"),
            _ if settings["pool"].is_string() => Some("its turns run on other machines"),
            "acp" => Some("the simulated vendors play no agent of the Agent Client Protocol"),
            "responses" => None,
            _ if backend.mode == LoopMode::Delegated => None,
            _ => Some("its login goes to its vendor alone"),
        };
        if let Some(reason) = reason {
            checks.push(not_tried(reason));
            continue;
        }
        // Nexus's own loop is the same for every server.
        if !tried.insert((kind, settings["executable"].as_str())) {
            continue;
        }
        if stage.is_none() {
            match stage::TrialStage::open() {
                Ok(opened) => stage = Some(opened),
                Err(reason) => {
                    checks.push(not_tried(&reason));
                    break;
                }
            }
        }
        if let Some(stage) = &mut stage {
            checks.push(stage.turn(subject, kind, settings, folder).await?);
        }
    }
    Ok(checks)
}

#[cfg(not(feature = "demo"))]
mod stage {
    use super::*;

    pub(super) struct TrialStage;

    impl TrialStage {
        pub(super) fn open() -> Result<Self, String> {
            Err("this build of nexus has no simulated vendors (feature `demo`)".to_owned())
        }

        pub(super) async fn turn(
            &mut self,
            subject: String,
            _: &str,
            _: &Value,
            _: &Path,
        ) -> Result<Check, CommandError> {
            Ok(Check::unknown(subject, "not tried"))
        }
    }
}

#[cfg(feature = "demo")]
mod stage {
    use nexus_files::replace;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::{
        demo::shell::{DemoServer, DemoShell},
        output::printable,
    };

    /// Variable with the invented key.
    const KEY: &str = "SIMULATED_KEY";
    /// Longest turn, in seconds. Source: our own bound; a vendor's program starts in a few seconds.
    const LONGEST: &str = "60";
    /// Words of every answer of a simulated vendor.
    const ANSWER: &str = "This is a simulation";

    /// A temporary home and the running server of the simulated vendors.
    pub(super) struct TrialStage {
        home: TempDir,
        shell: DemoShell,
        server: DemoServer,
    }

    impl TrialStage {
        pub(super) fn open() -> Result<Self, String> {
            let home = tempfile::tempdir().map_err(|error| format!("no temporary home: {error}"))?;
            let shell = DemoShell::new(home.path()).map_err(|error| error.to_string())?;
            let server = shell.serve_at_any_port().map_err(|error| error.to_string())?;
            Ok(Self { home, shell, server })
        }

        /// Runs a turn, in a child that has this home and no account.
        pub(super) async fn turn(
            &mut self,
            subject: String,
            kind: &str,
            settings: &Value,
            folder: &Path,
        ) -> Result<Check, CommandError> {
            let base_url = format!("http://{}/blue/v1", self.server.address());
            let mut tried = match kind {
                "responses" => json!({ "kind": kind, "model": "careful", "base_url": base_url }),
                _ => json!({
                    "kind": kind, "base_url": base_url, "credential": { "env": KEY }, "billing": "metered",
                }),
            };
            if let Some(executable) = settings["executable"].as_str() {
                // A path is relative to the configuration, and a name is on the search path.
                let is_path = executable.contains('/');
                let executable = Path::new(executable);
                let executable = if is_path { folder.join(executable) } else { executable.to_owned() };
                tried["executable"] = json!(executable);
            }
            // These settings decide how a program is started and judged, so the trial needs them as well.
            for key in ["versions", "containment", "structured_output"] {
                if let Some(value) = settings.get(key) {
                    tried[key] = value.clone();
                }
            }
            let configuration = json!({
                "groups": { "tried": ["tried"] },
                "backends": { "tried": tried },
                "types": { "executor": { "group": "tried" } },
            });
            // JSON is YAML too.
            let file = self.home.path().join("nexus.yaml");
            replace(&file, configuration.to_string().as_bytes())
                .map_err(|error| CommandError::failed(format_args!("{}: {error}", file.display())))?;
            let arguments = ["run", "executor", "Say hello.", "--deadline", LONGEST, "--quiet"];
            let output = self.shell.outputs(&arguments, &[(KEY, "sk-simulated")]).await?;
            let answer = String::from_utf8_lossy(&output.stdout);
            if output.status.success() && answer.contains(ANSWER) {
                return Ok(Check::ok(subject, "a turn on a simulated vendor ended with its answer"));
            }
            let errors = String::from_utf8_lossy(&output.stderr);
            // The last line of standard error is the error of the command.
            let last =
                errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it ended without an answer");
            let reason = last.strip_prefix("nexus: ").unwrap_or(last);
            Ok(Check::problem(
                subject,
                printable(&format!("a turn on a simulated vendor failed: {reason}")),
                "run `nexus doctor`, and check the version of the program",
            ))
        }
    }
}

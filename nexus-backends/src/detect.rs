//! Parts that the vendors' detectors share.

#[cfg(feature = "acp")]
use nexus_core::detection::{DetectedBackend, Payment};
#[cfg(any(feature = "cli", feature = "login"))]
use nexus_core::detection::{Detection, Machine};

/// A program that may be started, with its version.
#[cfg(feature = "cli")]
#[derive(Debug)]
pub(crate) struct DetectedProgram {
    /// Its path, as text of a configuration.
    pub(crate) path: String,
    /// Its name, version and path, in words.
    pub(crate) words: String,
}

/// Finds a vendor's program, and asks it for its version. Programs that cannot be used are added to `detection`.
#[cfg(feature = "cli")]
pub(crate) async fn program(
    machine: &dyn Machine,
    (name, title): (&str, &str),
    versions: &crate::cli::versions::VersionTable,
    set: &[(&str, &str)],
    detection: &mut Detection,
) -> Option<DetectedProgram> {
    use nexus_core::detection::{ProgramAnswer, ProgramRun};

    let path = find(machine, name, detection)?;
    let subject = path.display().to_string();
    let answer = machine.run(ProgramRun { program: &path, arguments: &["--version"], pass: &[], set }).await;
    let line = match answer {
        ProgramAnswer::Ended { is_success: true, output } => {
            output.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
        }
        ProgramAnswer::Ended { .. } => {
            detection.unused(subject, "`--version` ended with an error");
            return None;
        }
        ProgramAnswer::Slow => {
            detection.unused(subject, "it is slow: it did not print its version in time");
            return None;
        }
        ProgramAnswer::Failed(reason) => {
            detection.unused(subject, reason);
            return None;
        }
    };
    match versions.admit(&path, &line, crate::cli::settings::VersionsSetting::Warn) {
        Ok(admitted) => {
            let words = format!("{title} {} ({subject})", admitted.version);
            Some(DetectedProgram { path: subject, words })
        }
        Err(failure) => {
            detection.unused(subject, failure.message.unwrap_or_default());
            None
        }
    }
}

/// Finds a program. Programs that may not be started are added to `detection`.
#[cfg(feature = "cli")]
fn find(machine: &dyn Machine, name: &str, detection: &mut Detection) -> Option<std::path::PathBuf> {
    let search = machine.program(name);
    for (path, reason) in search.refused {
        detection.unused(path.display().to_string(), reason);
    }
    search.usable
}

/// Returns true if Nexus owns a usable login of this name. A login that cannot be used is added to `detection`.
#[cfg(feature = "login")]
pub(crate) async fn has_login(machine: &dyn Machine, name: &str, detection: &mut Detection) -> bool {
    use nexus_core::detection::OwnLoginState;

    match machine.own_login(name).await {
        OwnLoginState::Usable => true,
        OwnLoginState::None => false,
        OwnLoginState::Unusable(reason) => {
            detection.unused(format!("the login `{name}`"), reason);
            false
        }
    }
}

/// Adds an agent of the Agent Client Protocol that can be lent the API key in `variable`. A known agent has no login of its own.
#[cfg(feature = "acp")]
pub(crate) fn add_agent(
    machine: &dyn Machine,
    agent: &crate::acp::agent::KnownAgent,
    entry: &str,
    variable: &str,
    detection: &mut Detection,
) {
    let Some(path) = find(machine, agent.program, &mut Detection::default()) else { return };
    let path = path.display().to_string();
    match machine.variable(variable) {
        Some(_) => {
            let words = format!("the agent {} ({path}), with the key in {variable}", agent.name);
            let backend = DetectedBackend::new("acp", Payment::Metered, words)
                .named(entry)
                .with("agent", agent.name)
                .with("executable", path)
                .with("credential", key_in(variable))
                .with("billing", "metered");
            detection.backends.push(backend);
        }
        // Report nothing for a vendor's own program, such as its CLI with an argument: it has an entry of its own.
        None if agent.program == agent.name && !agent.arguments.is_empty() => {}
        None => detection.unused(path, format!("this agent needs an API key in {variable}")),
    }
}

/// Returns the setting of a credential in an environment variable.
#[cfg(any(feature = "cli", feature = "native"))]
pub(crate) fn key_in(variable: &str) -> serde_json::Value {
    serde_json::json!({ "env": variable })
}

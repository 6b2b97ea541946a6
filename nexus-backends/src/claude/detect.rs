//! Detection of Claude Code: the program, and who pays for its turns.

use nexus_core::detection::{
    DetectedBackend, Detection, DetectionFuture, Machine, Payment, ProgramAnswer, ProgramRun,
};
use serde::Deserialize;

use super::cli::{self, login_place};
use crate::detect::{DetectedProgram, key_in, program};

/// Variable with an API key.
const API_KEY: &str = "ANTHROPIC_API_KEY";
/// Variable with the token of a subscription, as `claude setup-token` prints it.
const PLAN_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";

/// Detects the backends of this vendor.
pub(super) fn detect(machine: &dyn Machine) -> DetectionFuture<'_> {
    Box::pin(async move {
        let mut detection = Detection::default();
        detection.ways.push("install Claude Code, and log in with `claude auth login`".to_owned());
        let set = [("DISABLE_AUTOUPDATER", "1")];
        let name = (cli::PROGRAM, "Claude Code");
        if let Some(found) = program(machine, name, &cli::VERSIONS, &set, &mut detection).await {
            add(machine, found, &mut detection).await;
        }
        #[cfg(feature = "acp")]
        crate::detect::add_agent(machine, &super::acp::AGENT, "claude-agent", API_KEY, &mut detection);
        detection
    })
}

/// Adds the program with the first credential of: its own login to a plan, the token of a plan, an API key.
async fn add(machine: &dyn Machine, found: DetectedProgram, detection: &mut Detection) {
    let DetectedProgram { path, words } = found;
    // With `billing`, a turn is rejected if the program would use another credential.
    let backend = |payment: Payment, how: &str| {
        DetectedBackend::new("claude-cli", payment, format!("{words}, {how}"))
            .with("executable", path.clone())
    };
    let reason = match login(machine, &path).await {
        OwnStatus::Plan => {
            let backend = backend(Payment::Plan, "logged in to a plan").with("billing", "plan");
            return detection.backends.push(backend);
        }
        OwnStatus::Metered => {
            let backend = backend(Payment::Metered, "logged in to an account that pays for each call")
                .with("billing", "metered");
            return detection.backends.push(backend);
        }
        OwnStatus::None => "it is not logged in: run `claude auth login`",
        OwnStatus::Unknown => "its login status is unknown: run `claude auth status`",
    };
    for (variable, payment, billing) in
        [(PLAN_TOKEN, Payment::Plan, "plan"), (API_KEY, Payment::Metered, "metered")]
    {
        if machine.variable(variable).is_some() {
            let backend = backend(payment, &format!("with the credential in {variable}"))
                .with("credential", key_in(variable))
                .with("billing", billing);
            return detection.backends.push(backend);
        }
    }
    detection.unused(path, reason);
}

/// Status of the program's own login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnStatus {
    Plan,
    Metered,
    None,
    Unknown,
}

/// Answer of `claude auth status`.
///
/// Source: observed with claude 2.1.197.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthStatus {
    logged_in: bool,
    auth_method: Option<String>,
    subscription_type: Option<String>,
}

/// Returns the status of the program's own login. The stored login itself is never opened. Where a file shows it, the program is not
/// started, since its status command sends a request to its vendor.
async fn login(machine: &dyn Machine, program: &str) -> OwnStatus {
    let Some((login, settings)) = login_place(|name| machine.variable(name)) else {
        return OwnStatus::Unknown;
    };
    if machine.exists(&login) {
        return OwnStatus::Plan;
    }
    if !machine.exists(&settings) {
        // Without its settings file, the program was never used here and has no login.
        return OwnStatus::None;
    }
    let run = ProgramRun {
        program: program.as_ref(),
        arguments: &["auth", "status"],
        pass: &["HOME", "CLAUDE_CONFIG_DIR", "USER"],
        set: &[("DISABLE_AUTOUPDATER", "1"), ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")],
    };
    match machine.run(run).await {
        ProgramAnswer::Ended { output, .. } => status_in(&output),
        ProgramAnswer::Slow | ProgramAnswer::Failed(_) => OwnStatus::Unknown,
    }
}

fn status_in(output: &str) -> OwnStatus {
    let Ok(status) = serde_json::from_str::<AuthStatus>(output.trim()) else { return OwnStatus::Unknown };
    let is_plan = status.auth_method.as_deref() == Some("claude.ai")
        || status.subscription_type.is_some_and(|name| !name.is_empty());
    match status.logged_in {
        false => OwnStatus::None,
        true if is_plan => OwnStatus::Plan,
        true => OwnStatus::Metered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payer_of_the_program_s_own_login_is_read_from_its_status() {
        for (output, expected) in [
            (r#"{"loggedIn":true,"authMethod":"claude.ai","subscriptionType":"max"}"#, OwnStatus::Plan),
            (r#"{"loggedIn":true,"authMethod":"console","apiProvider":"firstParty"}"#, OwnStatus::Metered),
            (r#"{"loggedIn":false,"authMethod":"none"}"#, OwnStatus::None),
            ("error: unknown command 'auth'", OwnStatus::Unknown),
            ("", OwnStatus::Unknown),
        ] {
            assert_eq!(status_in(output), expected, "{output}");
        }
    }
}

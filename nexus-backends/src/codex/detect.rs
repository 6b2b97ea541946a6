//! Detection of a ChatGPT plan, by Nexus's own logins, and of the Codex program.

use nexus_core::detection::{DetectedBackend, Detection, DetectionFuture, Machine, Payment};

use super::cli::VERSIONS;
use crate::detect::{has_login, key_in, program};

/// Variable with an API key.
const API_KEY: &str = "OPENAI_API_KEY";

/// Detects the backends of this vendor.
pub(super) fn detect(machine: &dyn Machine) -> DetectionFuture<'_> {
    Box::pin(async move {
        let mut detection = Detection::default();
        detection.ways.push(
            "log in to a ChatGPT or Grok plan with `nexus login codex` or `nexus login grok`".to_owned(),
        );
        let found = program(machine, ("codex", "Codex"), &VERSIONS, &[], &mut detection).await;
        let codex = has_login(machine, "codex", &mut detection).await;
        let chatgpt = has_login(machine, "chatgpt", &mut detection).await;
        if let Some(found) = found {
            let backend = |payment, how: &str| {
                DetectedBackend::new("codex-cli", payment, format!("{}, {how}", found.words))
                    .with("executable", found.path.clone())
            };
            match (codex, chatgpt, machine.variable(API_KEY)) {
                (true, ..) => detection.backends.push(
                    backend(Payment::Plan, "with the login of `nexus login codex`").with("billing", "plan"),
                ),
                (_, true, _) => detection.backends.push(
                    backend(Payment::Plan, "with the login of `nexus login chatgpt`")
                        .with("login", "chatgpt")
                        .with("billing", "plan"),
                ),
                (.., Some(_)) => detection.backends.push(
                    backend(Payment::Metered, "with the key in OPENAI_API_KEY")
                        .with("credential", key_in(API_KEY))
                        .with("billing", "metered"),
                ),
                _ => detection.unused(found.path, "Nexus has no login for it: run `nexus login codex`"),
            }
        }
        for (has, kind, word) in
            [(codex, "codex-sub-token", "codex"), (chatgpt, "chatgpt-sub-token", "chatgpt")]
        {
            if has {
                let words = format!("Nexus's own loop, with the login of `nexus login {word}`");
                detection.backends.push(DetectedBackend::new(kind, Payment::Plan, words));
            }
        }
        #[cfg(feature = "acp")]
        crate::detect::add_agent(machine, &super::acp::AGENT, "codex-agent", API_KEY, &mut detection);
        detection
    })
}

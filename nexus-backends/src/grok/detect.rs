//! Detection of a subscription of xAI, by Nexus's own login, and of the Grok program.

use nexus_core::detection::{DetectedBackend, Detection, DetectionFuture, Machine, Payment};

use super::cli::{PROGRAM, VERSIONS};
use crate::detect::{has_login, key_in, program};

/// Variable with an API key.
const API_KEY: &str = "XAI_API_KEY";

/// Detects the backends of this vendor.
pub(super) fn detect(machine: &dyn Machine) -> DetectionFuture<'_> {
    Box::pin(async move {
        let mut detection = Detection::default();
        let set = [("GROK_DISABLE_AUTOUPDATER", "1")];
        let found = program(machine, (PROGRAM, "Grok"), &VERSIONS, &set, &mut detection).await;
        let is_logged_in = has_login(machine, "grok", &mut detection).await;
        if let Some(found) = found {
            let backend = |payment, how: &str| {
                DetectedBackend::new("grok-cli", payment, format!("{}, {how}", found.words))
                    .with("executable", found.path.clone())
            };
            match (is_logged_in, machine.variable(API_KEY)) {
                (true, _) => detection.backends.push(
                    backend(Payment::Plan, "with the login of `nexus login grok`").with("billing", "plan"),
                ),
                (false, Some(_)) => detection.backends.push(
                    backend(Payment::Metered, "with the key in XAI_API_KEY")
                        .with("credential", key_in(API_KEY))
                        .with("billing", "metered"),
                ),
                (false, None) => {
                    detection.unused(found.path, "Nexus has no login for it: run `nexus login grok`");
                }
            }
        }
        if is_logged_in {
            let words = "Nexus's own loop, with the login of `nexus login grok`";
            detection.backends.push(DetectedBackend::new("grok-sub-token", Payment::Plan, words));
        }
        #[cfg(feature = "acp")]
        crate::detect::add_agent(machine, &super::acp::AGENT, "grok-agent", API_KEY, &mut detection);
        detection
    })
}

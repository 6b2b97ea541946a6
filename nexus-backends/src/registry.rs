//! The kinds of backend that Nexus brings along.

use nexus_core::Registry;

/// Every kind of this build; kinds that exist and are not part of it are known by name, so that a
/// configuration may name them and they are skipped with the reason.
pub fn registry() -> Registry {
    let registry = Registry::new();
    #[cfg(feature = "claude")]
    let registry = registry.with(std::sync::Arc::new(crate::delegated::claude::ClaudeCli));
    #[cfg(feature = "codex")]
    let registry = registry.with(std::sync::Arc::new(crate::delegated::codex::CodexCli));
    #[cfg(feature = "grok")]
    let registry = registry.with(std::sync::Arc::new(crate::delegated::grok::GrokCli));
    #[cfg(feature = "native")]
    let registry = registry
        .with(std::sync::Arc::new(crate::native::CodexSubToken))
        .with(std::sync::Arc::new(crate::native::GrokSubToken))
        .with(std::sync::Arc::new(crate::native::Responses));
    [
        ("claude-cli", "this build leaves out the feature `claude`"),
        ("codex-cli", "this build leaves out the feature `codex`"),
        ("grok-cli", "this build leaves out the feature `grok`"),
        ("codex-sub-token", NATIVE),
        ("grok-sub-token", NATIVE),
        ("responses", NATIVE),
    ]
    .into_iter()
    .fold(registry, |registry, (name, reason)| registry.with_absent(name, reason))
}

/// Why no native backend can run.
const NATIVE: &str = "this build leaves out the feature `native`";

//! The kinds of backend that Nexus brings along.

use nexus_core::Registry;

/// Every kind of this build; kinds that exist and are not part of it are known by name, so that a
/// configuration may name them and they are skipped with the reason.
pub fn registry() -> Registry {
    let registry = Registry::new();
    #[cfg(feature = "claude")]
    let registry = registry.with(std::sync::Arc::new(crate::claude::cli::ClaudeCli));
    #[cfg(feature = "codex")]
    let registry = registry.with(std::sync::Arc::new(crate::codex::cli::CodexCli));
    #[cfg(feature = "grok")]
    let registry = registry.with(std::sync::Arc::new(crate::grok::cli::GrokCli));
    #[cfg(feature = "codex")]
    let registry = registry.with(std::sync::Arc::new(crate::codex::CodexSubToken));
    #[cfg(feature = "grok")]
    let registry = registry.with(std::sync::Arc::new(crate::grok::GrokSubToken));
    #[cfg(feature = "responses")]
    let registry = registry.with(std::sync::Arc::new(crate::generic::Responses));
    [
        ("claude-cli", "this build leaves out the feature `claude`"),
        ("codex-cli", "this build leaves out the feature `codex`"),
        ("grok-cli", "this build leaves out the feature `grok`"),
        ("codex-sub-token", "this build leaves out the feature `codex`"),
        ("grok-sub-token", "this build leaves out the feature `grok`"),
        ("responses", "this build leaves out the feature `responses`"),
    ]
    .into_iter()
    .fold(registry, |registry, (name, reason)| registry.with_absent(name, reason))
}

//! The list of all vendors, one line each. The backend kinds, the logins and the command's names are derived from it.

use nexus_core::Registry;

#[cfg(feature = "login")]
use crate::own_login::{OwnLogin, UnknownLogin};
use crate::{machine::HostMachine, vendor::Vendor};

/// Defines the list. A line has a feature, its folder, and the backend kinds in the folder.
macro_rules! vendors {
    ($($feature:tt => $folder:ident: $($kind:literal),+;)+) => {
        /// Returns the vendors of this build.
        pub fn vendors() -> &'static [Vendor] {
            &[$(#[cfg(feature = $feature)] crate::$folder::VENDOR),+]
        }

        /// Every existing kind, with the feature that includes it.
        const KINDS: &[(&str, &str)] = &[$($(($kind, $feature)),+),+];
    };
}

vendors! {
    "acp" => acp: "acp";
    "claude" => claude: "claude-cli";
    "codex" => codex: "codex-cli", "codex-sub-token", "chatgpt-sub-token";
    "grok" => grok: "grok-cli", "grok-sub-token";
    "responses" => generic: "responses", "chat", "messages", "gemini";
}

/// Returns every kind of this build. Kinds that this build does not include are known by name, so a configuration may
/// name them; they are then skipped with the reason.
///
/// The registry's start ends the processes of killed programs, even if the configuration no longer has a delegated
/// backend.
pub fn registry() -> Registry {
    let kinds = vendors().iter().flat_map(Vendor::kinds);
    let registry = kinds.fold(Registry::new(), Registry::with);
    #[cfg(feature = "acp")]
    let registry =
        registry.with(std::sync::Arc::new(crate::acp::Acp::of(vendors().iter().flat_map(Vendor::agents))));
    #[cfg(feature = "responses")]
    let registry = registry.with_providers(std::sync::Arc::new(
        crate::generic::providers::ProviderRows::new(crate::generic::VENDOR.kinds()),
    ));
    #[cfg(feature = "mcp-servers")]
    let registry = registry.with_section(std::sync::Arc::new(crate::mcp_servers::McpServersSection));
    #[cfg(feature = "cli")]
    let registry = registry.with_start(|context| crate::cli::sweep::sweep(&context.home));
    let detectors = vendors().iter().filter_map(Vendor::detector);
    let registry = detectors.fold(registry, Registry::with_detector).with_machine(|context| {
        let machine = HostMachine::new(context);
        #[cfg(feature = "login")]
        let machine = machine.with_logins(|name| login(name).ok());
        std::sync::Arc::new(machine)
    });
    KINDS.iter().fold(registry, |registry, (kind, feature)| {
        registry.with_absent(*kind, format!("this build lacks the feature `{feature}`"))
    })
}

/// Returns the logins that Nexus creates and owns.
#[cfg(feature = "login")]
pub fn logins() -> impl Iterator<Item = OwnLogin> {
    vendors().iter().flat_map(|vendor| vendor.logins().iter().copied())
}

/// Returns the login that `word` names on a command line.
///
/// # Errors
///
/// [`UnknownLogin`], which lists the known ones.
#[cfg(feature = "login")]
pub fn login(word: &str) -> Result<OwnLogin, UnknownLogin> {
    logins()
        .find(|login| login.as_str() == word)
        .ok_or_else(|| UnknownLogin::new(word, logins().map(|login| login.as_str()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_the_kinds_that_the_folders_have() {
        for vendor in vendors() {
            for kind in vendor.kinds() {
                assert!(KINDS.iter().any(|(name, _)| *name == kind.name()), "{}", kind.name());
            }
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn the_start_ends_what_a_killed_program_left_whatever_is_configured() {
        let home = tempfile::tempdir().unwrap();
        let left = home.path().join("tmp/1-2-3_0");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::create_dir(home.path().join("runs")).unwrap();
        std::fs::write(home.path().join("runs/1-2-3.json"), "").unwrap();
        registry().start(&nexus_core::BuildContext::in_home(home.path()));
        assert!(!left.exists());
    }

    #[cfg(all(feature = "codex", feature = "grok"))]
    #[test]
    fn a_login_is_found_by_its_word() {
        for own in logins() {
            assert_eq!(login(own.as_str()), Ok(own));
        }
        let error = login("claude").unwrap_err().to_string();
        assert_eq!(error, "unknown login `claude`: write `codex` or `chatgpt` or `grok`");
    }

    #[cfg(all(feature = "codex", feature = "grok"))]
    #[test]
    fn an_issuer_is_reached_by_tls_alone() {
        for own in logins() {
            assert!(own.issuer().url.starts_with("https://"));
            assert!(own.issuer().token_endpoint.starts_with('/'));
        }
    }
}

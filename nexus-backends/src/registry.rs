//! The one list of vendors: a line each, from which the kinds of backend, the logins and the words of the command come.

use nexus_core::Registry;

#[cfg(feature = "login")]
use crate::own_login::{OwnLogin, UnknownLogin};
use crate::vendor::Vendor;

/// A line is a feature, the folder behind it, and the kinds of backend that are there.
macro_rules! vendors {
    ($($feature:tt => $folder:ident: $($kind:literal),+;)+) => {
        /// The vendors of this build.
        pub fn vendors() -> &'static [Vendor] {
            &[$(#[cfg(feature = $feature)] crate::$folder::VENDOR),+]
        }

        /// Every kind that exists, with the feature that brings it.
        const KINDS: &[(&str, &str)] = &[$($(($kind, $feature)),+),+];
    };
}

vendors! {
    "acp" => acp: "acp";
    "claude" => claude: "claude-cli";
    "codex" => codex: "codex-cli", "codex-sub-token", "chatgpt-sub-token";
    "grok" => grok: "grok-cli", "grok-sub-token";
    "responses" => generic: "responses";
}

/// Every kind of this build; kinds that exist and are not part of it are known by name, so that a
/// configuration may name them and they are skipped with the reason. Its start ends what a killed program left behind, also
/// where the configuration has no delegated backend any more.
pub fn registry() -> Registry {
    let kinds = vendors().iter().flat_map(Vendor::kinds);
    let registry = kinds.fold(Registry::new(), Registry::with);
    #[cfg(feature = "acp")]
    let registry = registry.with({
        let agents = vendors().iter().flat_map(Vendor::agents);
        std::sync::Arc::new(crate::acp::Acp::of(agents))
    });
    #[cfg(feature = "cli")]
    let registry = registry.with_start(|context| crate::cli::sweep::sweep(&context.home));
    KINDS.iter().fold(registry, |registry, (kind, feature)| {
        registry.with_absent(*kind, format!("this build lacks the feature `{feature}`"))
    })
}

/// The logins that Nexus makes by itself.
#[cfg(feature = "login")]
pub fn logins() -> impl Iterator<Item = OwnLogin> {
    vendors().iter().flat_map(|vendor| vendor.logins().iter().copied())
}

/// The login that `word` names on a command line.
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

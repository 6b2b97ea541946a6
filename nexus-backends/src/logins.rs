//! The logins that come along.

use std::{fmt, str::FromStr, sync::Arc};

use nexus_auth::{LoginKeeper, OAuthSignIn, SignInMethod, http::Network};
use nexus_core::{BuildContext, SettingsError};

pub use crate::{codex::login::openai_codex, grok::login::xai_grok};

/// A login that Nexus can make by itself.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LoginName {
    /// A ChatGPT plan, for the backends of Codex.
    Codex,
    /// A SuperGrok plan, for the backends of Grok.
    Grok,
}

impl LoginName {
    /// Every one of them.
    pub const ALL: [Self; 2] = [Self::Codex, Self::Grok];

    /// The word for it on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Grok => "grok",
        }
    }

    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Codex => "openai-codex",
            Self::Grok => "grok-build",
        }
    }
}

impl fmt::Display for LoginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LoginName {
    type Err = UnknownLogin;

    fn from_str(word: &str) -> Result<Self, UnknownLogin> {
        Self::ALL.into_iter().find(|name| name.as_str() == word).ok_or_else(|| UnknownLogin(word.to_owned()))
    }
}

/// A word that names no login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no login `{0}`: it is `codex` or `grok`")]
pub struct UnknownLogin(String);

/// How a login is made, renewed and given up, to be changed before a keeper is given it.
///
/// Codex signs in by a browser and has a device code beside it; Grok signs in by a device code.
///
/// # Errors
///
/// [`SettingsError`] for what stands in `network`.
pub fn sign_in(
    which: LoginName,
    context: &BuildContext,
    network: &Network,
) -> Result<OAuthSignIn, SettingsError> {
    let (issuer, method) = match which {
        LoginName::Codex => (openai_codex(), SignInMethod::Browser),
        LoginName::Grok => (xai_grok(), SignInMethod::DeviceCode),
    };
    let remedy = format!("run `nexus login {which}`");
    Ok(OAuthSignIn::new(which.file_name(), remedy, issuer, context, network)?.with_method(method))
}

/// The owner of a login below `context.home`, which renews it where it is from.
///
/// # Errors
///
/// [`SettingsError`] for what stands in `network`.
pub fn keeper(
    which: LoginName,
    context: &BuildContext,
    network: &Network,
) -> Result<LoginKeeper, SettingsError> {
    Ok(LoginKeeper::at_home(Arc::new(sign_in(which, context, network)?), &context.home))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_auth::SignIn as _;

    #[test]
    fn each_login_has_a_word_and_a_file() {
        for name in LoginName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            let sign_in = sign_in(name, &BuildContext::new("/home", "/base"), &Network::default()).unwrap();
            assert_eq!(sign_in.name(), name.file_name());
            assert_eq!(sign_in.remedy(), format!("run `nexus login {name}`"));
        }
        let error = "claude".parse::<LoginName>().unwrap_err();
        assert_eq!(error.to_string(), "there is no login `claude`: it is `codex` or `grok`");
    }

    #[test]
    fn the_vendors_are_reached_by_tls_alone() {
        for issuer in [openai_codex(), xai_grok()] {
            assert!(issuer.url.starts_with("https://"));
            assert!(issuer.token_endpoint.starts_with('/'));
        }
    }
}

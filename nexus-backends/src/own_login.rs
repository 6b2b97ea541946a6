//! The login of our own that a backend is lent from where its settings name no credential.

use std::{path::Path, sync::Arc};

use nexus_core::{BuildContext, CredentialSource, SettingsError};

#[cfg(feature = "login")]
use crate::{
    auth::logins::{self, LoginName},
    http::Network,
};

/// A login that Nexus makes by itself, where this build can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnLogin {
    /// A ChatGPT plan.
    #[cfg(any(feature = "codex", feature = "native"))]
    Codex,
    /// A subscription of xAI's.
    #[cfg(any(feature = "grok", feature = "native"))]
    Grok,
}

/// How servers are reached, by the settings of either sort of backend.
#[derive(Clone, Copy, Default)]
#[cfg_attr(not(feature = "login"), allow(dead_code, reason = "nobody is asked"))]
pub(crate) struct Reach<'s> {
    pub(crate) inherit_proxy: bool,
    pub(crate) proxy: Option<&'s str>,
    pub(crate) ca_file: Option<&'s Path>,
}

impl OwnLogin {
    /// What lends it; `None` where this build makes no logins. It need not be there yet. Its issuer is reached as
    /// the backend's own server is.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for how the issuer is reached.
    #[cfg(feature = "login")]
    pub(crate) fn source(
        self,
        context: &BuildContext,
        reach: Reach<'_>,
    ) -> Result<Option<Arc<dyn CredentialSource>>, SettingsError> {
        let name = match self {
            #[cfg(any(feature = "codex", feature = "native"))]
            Self::Codex => LoginName::Codex,
            #[cfg(any(feature = "grok", feature = "native"))]
            Self::Grok => LoginName::Grok,
        };
        let mut network = Network::default().with_inherited_proxy(reach.inherit_proxy);
        network.proxy = reach.proxy.map(str::to_owned);
        network.ca_file = reach.ca_file.map(Path::to_owned);
        Ok(Some(Arc::new(logins::keeper(name, context, &network)?)))
    }

    /// This build makes no logins.
    #[cfg(not(feature = "login"))]
    #[allow(clippy::unnecessary_wraps, reason = "as in builds that do")]
    pub(crate) fn source(
        self,
        _context: &BuildContext,
        _reach: Reach<'_>,
    ) -> Result<Option<Arc<dyn CredentialSource>>, SettingsError> {
        Ok(None)
    }

    /// What to do where there is nothing to lend.
    pub(crate) fn remedy(self) -> &'static str {
        match (self, cfg!(feature = "login")) {
            #[cfg(any(feature = "codex", feature = "native"))]
            (Self::Codex, true) => "run `nexus login codex`, or name a token and its account as `credential`",
            #[cfg(any(feature = "codex", feature = "native"))]
            (Self::Codex, false) => "name a token and its account as `credential`",
            #[cfg(any(feature = "grok", feature = "native"))]
            (Self::Grok, true) => "run `nexus login grok`, or name a token as `credential`",
            #[cfg(any(feature = "grok", feature = "native"))]
            (Self::Grok, false) => "name a token as `credential`",
        }
    }
}

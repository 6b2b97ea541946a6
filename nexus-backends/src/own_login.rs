//! The login of our own that a backend is lent from where its settings name no credential.

use std::{path::Path, sync::Arc};

use nexus_core::{BuildContext, CredentialSource, SettingsError};

#[cfg(feature = "login")]
use crate::http::{Network, is_loopback};
#[cfg(feature = "login")]
use crate::logins::{self, LoginName};

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

/// How servers are reached, and which, by the settings of either sort of backend.
#[derive(Clone, Copy, Default)]
#[cfg_attr(not(feature = "login"), allow(dead_code, reason = "nobody is asked"))]
pub(crate) struct Reach<'s> {
    pub(crate) inherit_proxy: bool,
    pub(crate) proxy: Option<&'s str>,
    pub(crate) ca_file: Option<&'s Path>,
    /// The server that the token goes to, where the settings name one.
    pub(crate) base_url: Option<&'s str>,
}

impl OwnLogin {
    /// What lends it; `None` where this build makes no logins. It need not be there yet. Its issuer is reached as
    /// the backend's own server is.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for how the issuer is reached, and for a `base_url` that is neither the vendor's nor this
    /// machine: a line of configuration must not be enough to send a login somewhere else.
    #[cfg(feature = "login")]
    pub(crate) fn source(
        self,
        context: &BuildContext,
        reach: Reach<'_>,
    ) -> Result<Option<Arc<dyn CredentialSource>>, SettingsError> {
        if reach.base_url.is_some_and(|url| !self.may_be_sent_to(url)) {
            let reason = "needs a `credential` beside it: the login that `nexus login` makes is sent to its vendor \
                          and to this machine alone";
            return Err(SettingsError::new("base_url", reason));
        }
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

    /// Whether a server may be sent the token: the vendor's own, by TLS, or one on this machine.
    #[cfg(feature = "login")]
    fn may_be_sent_to(self, url: &str) -> bool {
        let vendor = match self {
            #[cfg(any(feature = "codex", feature = "native"))]
            Self::Codex => "chatgpt.com",
            #[cfg(any(feature = "grok", feature = "native"))]
            Self::Grok => "cli-chat-proxy.grok.com",
        };
        reqwest::Url::parse(url)
            .is_ok_and(|url| is_loopback(&url) || (url.scheme() == "https" && url.host_str() == Some(vendor)))
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

#[cfg(all(test, feature = "login", any(feature = "codex", feature = "native")))]
mod tests {
    use super::*;

    #[test]
    fn a_login_goes_to_its_vendor_and_to_this_machine_alone() {
        for good in ["https://chatgpt.com/backend-api/codex", "http://127.0.0.1:9/v1", "http://localhost:9"] {
            assert!(OwnLogin::Codex.may_be_sent_to(good), "{good}");
        }
        for bad in [
            "http://chatgpt.com/backend-api/codex",
            "https://chatgpt.com.gateway.test/v1",
            "https://chatgpt.com@gateway.test/v1",
            "https://gateway.test/chatgpt.com",
            "https://127.0.0.1.gateway.test",
            "chatgpt.com",
        ] {
            assert!(!OwnLogin::Codex.may_be_sent_to(bad), "{bad}");
        }
        let context = BuildContext::new("/home", "/base");
        let reach = Reach { base_url: Some("https://gateway.test"), ..Reach::default() };
        let error = OwnLogin::Codex.source(&context, reach).unwrap_err();
        assert_eq!(error.path, ["base_url"]);
    }
}

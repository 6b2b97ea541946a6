//! A login that Nexus owns, and the rule by which a backend borrows it.

use std::{fmt, path::Path, sync::Arc};

use nexus_auth::{
    CredentialManager, Issuer, OAuthSignIn, SignInMethod,
    http::{Network, is_loopback},
};
use nexus_core::{BuildContext, CredentialSource, SettingsError};

/// Login that Nexus creates and owns, as data of its vendor's folder.
#[derive(Clone, Copy, Debug)]
pub struct OwnLogin {
    pub(crate) word: &'static str,
    pub(crate) file_name: &'static str,
    pub(crate) plan: &'static str,
    pub(crate) host: &'static str,
    pub(crate) remedy: &'static str,
    pub(crate) used_by: &'static str,
    pub(crate) method: SignInMethod,
    pub(crate) issuer: fn() -> Issuer,
}

impl OwnLogin {
    /// Returns the name of the login on the command line.
    pub fn as_str(self) -> &'static str {
        self.word
    }

    /// Returns the name of its file below `$NEXUS_HOME/auth`, without the extension.
    pub fn file_name(self) -> &'static str {
        self.file_name
    }

    /// Returns the plan of the login, for help texts.
    pub fn plan(self) -> &'static str {
        self.plan
    }

    /// Returns the advice for a missing login.
    pub fn remedy(self) -> &'static str {
        self.remedy
    }

    /// Returns the backends that borrow the login, for help texts.
    pub fn used_by(self) -> &'static str {
        self.used_by
    }

    /// Returns the vendor's issuer.
    pub fn issuer(self) -> Issuer {
        (self.issuer)()
    }

    /// Returns the strategy that creates, refreshes and revokes the login. A caller may change it before a manager gets
    /// it.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for a fault in `network`.
    pub fn sign_in(self, context: &BuildContext, network: &Network) -> Result<OAuthSignIn, SettingsError> {
        let remedy = format!("run `nexus login {self}`");
        let sign_in = OAuthSignIn::new(self.file_name, remedy, self.issuer(), context, network)?;
        Ok(sign_in.with_method(self.method))
    }

    /// Returns the manager of the login below `context.home`, which refreshes the login at its issuer.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for a fault in `network`.
    pub fn manager(
        self,
        context: &BuildContext,
        network: &Network,
    ) -> Result<CredentialManager, SettingsError> {
        Ok(CredentialManager::at_home(Arc::new(self.sign_in(context, network)?), &context.home))
    }

    /// Returns the source for a backend whose settings name no credential. If several machines share the login, it is
    /// the login's owner. The login need not exist yet. Requests to its issuer use the same proxy settings as requests
    /// to the backend's own server.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for the network settings of the issuer. Also for a `base_url` that is neither the vendor's nor
    /// on this machine, because one line of configuration must not be enough to send a login elsewhere.
    pub(crate) fn source(
        self,
        context: &BuildContext,
        reach: ServerAccess<'_>,
    ) -> Result<Arc<dyn CredentialSource>, SettingsError> {
        if reach.base_url.is_some_and(|url| !self.may_be_sent_to(url)) {
            let reason = "needs a `credential` beside it: a login of `nexus login` is sent only to its \
                          vendor and to this machine";
            return Err(SettingsError::new("base_url", reason));
        }
        // Follows the check above, which also protects a shared login.
        if let Some(shared) = context.shared_logins.get(self.word) {
            return Ok(Arc::clone(shared));
        }
        let mut network = Network::default().with_inherited_proxy(reach.inherit_proxy);
        network.proxy = reach.proxy.map(str::to_owned);
        network.ca_file = reach.ca_file.map(Path::to_owned);
        Ok(Arc::new(self.manager(context, &network)?))
    }

    /// Returns true if a server may receive the token: the vendor's own over TLS, or one on this machine.
    fn may_be_sent_to(self, url: &str) -> bool {
        url::Url::parse(url).is_ok_and(|url| {
            // Only on this machine can a token pass without TLS.
            is_loopback(&url) || (url.scheme() == "https" && url.host_str() == Some(self.host))
        })
    }
}

impl PartialEq for OwnLogin {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for OwnLogin {}

impl fmt::Display for OwnLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

/// Settings that determine the reached servers, and the connection to them.
#[derive(Clone, Copy, Default)]
pub(crate) struct ServerAccess<'s> {
    pub(crate) inherit_proxy: bool,
    pub(crate) proxy: Option<&'s str>,
    pub(crate) ca_file: Option<&'s Path>,
    /// Server that receives the token, if the settings name one.
    pub(crate) base_url: Option<&'s str>,
}

/// Error for an unknown name of a login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown login `{word}`: write `{}`", .known.join("` or `"))]
pub struct UnknownLogin {
    word: String,
    known: Vec<&'static str>,
}

impl UnknownLogin {
    pub(crate) fn new(word: &str, known: Vec<&'static str>) -> Self {
        Self { word: word.to_owned(), known }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nexus_auth::SignIn as _;
    use nexus_core::SharedLogins;

    use super::*;

    const LOGIN: OwnLogin = OwnLogin {
        word: "vendor",
        file_name: "vendor-plan",
        plan: "A plan",
        host: "vendor.test",
        remedy: "run `nexus login vendor`",
        used_by: "vendor-cli",
        method: SignInMethod::DeviceCode,
        issuer: || Issuer::new("https://auth.vendor.test", "client").with_token_endpoint("/token"),
    };

    #[test]
    fn a_login_has_a_word_and_a_file() {
        let sign_in = LOGIN
            .sign_in(&BuildContext::in_home("/home").with_base_directory("/base"), &Network::default())
            .unwrap();
        assert_eq!(sign_in.name(), "vendor-plan");
        assert_eq!(sign_in.remedy(), "run `nexus login vendor`");
    }

    #[test]
    fn a_login_goes_to_its_vendor_and_to_this_machine_alone() {
        for good in ["https://vendor.test/backend", "http://127.0.0.1:9/v1", "http://localhost:9"] {
            assert!(LOGIN.may_be_sent_to(good), "{good}");
        }
        for bad in [
            "http://vendor.test/backend",
            "https://vendor.test.gateway.test/v1",
            "https://vendor.test@gateway.test/v1",
            "https://gateway.test/vendor.test",
            "https://127.0.0.1.gateway.test",
            "vendor.test",
        ] {
            assert!(!LOGIN.may_be_sent_to(bad), "{bad}");
        }
        let context = BuildContext::in_home("/home").with_base_directory("/base");
        let reach = ServerAccess { base_url: Some("https://gateway.test"), ..ServerAccess::default() };
        let error = LOGIN.source(&context, reach).unwrap_err();
        assert_eq!(error.path, ["base_url"]);
    }

    #[test]
    fn a_shared_login_takes_the_place_of_the_own_one_and_goes_nowhere_else() {
        let shared = |word: &str| -> SharedLogins {
            let source = nexus_auth::StaticToken::from_environment("ABSENT", &BTreeMap::new());
            BTreeMap::from([(word.to_owned(), Arc::new(source) as Arc<dyn CredentialSource>)])
        };
        let context = || BuildContext::in_home("/home").with_base_directory("/base");
        let told =
            |context: &BuildContext| LOGIN.source(context, ServerAccess::default()).unwrap().describe();
        let own = told(&context());
        let with = context().with_shared_logins(shared("vendor"));
        assert_ne!(told(&with), own);
        assert_eq!(told(&context().with_shared_logins(shared("another"))), own);
        let reach = ServerAccess { base_url: Some("https://gateway.test"), ..ServerAccess::default() };
        assert_eq!(LOGIN.source(&with, reach).unwrap_err().path, ["base_url"]);
    }
}

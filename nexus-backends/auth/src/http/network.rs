//! Network settings.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Deserialize;

/// Network settings. The default is a direct connection, with the authorities of the platform.
#[non_exhaustive]
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Use the host's proxy variables.
    pub inherit_proxy: bool,
    /// URL of the proxy for every request. It takes precedence over the host's variables.
    pub proxy: Option<String>,
    /// File of certificate authorities, in PEM, to trust as well. A relative path is relative to the folder of the
    /// configuration.
    pub ca_file: Option<PathBuf>,
}

impl Network {
    /// Sets if the host's proxy variables are used.
    #[must_use]
    pub fn with_inherited_proxy(mut self, inherit_proxy: bool) -> Self {
        self.inherit_proxy = inherit_proxy;
        self
    }

    /// Sets the URL of the proxy for every request.
    #[must_use]
    pub fn with_proxy(mut self, proxy: impl Into<String>) -> Self {
        self.proxy = Some(proxy.into());
        self
    }

    /// Sets a PEM file of additional certificate authorities to trust.
    #[must_use]
    pub fn with_ca_file(mut self, ca_file: impl AsRef<Path>) -> Self {
        self.ca_file = Some(ca_file.as_ref().to_owned());
        self
    }
}

/// Hides the proxy's URL, which may contain a password.
impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("inherit_proxy", &self.inherit_proxy)
            .field("proxy", &self.proxy.as_ref().map(|_| "[redacted]"))
            .field("ca_file", &self.ca_file)
            .finish()
    }
}

//! A vendor as data: the contents of its folder, for the list of all vendors.

use std::sync::Arc;

use nexus_core::{BackendKind, detection::Detector};

#[cfg(feature = "acp")]
use crate::acp::agent::KnownAgent;
#[cfg(feature = "login")]
use crate::own_login::OwnLogin;

/// A vendor of this build.
#[derive(Clone, Copy, Debug)]
pub struct Vendor {
    name: &'static str,
    kinds: &'static [fn() -> Arc<dyn BackendKind>],
    #[cfg(feature = "login")]
    logins: &'static [OwnLogin],
    program_login: Option<&'static str>,
    detector: Option<Detector>,
    #[cfg(feature = "acp")]
    agents: &'static [KnownAgent],
}

impl Vendor {
    /// Creates a vendor with these backend kinds.
    pub(crate) const fn new(name: &'static str, kinds: &'static [fn() -> Arc<dyn BackendKind>]) -> Self {
        Self {
            name,
            kinds,
            #[cfg(feature = "login")]
            logins: &[],
            program_login: None,
            detector: None,
            #[cfg(feature = "acp")]
            agents: &[],
        }
    }

    /// Adds the vendor's agents of the Agent Client Protocol.
    #[cfg(feature = "acp")]
    pub(crate) const fn with_agents(mut self, agents: &'static [KnownAgent]) -> Self {
        self.agents = agents;
        self
    }

    /// Adds the logins that Nexus creates and owns at this vendor.
    #[cfg(feature = "login")]
    pub(crate) const fn with_logins(mut self, logins: &'static [OwnLogin]) -> Self {
        self.logins = logins;
        self
    }

    /// Sets the detector of the vendor's backends.
    pub(crate) const fn with_detector(mut self, detector: Detector) -> Self {
        self.detector = Some(detector);
        self
    }

    /// Sets the command of a program that stores its own login. `login`, `logout` or `status` follows `command`.
    pub(crate) const fn with_program_login(mut self, command: &'static str) -> Self {
        self.program_login = Some(command);
        self
    }

    /// Returns the name of the vendor, also used on a command line.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the backend kinds of the vendor.
    pub fn kinds(&self) -> impl Iterator<Item = Arc<dyn BackendKind>> {
        self.kinds.iter().map(|kind| kind())
    }

    /// Returns the detector of the vendor's backends.
    pub(crate) fn detector(&self) -> Option<Detector> {
        self.detector
    }

    /// Returns the vendor's agents of the Agent Client Protocol.
    #[cfg(feature = "acp")]
    pub(crate) fn agents(&self) -> &'static [KnownAgent] {
        self.agents
    }

    /// Returns the vendor's logins that Nexus creates and owns.
    #[cfg(feature = "login")]
    pub fn logins(&self) -> &'static [OwnLogin] {
        self.logins
    }

    /// Returns the command that manages the login of the vendor's program, if Nexus never opens that login: `login`,
    /// `logout` or `status` follows it.
    pub fn program_login(&self) -> Option<&'static str> {
        self.program_login
    }
}

/// Declares a backend kind with a fixed vendor: the type, its name, the vendor, the JSON Schema of its settings, and
/// the function that builds a backend.
#[cfg_attr(not(feature = "every-vendor"), allow(unused_macros, reason = "each vendor uses its part of it"))]
macro_rules! backend_kind {
    ($(#[$doc:meta])* $kind:ident = $name:literal of $vendor:literal, settings $schema:expr, built by $build:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $kind;

        impl nexus_core::BackendKind for $kind {
            fn name(&self) -> &str {
                $name
            }

            fn vendor(
                &self,
                _: &serde_json::Map<String, serde_json::Value>,
                _: &nexus_core::BuildContext,
            ) -> nexus_core::VendorId {
                $vendor.into()
            }

            fn settings_schema(&self) -> serde_json::Value {
                $schema
            }

            fn build(
                &self,
                id: nexus_core::BackendId,
                settings: &serde_json::Map<String, serde_json::Value>,
                context: &nexus_core::BuildContext,
            ) -> Result<std::sync::Arc<dyn nexus_core::ExecutionBackend>, nexus_core::SettingsError> {
                $build(id, settings, context)
            }
        }
    };
}
#[cfg_attr(
    not(feature = "every-vendor"),
    allow(unused_imports, reason = "each vendor uses its part of it")
)]
pub(crate) use backend_kind;

/// Creates a backend kind.
pub(crate) fn kind<K: BackendKind + Default + 'static>() -> Arc<dyn BackendKind> {
    Arc::new(K::default())
}

//! Implementation of [`ExecutionBackend`] for any [`Cli`].

use std::{io, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, BuildContext, Capabilities, CostReport, Enforcement, EventSink,
    ExecutionBackend, ForgetError, ForgetSupport, Forgotten, ModelListError, ModelListing, ResumeHandle,
    ServerAddress, SettingsError, TurnError, TurnHost, TurnRequest, TurnResult,
    harness::{TurnSpan, admit, run_blocking},
};
use serde_json::{Map, Value};

use super::contract::Cli;
use super::settings::Settings;
use super::sweep::sweep;
use super::turn::{DriverSettings, TurnRunner};
use crate::server_address::server_address;
use nexus_process::containment::{ContainmentPolicy, strongest};

/// One CLI as an [`ExecutionBackend`]: the parts that all vendors' CLIs share.
///
/// A turn uses one process, or several if the answer must be requested again. The backend enforces time limits, counted
/// limits and cancellation. It stops the whole process tree, validates structured output, and serves the caller's
/// tools.
#[derive(Debug)]
pub struct CliBackend<C> {
    id: BackendId,
    cli: C,
    driver: DriverSettings,
    /// Server of the CLI's model, if the settings name one.
    server: Option<ServerAddress>,
    swept: std::sync::Once,
}

impl<C: Cli> CliBackend<C> {
    /// Creates a backend that runs turns with `cli`. Private homes and the run registry are below `nexus_home`.
    pub fn new(id: BackendId, cli: C, nexus_home: impl Into<PathBuf>) -> Self {
        let driver = DriverSettings {
            nexus_home: nexus_home.into(),
            capture: None,
            max_line_bytes: None,
            containment: ContainmentPolicy::default(),
            prices: Arc::default(),
        };
        Self { id, cli, driver, server: None, swept: std::sync::Once::new() }
    }

    /// Stores the redacted raw output of each process in its own folder below `folder`, for bug reports.
    #[must_use]
    pub fn with_capture(mut self, folder: impl Into<PathBuf>) -> Self {
        self.driver.capture = Some(folder.into());
        self
    }

    /// Sets the maximum length of a complete line, in bytes. Default: 64 MiB. A longer line becomes a truncated
    /// [`Unrecognized`](nexus_core::turn::Unrecognized) event.
    #[must_use]
    pub fn with_max_line_bytes(mut self, bytes: usize) -> Self {
        self.driver.max_line_bytes = Some(bytes);
        self
    }

    /// Sets the required containment of the processes. Default: the strongest that this machine allows.
    #[must_use]
    pub fn with_containment(mut self, policy: ContainmentPolicy) -> Self {
        self.driver.containment = policy;
        self
    }

    /// Builds a backend from the settings that all CLIs of this crate share. `cli` creates the vendor's part.
    pub(crate) fn build(
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
        cli: impl FnOnce(&Settings, &BuildContext) -> Result<C, SettingsError>,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let settings = Settings::read(settings, context)?;
        let mut backend = Self::new(id, cli(&settings, context)?, &context.home);
        backend.server = settings.base_url.as_deref().and_then(server_address);
        backend.driver.capture = settings.record;
        backend.driver.max_line_bytes = settings.max_line_bytes;
        backend.driver.containment = settings.containment;
        backend.driver.prices = Arc::new(settings.prices);
        Ok(Arc::new(backend))
    }

    /// Returns the program's capabilities, with the cost that prices give. Prices enforce a limit on cost if the program
    /// reports its tokens during the turn, which a limit on output tokens needs too.
    fn priced_capabilities(&self) -> Capabilities {
        let mut capabilities = self.cli.capabilities();
        if capabilities.cost == CostReport::Never && !self.driver.prices.is_empty() {
            capabilities.cost = CostReport::Estimated;
            if capabilities.limits.output_tokens == Enforcement::Ours {
                capabilities.limits = capabilities.limits.with_cost(Enforcement::Ours);
            }
        }
        capabilities
    }

    /// Returns the CLI.
    #[cfg(test)]
    pub(super) fn cli(&self) -> &C {
        &self.cli
    }

    /// Ends processes that killed programs left behind, and removes their files. Runs once per backend, at its first probe or turn.
    fn sweep(&self) {
        self.swept.call_once(|| sweep(&self.driver.nexus_home));
    }
}

#[async_trait]
impl<C: Cli> ExecutionBackend for CliBackend<C> {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.priced_capabilities();
        // Some access levels let the agent keep its privileges, so report the containment of that case (`true`).
        capabilities.server.clone_from(&self.server);
        capabilities.containment = strongest(self.driver.containment, true).ok();
        capabilities
    }

    async fn probe(&self) -> Availability {
        self.sweep();
        match strongest(self.driver.containment, true) {
            Ok(_) => self.cli.probe().await,
            Err(refused) => Availability::Unusable { reason: refused.to_string() },
        }
    }

    async fn models(&self) -> Result<ModelListing, ModelListError> {
        let advice = self.cli.models_advice().to_owned();
        Err(ModelListError::Unsupported { backend: self.id.clone(), advice: Some(advice) })
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let capabilities = self.priced_capabilities();
        let steered = host.steered(capabilities.steering);
        let span = TurnSpan::new(&self.id, &capabilities, &request);
        let turn = async {
            // Within the span, so that a rejected turn has one too.
            admit(&self.id, &capabilities, &request, &host)
                .map_err(|failure| failure.into_error(self.id.clone()))?;
            self.sweep();
            let request = Arc::new(request);
            TurnRunner::new(&self.id, &self.cli, &self.driver, request, host, steered, &span)
                .run(events)
                .await
        };
        span.run(turn).await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        let backend = self.id.clone();
        if self.cli.capabilities().forget == ForgetSupport::Unsupported {
            return Err(ForgetError::Unsupported { backend });
        }
        ForgetError::unless_of(&backend, handle)?;
        let nexus_home = self.driver.nexus_home.clone();
        let Some(kept) = self.cli.kept(&nexus_home, handle) else {
            return Err(ForgetError::InvalidHandle { backend });
        };
        let failed = ForgetError::Failed {
            backend: backend.clone(),
            place: nexus_home.clone(),
            source: Arc::new(io::Error::other("the work ended without a result")),
        };
        run_blocking(move || kept.forget(&nexus_home, &backend)).await.unwrap_or(Err(failed))
    }
}

//! The seam over any [`Cli`].

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, BuildContext, Capabilities, EventSink, ExecutionBackend, TurnError, TurnHost,
    TurnRequest, TurnResult,
    harness::{admit, turn_span},
};
use tracing::Instrument as _;

use super::adapter::Cli;
use super::settings::Settings;
use super::turn::Turn;
use nexus_process::run_registry;

/// One CLI as an [`ExecutionBackend`].
#[derive(Debug)]
pub(crate) struct DelegatedBackend<C> {
    pub(crate) id: BackendId,
    pub(crate) cli: C,
    pub(crate) nexus_home: PathBuf,
    pub(crate) record: Option<PathBuf>,
    pub(crate) max_line_bytes: Option<usize>,
    swept: tokio::sync::OnceCell<()>,
}

impl<C: Cli> DelegatedBackend<C> {
    /// Runs turns with `cli`.
    pub(crate) fn new(id: BackendId, cli: C, settings: &Settings, context: &BuildContext) -> Self {
        Self {
            id,
            cli,
            nexus_home: context.home.clone(),
            record: settings.record.clone(),
            max_line_bytes: settings.max_line_bytes,
            swept: tokio::sync::OnceCell::new(),
        }
    }

    /// Ends what an earlier host left behind when it died. Once per backend.
    async fn sweep(&self) {
        let sweep = || async {
            let home = self.nexus_home.clone();
            if let Ok(swept) = tokio::task::spawn_blocking(move || run_registry::sweep(&home)).await {
                tracing::debug!(?swept, "swept what dead hosts left behind");
            }
        };
        self.swept.get_or_init(sweep).await;
    }
}

#[async_trait]
impl<C: Cli> ExecutionBackend for DelegatedBackend<C> {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        self.cli.capabilities()
    }

    async fn probe(&self) -> Availability {
        self.cli.probe().await
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let span = turn_span(&self.id, &request);
        async {
            admit(&self.id, &self.cli.capabilities(), &request, &host)
                .map_err(|failure| failure.into_error(self.id.clone()))?;
            self.sweep().await;
            let session = host.open_turn(&request);
            Turn::new(self, Arc::new(request), host.cancel, session).run(events).await
        }
        .instrument(span)
        .await
    }
}

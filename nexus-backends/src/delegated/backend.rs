//! The seam over any [`Cli`].

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, BuildContext, Capabilities, ErrorKind, EventSink, ExecutionBackend, TurnError,
    TurnHost, TurnRequest, TurnResult,
};
use tracing::Instrument as _;

use super::{
    conversation::{Cli, Failure},
    ledger,
    settings::Settings,
    turn::Turn,
};

/// One CLI as an [`ExecutionBackend`].
#[derive(Debug)]
pub(crate) struct DelegatedBackend<C> {
    pub(super) id: BackendId,
    pub(super) cli: C,
    pub(super) nexus_home: PathBuf,
    pub(super) record: Option<PathBuf>,
    pub(super) max_line_bytes: Option<usize>,
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

    /// Refuses what cannot be run, before anything is spent.
    fn check(&self, request: &TurnRequest, host: &TurnHost) -> Result<(), Failure> {
        if host.cancel.is_cancelled() {
            return Err(Failure::new(ErrorKind::Cancelled, "before it began"));
        }
        let offers_tools = !host.tools.definitions().is_empty();
        if let Some(unmet) = self.cli.capabilities().unmet(request, offers_tools) {
            return Err(Failure::new(ErrorKind::Unsupported, unmet));
        }
        if request.is_empty() {
            return Err(Failure::new(ErrorKind::InvalidRequest, "the prompt is empty"));
        }
        if let Some(handle) = request.session.handle()
            && *handle.backend() != self.id
        {
            let reason = format!("the conversation to resume belongs to {}", handle.backend());
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        if let Some(directory) = &request.working_directory {
            check_directory(directory, "working directory")?;
        }
        request.extra_roots.iter().try_for_each(|root| check_directory(root, "extra root"))
    }

    /// Ends what an earlier host left behind when it died. Once per backend.
    async fn sweep(&self) {
        let sweep = || async {
            let home = self.nexus_home.clone();
            if let Ok(swept) = tokio::task::spawn_blocking(move || ledger::sweep(&home)).await {
                tracing::debug!(?swept, "swept what dead hosts left behind");
            }
        };
        self.swept.get_or_init(sweep).await;
    }
}

fn check_directory(directory: &Path, what: &str) -> Result<(), Failure> {
    let problem = match std::fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => "is not a folder".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::new(ErrorKind::InvalidRequest, format!("the {what} {} {problem}", directory.display())))
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
        let span = tracing::info_span!(
            "turn",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = %self.id,
            gen_ai.request.model = request.model.as_ref().map(tracing::field::display),
            gen_ai.response.model = tracing::field::Empty,
            gen_ai.usage.input_tokens = tracing::field::Empty,
            gen_ai.usage.output_tokens = tracing::field::Empty,
            error.type = tracing::field::Empty,
        );
        async {
            self.check(&request, &host).map_err(|failure| failure.into_error(self.id.clone()))?;
            self.sweep().await;
            Turn::new(self, Arc::new(request), host.cancel).run(events).await
        }
        .instrument(span)
        .await
    }
}

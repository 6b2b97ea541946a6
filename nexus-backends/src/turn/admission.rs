//! What is refused before anything is spent.

use std::path::Path;

use nexus_core::{BackendId, Capabilities, ErrorKind, TurnHost, TurnRequest};

use super::Failure;

/// Refuses what a backend `id` with these capabilities cannot run.
pub(crate) fn admit(
    id: &BackendId,
    capabilities: &Capabilities,
    request: &TurnRequest,
    host: &TurnHost,
) -> Result<(), Failure> {
    if host.cancel.is_cancelled() {
        return Err(Failure::new(ErrorKind::Cancelled, "before it began"));
    }
    let offers_tools = !host.session().definitions().is_empty();
    if let Some(unmet) = capabilities.unmet(request, offers_tools) {
        return Err(Failure::new(ErrorKind::Unsupported, unmet));
    }
    if request.is_empty() {
        return Err(Failure::new(ErrorKind::InvalidRequest, "the prompt is empty"));
    }
    if let Some(handle) = request.session.handle()
        && handle.backend() != id
    {
        let reason = format!("the conversation to resume belongs to {}", handle.backend());
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    }
    if let Some(directory) = &request.working_directory {
        check_directory(directory, "working directory")?;
    }
    request.extra_roots.iter().try_for_each(|root| check_directory(root, "extra root"))
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

/// The span that a turn runs in, by the OpenTelemetry names for generative AI.
pub(crate) fn turn_span(id: &BackendId, request: &TurnRequest) -> tracing::Span {
    tracing::info_span!(
        "turn",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = %id,
        gen_ai.request.model = request.model.as_ref().map(tracing::field::display),
        gen_ai.response.model = tracing::field::Empty,
        gen_ai.usage.input_tokens = tracing::field::Empty,
        gen_ai.usage.output_tokens = tracing::field::Empty,
        error.type = tracing::field::Empty,
    )
}

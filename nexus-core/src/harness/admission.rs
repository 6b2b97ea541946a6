//! Refuses requests that a backend cannot run, before anything is spent.

use std::path::Path;

use crate::{BackendId, Capabilities, ErrorKind, TurnHost, TurnRequest};

use super::Failure;

/// Refuses what the backend `id` with these capabilities cannot run. It looks at the file system, and spends nothing.
///
/// # Errors
///
/// The first of these that holds:
///
/// - [`ErrorKind::Cancelled`]: the turn was cancelled before it began.
/// - [`ErrorKind::Unsupported`]: the request, or the tools of the host, need what the capabilities do not offer.
/// - [`ErrorKind::InvalidRequest`]: the prompt is empty, the conversation to resume belongs to another backend, or the
///   working directory or an extra root is no folder.
pub fn admit(
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

/// The span that a turn runs in, named `turn`, at level `INFO`, with the OpenTelemetry attributes for generative AI. Usage,
/// model and error are added to the current span by [`TurnLog::into_result`](super::TurnLog::into_result) and
/// [`TurnLog::into_error`](super::TurnLog::into_error), so that a turn ends inside its span.
pub fn turn_span(id: &BackendId, request: &TurnRequest) -> tracing::Span {
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

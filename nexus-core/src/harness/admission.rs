//! Rejects requests that a backend cannot run, before any cost arises.

use std::path::Path;

use crate::{BackendId, Capabilities, ErrorKind, TurnHost, TurnRequest};

use super::{Failure, is_submitted};

/// Rejects a turn that the backend `id` with these capabilities cannot run. Reads the file system, and causes
/// no cost.
///
/// # Errors
///
/// The first of these that applies:
///
/// - [`ErrorKind::Cancelled`]: the turn was cancelled before it began.
/// - [`ErrorKind::Unsupported`]: the request, or the tools of the host, need more than the capabilities offer.
/// - [`ErrorKind::InvalidRequest`]: the prompt is empty, the conversation to resume belongs to another backend,
///   or the working directory or an extra root is not a folder. Also if the host's session already has a
///   submitted answer and the request has no output schema. The session would then deny every call, and the
///   turn could not end with an answer of its own.
pub fn admit(
    id: &BackendId,
    capabilities: &Capabilities,
    request: &TurnRequest,
    host: &TurnHost,
) -> Result<(), Failure> {
    if host.cancel.is_cancelled() {
        return Err(Failure::new(ErrorKind::Cancelled, "before it began"));
    }
    if let Some(unmet) = capabilities.unmet(request, host.session().definitions()).first() {
        return Err(Failure::new(ErrorKind::Unsupported, unmet.to_string()));
    }
    if request.is_empty() {
        return Err(Failure::new(ErrorKind::InvalidRequest, "the prompt is empty"));
    }
    if let Some(handle) = request.conversation.handle()
        && handle.backend() != id
    {
        let reason = format!("the conversation to resume belongs to {}", handle.backend());
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    }
    // A host may run several turns with one session. A submission closes that session for the later turns.
    if is_submitted(host.session(), request) {
        let reason = "the session of its tools has ended, because an answer was already submitted in it: \
                      give each turn with a terminal tool its own session";
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    }
    // Check the folders last, because only these checks read the disk.
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

//! The folders that a client works in.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value;
use tokio::sync::{Mutex, mpsc, oneshot};

/// Maximum number of roots that are accepted from a client. Source: our own bound.
const MAX_ROOTS: usize = 256;

/// Folders that a client works in, as it reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientRoots {
    /// The client's folders, each as an absolute path. The list may be empty.
    Named(Vec<PathBuf>),
    /// The client does not support roots.
    NotOffered,
    /// The client supports roots but did not answer in time, or answered with an error.
    NoAnswer,
}

impl ClientRoots {
    /// Reads a result of `roots/list`. Leaves out roots that are not folders of this machine.
    pub(crate) fn read(result: &Value) -> Self {
        let Some(roots) = result.get("roots").and_then(Value::as_array) else { return Self::NoAnswer };
        let path = |root: &Value| file_path(root.get("uri")?.as_str()?);
        Self::Named(roots.iter().take(MAX_ROOTS).filter_map(path).collect())
    }
}

/// Returns the path of a file URL.
#[cfg(feature = "service")]
fn file_path(url: &str) -> Option<PathBuf> {
    let url = url::Url::parse(url).ok()?;
    if url.scheme() == "file" { url.to_file_path().ok() } else { None }
}

/// Returns no path: without the feature `service` only a session's tools are served, and those need no roots.
#[cfg(not(feature = "service"))]
fn file_path(_: &str) -> Option<PathBuf> {
    None
}

/// A request for the roots: the sender for its answer.
pub(crate) type RootsQuestion = oneshot::Sender<ClientRoots>;

/// Source of a client's roots for a call.
#[derive(Clone, Debug)]
pub(crate) enum RootsSource {
    /// The call has no client, or its client has no roots.
    None,
    /// The call contained the roots.
    Known(ClientRoots),
    /// The transport requests them from the client. The answer is stored for this call.
    Asked(mpsc::Sender<RootsQuestion>, Arc<Mutex<Option<ClientRoots>>>),
}

impl RootsSource {
    pub(crate) fn asked(questions: mpsc::Sender<RootsQuestion>) -> Self {
        Self::Asked(questions, Arc::default())
    }

    pub(crate) async fn ask(&self) -> ClientRoots {
        match self {
            Self::None => ClientRoots::NotOffered,
            Self::Known(roots) => roots.clone(),
            Self::Asked(questions, known) => {
                // Locked until the answer arrives, so that concurrent questions of a call cause one request.
                let mut known = known.lock().await;
                if let Some(roots) = &*known {
                    return roots.clone();
                }
                let (answer, answered) = oneshot::channel();
                let roots = match questions.send(answer).await {
                    Ok(()) => answered.await.unwrap_or(ClientRoots::NoAnswer),
                    Err(_nobody_asks) => ClientRoots::NoAnswer,
                };
                known.insert(roots).clone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_folders_of_this_machine_are_roots() {
        let listed = json!({ "roots": [
            { "uri": "file:///home/me/a%20b" },
            { "uri": "https://example.org/x" },
            { "uri": "file://elsewhere/share" },
            { "uri": 7 },
            "file:///bare",
        ] });
        assert_eq!(ClientRoots::read(&listed), ClientRoots::Named(vec!["/home/me/a b".into()]));
        assert_eq!(ClientRoots::read(&json!({ "roots": [] })), ClientRoots::Named(Vec::new()));
        assert_eq!(ClientRoots::read(&json!([])), ClientRoots::NoAnswer);
    }
}

//! Open requests of the server to its clients.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rmcp::model::RequestId;
use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

/// Open requests of the server to its clients. Their ids are random, so that no client can answer for
/// another.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<HashMap<String, oneshot::Sender<Option<Value>>>>);

/// One open request. Its drop removes it.
#[derive(Debug)]
pub(crate) struct Question<'q> {
    all: &'q Questions,
    pub(crate) id: String,
    answer: oneshot::Receiver<Option<Value>>,
}

impl Questions {
    /// Opens a request.
    pub(crate) fn begin(&self) -> Question<'_> {
        let id = format!("nexus-{}", Uuid::new_v4());
        let (answered, answer) = oneshot::channel();
        self.lock().insert(id.clone(), answered);
        Question { all: self, id, answer }
    }

    /// Delivers a client's answer. Ignores an answer to an unknown request.
    pub(crate) fn answered(&self, id: &RequestId, result: Option<Value>) {
        if let RequestId::String(id) = id
            && let Some(question) = self.lock().remove(&**id)
        {
            let _nobody_waits = question.send(result);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Option<Value>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question<'_> {
    /// Waits for the answer. Returns `None` for an error.
    pub(crate) async fn answer(&mut self) -> Option<Value> {
        (&mut self.answer).await.ok().flatten()
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

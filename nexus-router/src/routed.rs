//! A work-kind as a backend, so that any code for backends can use a router.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use nexus_core::{
    AccessSupport, Availability, BackendId, Capabilities, ConversationMode, EventSink, ExecutionBackend,
    ForgetError, Forgotten, LoopMode, ModelListError, ModelListing, ResumeHandle, ToolAccess, TurnError,
    TurnHost, TurnRequest, TurnResult, item::ItemList,
};
use serde::Deserialize as _;

use crate::{
    binding::Binding,
    config::{Configuration, EntryState, Target},
    router::Router,
    work_kind::{KindError, WorkKind},
};

/// One work-kind of a [`Router`] as a backend.
///
/// Its id is the type's name. Its capabilities are those of the first backend of the chain that was neither
/// parked nor missing when this value was created. They do not change, as the trait's contract demands. It
/// therefore declares no ability that only a later backend has. A turn skips a later backend that lacks a
/// needed ability. A [reload](Router::reload) changes the backends of its turns.
///
/// The backend that ran the turn stores the conversation. `RoutedBackend` wraps that backend's resume handle
/// in its own, and unwraps it when a turn resumes.
#[derive(Clone, Debug)]
pub struct RoutedBackend {
    router: Router,
    id: BackendId,
    capabilities: Capabilities,
}

impl Router {
    /// Returns one work-kind as a backend of its own, for any code that takes a backend.
    ///
    /// # Errors
    ///
    /// [`KindError`] if the work-kind does not exist, or is a panel.
    pub fn backend(&self, kind: impl Into<WorkKind>) -> Result<RoutedBackend, KindError> {
        let kind = kind.into();
        let configuration = self.configuration();
        let work_type = configuration.work_type(&kind)?;
        match &work_type.target {
            Target::Binding(binding) => {
                Ok(RoutedBackend::new(self.clone(), &work_type.name, binding, &configuration))
            }
            Target::Panel(panel) => Err(KindError::IsPanel { kind, panel: panel.clone() }),
        }
    }

    /// Returns the highest access level up to `wanted` that the backend of a work-kind can enforce. Returns `wanted` if there is none,
    /// so that the turn reports the reason.
    pub fn enforceable_access(&self, kind: impl Into<WorkKind>, wanted: ToolAccess) -> ToolAccess {
        let Ok(backend) = self.backend(kind) else { return wanted };
        let access = backend.capabilities().access;
        let mut levels = ToolAccess::ALL.into_iter().rev().filter(|level| *level <= wanted);
        levels.find(|level| access.of(*level) != AccessSupport::Unsupported).unwrap_or(wanted)
    }
}

impl RoutedBackend {
    fn new(router: Router, name: &str, binding: &Binding, configuration: &Configuration) -> Self {
        let entries = || configuration.chain(binding);
        let first = entries().find(|entry| entry.is_runnable());
        let first = first.or_else(|| entries().find(|entry| entry.backend().is_some()));
        let capabilities = first
            .and_then(|entry| entry.backend())
            .map_or_else(|| Capabilities::new(LoopMode::Delegated), |backend| backend.capabilities());
        Self { router, id: BackendId::new(name), capabilities }
    }

    fn wrap(&self, handle: Option<ResumeHandle>) -> Option<ResumeHandle> {
        let handle = handle?;
        // The items stay outside of the state, so that a long conversation is not copied.
        let items = handle.items().clone();
        let state = serde_json::to_value(handle.with_items(ItemList::default())).ok()?;
        Some(ResumeHandle::new(self.id.clone(), state).with_items(items))
    }

    /// Replaces the wrapped resume handle in the request by the handle of the backend that created it.
    fn unwrap(&self, mut request: TurnRequest) -> TurnRequest {
        if let ConversationMode::Resume { handle, .. } = &mut request.conversation
            && *handle.backend() == self.id
            && let Ok(inner) = ResumeHandle::deserialize(handle.state())
        {
            // A handle of an earlier version has its items inside.
            *handle = match handle.items().is_empty() {
                true => inner,
                false => inner.with_items(handle.items().clone()),
            };
        }
        request
    }

    /// Returns the first backend of the chain that is not parked.
    fn first_runnable(&self) -> Option<Arc<dyn ExecutionBackend>> {
        let configuration = self.router.configuration();
        let work_type = configuration.work_type(&self.id.as_str().into()).ok()?;
        let Target::Binding(binding) = &work_type.target else { return None };
        let entry = configuration.chain(binding).find(|entry| entry.is_runnable())?;
        entry.backend().cloned()
    }
}

#[async_trait]
impl ExecutionBackend for RoutedBackend {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    /// Probes the backends of the chain in order, until one could start a turn now.
    async fn probe(&self) -> Availability {
        let configuration = self.router.configuration();
        let Ok(work_type) = configuration.work_type(&self.id.as_str().into()) else {
            return Availability::Unusable {
                reason: format!("the configuration no longer has the work-kind {}", self.id),
            };
        };
        let Target::Binding(binding) = &work_type.target else {
            return Availability::Unusable { reason: format!("{} is now a panel", self.id) };
        };
        let mut reasons = Vec::new();
        for entry in configuration.chain(binding) {
            let reason = match (&entry.parked, &entry.state) {
                (Some(reason), _) => format!("parked: {reason}"),
                (None, EntryState::Absent(reason)) => reason.clone(),
                (None, EntryState::Built(backend)) => match backend.probe().await {
                    ready @ Availability::Ready { .. } => return ready,
                    Availability::NotInstalled { remedy, .. } | Availability::Unauthenticated { remedy } => {
                        remedy
                    }
                    Availability::Unusable { reason } => reason,
                    _ => "it cannot be used".to_owned(),
                },
            };
            reasons.push(format!("{}: {reason}", entry.id));
        }
        Availability::Unusable { reason: reasons.join("; ") }
    }

    /// Lists the models of the first backend of the chain that is not parked.
    async fn models(&self) -> Result<ModelListing, ModelListError> {
        match self.first_runnable() {
            Some(backend) => backend.models().await,
            None => Err(ModelListError::Unsupported { backend: self.id.clone(), advice: None }),
        }
    }

    /// Returns the files of the first backend of the chain that is not parked.
    fn project_instructions(&self, folder: &Path) -> Vec<PathBuf> {
        self.first_runnable().map(|backend| backend.project_instructions(folder)).unwrap_or_default()
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        ForgetError::unless_of(&self.id, handle)?;
        match serde_json::from_value(handle.state().clone()) {
            Ok(inner) => self.router.forget(&inner).await,
            Err(_) => Err(ForgetError::InvalidHandle { backend: self.id.clone() }),
        }
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let outcome = self.router.run_turn(self.id.as_str(), self.unwrap(request), host, events).await;
        match outcome {
            Ok(mut result) => {
                result.resume = self.wrap(result.resume.take());
                Ok(result)
            }
            Err(mut error) => {
                let resume = error.partial_mut().resume.take();
                error.partial_mut().resume = self.wrap(resume);
                Err(error)
            }
        }
    }
}

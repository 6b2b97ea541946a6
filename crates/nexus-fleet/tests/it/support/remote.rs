//! A kind of backend whose turns take the way over the fleet, to a worker of their own in this process.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, BackendKind, BuildContext, CancelToken, Capabilities, CredentialSource,
    EventSink, ExecutionBackend, ForgetError, Forgotten, Registry, ResumeHandle, SettingsError, ToolAccess,
    TurnError, TurnHost, TurnRequest, TurnResult, VendorId,
};
use nexus_fleet::{Fleet, FleetBackend, FleetSettings, Worker, WorkerSettings};
use nexus_router::{Router, RouterBuilder};
use nexus_testkit::conformance::MARK_VARIABLE;
use serde_json::{Map, Value, json};

/// Builds what `inner` builds, and runs it in a pool of one worker.
#[derive(Debug)]
pub(crate) struct RemoteKind {
    inner: Arc<dyn BackendKind>,
    server: String,
}

impl RemoteKind {
    pub(crate) fn new(inner: Arc<dyn BackendKind>, server: String) -> Self {
        Self { inner, server }
    }
}

impl BackendKind for RemoteKind {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn vendor(&self, settings: &Map<String, Value>, context: &BuildContext) -> VendorId {
        self.inner.vendor(settings, context)
    }

    fn settings_schema(&self) -> Value {
        self.inner.settings_schema()
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let local = self.inner.build(id, settings, context)?;
        let pool = format!("pool-{}", uuid::Uuid::new_v4().simple());
        let worker = WorkerThread::start(&self.server, &pool, Arc::clone(&local), context.clone());
        let fleet = Fleet::new(settings_of(&self.server, local.id())).expect("a thread");
        Ok(Arc::new(Remote { backend: FleetBackend::new(local, pool, fleet), _worker: worker }))
    }
}

fn settings_of(server: &str, backend: &BackendId) -> FleetSettings {
    FleetSettings {
        servers: vec![server.to_owned()],
        worker: WorkerSettings {
            turns: Some(8),
            folders: vec!["/".into()],
            access: Some(ToolAccess::Unrestricted),
            backends: Some(vec![backend.as_str().to_owned()]),
            environment: [MARK_VARIABLE, "PASSED_ON", "PATH", "HOME", "LANG"].map(str::to_owned).to_vec(),
            ..WorkerSettings::default()
        },
        ..FleetSettings::default()
    }
}

/// A worker on a thread of its own, drained when it is dropped.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    drain: CancelToken,
    thread: Option<thread::JoinHandle<()>>,
}

impl WorkerThread {
    pub(crate) fn start(
        server: &str,
        pool: &str,
        backend: Arc<dyn ExecutionBackend>,
        context: BuildContext,
    ) -> Self {
        Self::start_with(settings_of(server, backend.id()), pool, backend, context)
    }

    pub(crate) fn start_with(
        settings: FleetSettings,
        pool: &str,
        backend: Arc<dyn ExecutionBackend>,
        context: BuildContext,
    ) -> Self {
        Self::start_router(settings, pool, Router::builder(Registry::new(), context).backend(backend))
    }

    /// A worker whose router is what `builder` makes of an empty configuration.
    pub(crate) fn start_router(settings: FleetSettings, pool: &str, builder: RouterBuilder) -> Self {
        Self::start_lending(settings, pool, builder, Vec::new())
    }

    /// The same, which lends these logins.
    pub(crate) fn start_lending(
        settings: FleetSettings,
        pool: &str,
        builder: RouterBuilder,
        logins: Vec<(&'static str, Arc<dyn CredentialSource>)>,
    ) -> Self {
        let (pool, drain) = (pool.to_owned(), CancelToken::new());
        let (ready, is_ready) = mpsc::channel();
        let drains = drain.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let router = builder.from_value(json!({}));
                let mut worker =
                    Worker::connect(settings, &pool, router.expect("a router")).await.expect("a worker");
                for (login, source) in logins {
                    worker = worker.with_login(login, source);
                }
                worker.run(drains, |_| ready.send(()).unwrap_or_default()).await.expect("the worker runs");
            });
        });
        is_ready.recv().expect("the worker is ready");
        Self { drain, thread: Some(thread) }
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.drain.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct Remote {
    backend: FleetBackend,
    _worker: WorkerThread,
}

#[async_trait]
impl ExecutionBackend for Remote {
    fn id(&self) -> &BackendId {
        self.backend.id()
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    async fn probe(&self) -> Availability {
        self.backend.probe().await
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        self.backend.run_turn(request, host, events).await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        self.backend.forget(handle).await
    }
}

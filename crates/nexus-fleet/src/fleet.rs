//! A program's access to a fleet: one connection, on its own thread.

use std::{
    collections::HashMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use nexus_core::{BackendId, ExecutionBackend};
use nexus_nats::NatsError;
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
};

use crate::{
    error::FleetError,
    link::Link,
    protocol::{Frame, all_frames},
    settings::FleetSettings,
    setup,
};

/// Time for which a drop does not wait again for a worker that did not answer.
const MUTE_FOR: Duration = Duration::from_secs(30);

/// Longest time for remaining work after the last user of the connection is gone.
const LAST_WORK: Duration = Duration::from_secs(1);

/// A program's access to a fleet. Clones share it; the connection ends with the last of them.
///
/// It connects at the first use, and reconnects by itself. A separate thread serves the connection. So a dropped turn can be
/// stopped, on any runtime that polled it.
#[derive(Clone)]
pub struct Fleet(pub(crate) Arc<FleetCore>);

/// Data that clones of a fleet share.
pub(crate) struct FleetCore {
    pub(crate) settings: Arc<FleetSettings>,
    /// Identifies this process among the processes of the same caller.
    pub(crate) instance: String,
    handle: Handle,
    link: AsyncMutex<Option<Link>>,
    inboxes: Arc<Inboxes>,
    /// True if the process subscribes to the frames of its turns.
    hears_frames: Arc<AsyncMutex<bool>>,
    /// The backends whose turns run in a pool.
    pooled: Mutex<HashMap<BackendId, Weak<dyn ExecutionBackend>>>,
    /// Workers, by pool and name, that did not answer when one of their turns was dropped.
    mute: Mutex<HashMap<String, Instant>>,
    /// Each running task of [`FleetCore::start_last`] has a clone. The thread waits for these clones before it ends.
    busy: Arc<()>,
    /// Tells the thread to end, with the link to flush.
    stop: Option<oneshot::Sender<Option<Link>>>,
}

/// Receivers of each turn's frames.
#[derive(Default)]
struct Inboxes(Mutex<HashMap<String, mpsc::UnboundedSender<Frame>>>);

impl Inboxes {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, mpsc::UnboundedSender<Frame>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receiver of the frames of one turn. Dropping it ends the registration.
pub(crate) struct Inbox {
    turn: String,
    frames: mpsc::UnboundedReceiver<Frame>,
    all: Arc<Inboxes>,
}

impl Inbox {
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        self.frames.recv().await
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.all.lock().remove(&self.turn);
    }
}

impl Fleet {
    /// Creates access to a fleet with these settings. Does not connect yet.
    ///
    /// # Errors
    ///
    /// The thread of the connection could not be started.
    pub fn new(settings: FleetSettings) -> io::Result<Self> {
        // A runtime of its own outlives the runtime of the caller, which may end while turns are dropped.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let busy = Arc::new(());
        let idle = Arc::clone(&busy);
        let (stop, stopped) = oneshot::channel::<Option<Link>>();
        thread::Builder::new().name("nexus-fleet".to_owned()).spawn(move || {
            runtime.block_on(async {
                // Send the last messages of turns that have just ended.
                if let Ok(Some(link)) = stopped.await {
                    let until = Instant::now() + LAST_WORK;
                    while Arc::strong_count(&idle) > 1 && Instant::now() < until {
                        tokio::time::sleep(LAST_WORK / 100).await;
                    }
                    link.nats.flush().await;
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Self(Arc::new(FleetCore {
            settings: Arc::new(settings),
            instance: uuid::Uuid::new_v4().simple().to_string(),
            handle,
            link: AsyncMutex::default(),
            inboxes: Arc::default(),
            hears_frames: Arc::default(),
            pooled: Mutex::default(),
            mute: Mutex::default(),
            busy,
            stop: Some(stop),
        })))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &FleetSettings {
        &self.0.settings
    }

    /// Creates the streams and buckets that the fleet needs, and the queues of `pools`, unless they exist. Does
    /// not change existing ones.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: the servers could not be used, or this account may not create them.
    pub async fn set_up(&self, pools: &[&str]) -> Result<(), FleetError> {
        let link = self.0.link().await?;
        let pools: Vec<_> = pools.iter().map(|pool| (*pool).to_owned()).collect();
        self.0
            .run(async move {
                setup::ensure_shared(&link).await?;
                for pool in &pools {
                    setup::ensure_pool(&link, pool).await?;
                }
                Ok(())
            })
            .await
    }
}

impl FleetCore {
    /// Returns the connection, and connects first if necessary.
    pub(crate) async fn link(&self) -> Result<Link, FleetError> {
        // Connect under the lock, so that concurrent first calls share one connection.
        let mut link = self.link.lock().await;
        if let Some(link) = &*link {
            return Ok(link.clone());
        }
        let made = {
            let settings = Arc::clone(&self.settings);
            self.run(async move { Ok(Link::connect(settings).await?) }).await?
        };
        Ok(link.insert(made).clone())
    }

    /// Returns the connection for the turns of a caller, which subscribes to the frames of workers. A worker uses the
    /// connection only for holds, and needs no permission to subscribe.
    pub(crate) async fn link_for_turns(&self) -> Result<Link, FleetError> {
        let link = self.link().await?;
        // The lock moves into the task, so that a dropped caller cannot cause a second subscription.
        let mut hears = Arc::clone(&self.hears_frames).lock_owned().await;
        if !*hears {
            let subject = all_frames(self.settings.name(), &self.instance);
            let (link, inboxes) = (link.clone(), Arc::downgrade(&self.inboxes));
            self.run(async move {
                let frames = link.subscribe(subject).await?;
                tokio::spawn(sort(frames, inboxes, link.clone()));
                *hears = true;
                Ok(())
            })
            .await?;
        }
        Ok(link)
    }

    /// Runs `work` on the thread of the connection.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, FleetError>> + Send + 'static,
    ) -> Result<T, FleetError> {
        let done = self.handle.spawn(work).await;
        done.map_err(NatsError::unclear)?
    }

    /// Like [`start`](Self::start), for short work: the connection stays open for the work up to a second after its last
    /// user.
    pub(crate) fn start_last(&self, work: impl Future<Output = ()> + Send + 'static) {
        let busy = Arc::clone(&self.busy);
        self.handle.spawn(async move {
            work.await;
            drop(busy);
        });
    }

    /// Starts `work` on the thread of the connection, and does not wait for it.
    pub(crate) fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Remembers that the turns of a backend run in a pool, while the backend exists.
    pub(crate) fn add_pooled(&self, backend: &Arc<dyn ExecutionBackend>) {
        let mut pooled = self.pooled.lock().unwrap_or_else(PoisonError::into_inner);
        pooled.insert(backend.id().clone(), Arc::downgrade(backend));
    }

    /// Returns true if the turns of a backend run in a pool.
    pub(crate) fn is_pooled(&self, backend: &BackendId) -> bool {
        let pooled = self.pooled.lock().unwrap_or_else(PoisonError::into_inner);
        pooled.get(backend).is_some_and(|backend| backend.strong_count() > 0)
    }

    /// Returns true if a worker recently did not answer when one of its turns was dropped.
    pub(crate) fn is_mute(&self, worker: &str) -> bool {
        let mute = self.mute.lock().unwrap_or_else(PoisonError::into_inner);
        mute.get(worker).is_some_and(|since| since.elapsed() < MUTE_FOR)
    }

    /// Remembers that a worker did not answer when one of its turns was dropped.
    pub(crate) fn is_mute_now(&self, worker: String) {
        let mut mute = self.mute.lock().unwrap_or_else(PoisonError::into_inner);
        // Remove old entries here, so that the map stays small without a task.
        mute.retain(|_, since| since.elapsed() < MUTE_FOR);
        mute.insert(worker, Instant::now());
    }

    /// Registers a turn: its frames from now on are received.
    pub(crate) fn inbox(&self, turn: &str) -> Inbox {
        let (sender, frames) = mpsc::unbounded_channel();
        self.inboxes.lock().insert(turn.to_owned(), sender);
        Inbox { turn: turn.to_owned(), frames, all: Arc::clone(&self.inboxes) }
    }
}

impl Drop for FleetCore {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(self.link.get_mut().take());
        }
    }
}

/// Sends each frame to the inbox of its turn. Drops frames of turns without an inbox.
async fn sort(mut frames: async_nats::Subscriber, inboxes: Weak<Inboxes>, link: Link) {
    while let Some(message) = frames.next().await {
        // Own only a weak reference: the task must not outlive the fleet that it serves.
        let Some(inboxes) = inboxes.upgrade() else { return };
        let turn = message.subject.rsplit('.').next().unwrap_or_default();
        let Some(inbox) = inboxes.lock().get(turn).cloned() else { continue };
        // A worker asks if the caller still waits for the turn.
        if let Some(reply) = message.reply {
            link.nats.send(&reply, Vec::new());
            continue;
        }
        match serde_json::from_slice(&message.payload) {
            Ok(frame) => drop(inbox.send(frame)),
            Err(error) => tracing::warn!(%error, turn, "a message about a turn cannot be read"),
        }
    }
}

impl fmt::Debug for FleetCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetCore").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

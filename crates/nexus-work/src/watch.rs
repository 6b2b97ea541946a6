//! Waits for changes of files: by events of the operating system, else by pauses.

use std::{path::Path, time::Duration};

use tokio::time::{sleep, timeout};

/// Pause between two looks where the system has no events.
const POLL: Duration = Duration::from_millis(100);
/// Longest wait for an event: the system has none for what another machine writes to a shared folder.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Shortest time between two watches, should the system end each at once.
const PAUSE: Duration = Duration::from_millis(10);

/// Watch over one folder or file. Without events of the system, it only pauses.
pub(super) struct Watch(Option<system::FileEvents>);

impl Watch {
    /// Watches for files of `folder` that are replaced or removed, from now on.
    pub(super) fn of_folder(folder: &Path) -> Self {
        Self(system::FileEvents::of_folder(folder))
    }

    /// Watches for a process that releases its lock on the file at `path` or dies, from now on.
    pub(super) fn of_lock(path: &Path) -> Self {
        Self(system::FileEvents::of_lock(path))
    }

    /// Waits until something may have changed, for at most `left`. Returns whether the watch is still of use.
    pub(super) async fn wait(&self, left: Duration) -> bool {
        match &self.0 {
            Some(events) => {
                let is_watched = timeout(left.min(LOOK_AGAIN), events.changed()).await.unwrap_or(true);
                if !is_watched {
                    sleep(left.min(PAUSE)).await;
                }
                is_watched
            }
            None => {
                sleep(left.min(POLL)).await;
                true
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::{mem::MaybeUninit, os::fd::OwnedFd, path::Path};

    use rustix::{
        fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init},
        io::Errno,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// An inotify instance of its own: it wakes one waiter alone, and is gone with it.
    pub(super) struct FileEvents(AsyncFd<OwnedFd>);

    impl FileEvents {
        pub(super) fn of_folder(folder: &Path) -> Option<Self> {
            // The status is replaced by a rename. Events are appended to a file that stays, which wakes no waiter.
            Self::of(
                folder,
                WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE | WatchFlags::ONLYDIR,
            )
        }

        pub(super) fn of_lock(path: &Path) -> Option<Self> {
            // The owner of a lock has opened the file for writing. Those who only look have not, and wake no waiter.
            Self::of(path, WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB)
        }

        /// Returns `None` also where the user has no more instances or watches to have.
        fn of(path: &Path, changes: WatchFlags) -> Option<Self> {
            let instance = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let end = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
            add_watch(&instance, path, changes | end | WatchFlags::DONT_FOLLOW).ok()?;
            // An owned descriptor stays the same and open, which is all that the replacement, `unsafe` in its place, asks for.
            #[expect(deprecated, reason = "the replacement is unsafe, which this workspace forbids")]
            AsyncFd::with_interest(instance, Interest::READABLE).ok().map(Self)
        }

        /// Waits for an event. Returns whether there will be others.
        pub(super) async fn changed(&self) -> bool {
            let Ok(mut ready) = self.0.readable().await else { return false };
            let mut bytes = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(self.0.get_ref(), &mut bytes);
            let over =
                ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
            let mut is_watched = true;
            loop {
                match reader.next() {
                    // An overflow of the queue is an event as well, and the caller looks after any.
                    Ok(event) => is_watched &= !event.events().intersects(over),
                    Err(Errno::INTR) => {}
                    Err(Errno::WOULDBLOCK) => break,
                    Err(_) => return false,
                }
            }
            ready.clear_ready();
            is_watched
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{convert::Infallible, path::Path};

    /// There are none.
    pub(super) struct FileEvents(Infallible);

    impl FileEvents {
        pub(super) fn of_folder(_folder: &Path) -> Option<Self> {
            None
        }

        pub(super) fn of_lock(_path: &Path) -> Option<Self> {
            None
        }

        pub(super) async fn changed(&self) -> bool {
            match self.0 {}
        }
    }
}

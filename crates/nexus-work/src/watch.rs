//! Waiting for changes of files: by events of the operating system, else by polling.

use std::{path::Path, time::Duration};

use tokio::time::{sleep, timeout};

/// Pause between two checks if the system has no events.
const POLL: Duration = Duration::from_millis(100);
/// Longest wait for an event. The system reports no writes of another machine to a shared folder.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Shortest time between two watches, in case the system ends each at once.
const PAUSE: Duration = Duration::from_millis(10);

/// Watches one folder or file. Without events of the system, it only pauses.
#[derive(Debug)]
pub(super) struct Watch(Option<system::FileEvents>);

impl Watch {
    /// Starts to watch for files of `folder` that are replaced or removed.
    pub(super) fn of_folder(folder: &Path) -> Self {
        Self(system::FileEvents::of_folder(folder))
    }

    /// Starts to watch for a process that releases its lock on the file at `path` or dies.
    pub(super) fn of_lock(path: &Path) -> Self {
        Self(system::FileEvents::of_lock(path))
    }

    /// Starts to watch for writes to the file at `path`. The file may be missing, created and renamed.
    pub(super) fn of_file(path: &Path) -> Self {
        Self(system::FileEvents::of_file(path))
    }

    /// Starts to watch for files of `folder` that are replaced, removed or appended to, and for the release of a lock on the
    /// file `lock`. Other files whose names begin with a dot do not count.
    pub(super) fn of_content(folder: &Path, lock: &'static str) -> Self {
        Self(system::FileEvents::of_content(folder, lock))
    }

    /// Waits up to `left` until something may have changed. Returns false if the watch has ended.
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
    use std::{
        ffi::OsString,
        mem::MaybeUninit,
        os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
        path::Path,
    };

    use rustix::{
        fs::inotify::{CreateFlags, Event, ReadFlags, Reader, WatchFlags, add_watch, init},
        io::Errno,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// A separate inotify instance: it wakes only one waiter, and ends when it is dropped.
    #[derive(Debug)]
    pub(super) struct FileEvents {
        instance: AsyncFd<OwnedFd>,
        counted: CountedEvents,
    }

    /// Events that wake the waiter.
    #[derive(Debug)]
    enum CountedEvents {
        All,
        /// Changes of the file with this name.
        OfFile(OsString),
        /// Changes of files whose names do not begin with a dot, except for their closing, and the closing of
        /// this file.
        OfContent {
            lock: &'static str,
        },
    }

    const REPLACED: WatchFlags = WatchFlags::MOVED_TO.union(WatchFlags::MOVED_FROM).union(WatchFlags::DELETE);

    impl FileEvents {
        pub(super) fn of_folder(folder: &Path) -> Option<Self> {
            // The status is replaced by a rename. Events are appended to a file that stays, which wakes no waiter.
            Self::of(folder, REPLACED | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW, CountedEvents::All)
        }

        pub(super) fn of_lock(path: &Path) -> Option<Self> {
            // The owner of a lock has opened the file for writing. Readers have not, and wake no waiter.
            let changes = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB | WatchFlags::DONT_FOLLOW;
            Self::of(path, changes, CountedEvents::All)
        }

        pub(super) fn of_file(path: &Path) -> Option<Self> {
            // Follow a link: the folder of a home is sometimes a link to another disk.
            let changes = REPLACED | WatchFlags::MODIFY | WatchFlags::ONLYDIR;
            Self::of(path.parent()?, changes, CountedEvents::OfFile(path.file_name()?.to_owned()))
        }

        pub(super) fn of_content(folder: &Path, lock: &'static str) -> Option<Self> {
            let changes = REPLACED | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
            let changes = changes | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
            Self::of(folder, changes, CountedEvents::OfContent { lock })
        }

        /// Returns `None` if the user has no more instances or watches, too.
        fn of(path: &Path, changes: WatchFlags, counted: CountedEvents) -> Option<Self> {
            let instance = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let end = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
            add_watch(&instance, path, changes | end).ok()?;
            // The deprecation is about descriptors that may be closed or replaced. An owned one is neither.
            #[expect(deprecated, reason = "the replacement is unsafe, which this workspace forbids")]
            let instance = AsyncFd::with_interest(instance, Interest::READABLE).ok()?;
            Some(Self { instance, counted })
        }

        /// Waits for an event that counts. Returns false if no further events will arrive.
        pub(super) async fn changed(&self) -> bool {
            loop {
                let Ok(mut ready) = self.instance.readable().await else { return false };
                let mut bytes = [MaybeUninit::uninit(); 4096];
                let mut reader = Reader::new(self.instance.get_ref(), &mut bytes);
                let over =
                    ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
                let (mut is_watched, mut has_changed) = (true, false);
                loop {
                    match reader.next() {
                        // An overflow of the queue arrives as an event, too. The caller then checks for all changes.
                        Ok(event) => {
                            is_watched &= !event.events().intersects(over);
                            has_changed |= self.counted.counts(&event);
                        }
                        Err(Errno::INTR) => {}
                        Err(Errno::WOULDBLOCK) => break,
                        Err(_) => return false,
                    }
                }
                ready.clear_ready();
                if has_changed || !is_watched {
                    return is_watched;
                }
            }
        }
    }

    impl CountedEvents {
        fn counts(&self, event: &Event<'_>) -> bool {
            let Some(name) = event.file_name().map(std::ffi::CStr::to_bytes) else { return true };
            match self {
                Self::All => true,
                Self::OfFile(file) => file.as_bytes() == name,
                Self::OfContent { lock } => match event.events().contains(ReadFlags::CLOSE_WRITE) {
                    true => name == lock.as_bytes(),
                    false => !name.starts_with(b"."),
                },
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{convert::Infallible, path::Path};

    /// Stand-in for systems without inotify.
    #[derive(Debug)]
    pub(super) struct FileEvents(Infallible);

    impl FileEvents {
        pub(super) fn of_folder(_folder: &Path) -> Option<Self> {
            None
        }

        pub(super) fn of_lock(_path: &Path) -> Option<Self> {
            None
        }

        pub(super) fn of_file(_path: &Path) -> Option<Self> {
            None
        }

        pub(super) fn of_content(_folder: &Path, _lock: &'static str) -> Option<Self> {
            None
        }

        pub(super) async fn changed(&self) -> bool {
            match self.0 {}
        }
    }
}

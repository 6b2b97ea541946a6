//! What tells that a file of a folder was replaced: the system, where it can, else a pause.

use std::{path::Path, thread, time::Duration};

/// How often the folder is looked at where the system tells nothing.
const POLL: Duration = Duration::from_millis(100);
/// How often it is looked at where the system does: it does not know what another machine writes to a shared folder.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// What lies at least between two watches, should the system end each at once.
const PAUSE: Duration = Duration::from_millis(10);

/// A watch over one folder.
pub(super) struct Watch(Option<system::Watch>);

impl Watch {
    /// Watches a folder from now on. Where the system gives no watch, this is one that only pauses.
    pub(super) fn of(folder: &Path) -> Self {
        Self(system::Watch::of(folder))
    }

    /// Waits until something may have changed, and at most for `left`. Says whether the folder is still watched.
    pub(super) fn wait(&self, left: Duration) -> bool {
        match &self.0 {
            Some(watch) => {
                let is_watched = watch.wait(left.min(LOOK_AGAIN));
                if !is_watched {
                    thread::sleep(left.min(PAUSE));
                }
                is_watched
            }
            None => {
                thread::sleep(left.min(POLL));
                true
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::{mem::MaybeUninit, os::fd::OwnedFd, path::Path, time::Duration};

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init},
        io::Errno,
    };

    /// An inotify instance of its own: it wakes one waiter alone, and is gone with it.
    pub(super) struct Watch(OwnedFd);

    impl Watch {
        /// `None` also where the user has no more instances or watches to have.
        pub(super) fn of(folder: &Path) -> Option<Self> {
            let instance = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            // The status is replaced by a rename. Events are appended to a file that stays, which wakes nobody.
            let changes = WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
            let end = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
            let itself = WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
            add_watch(&instance, folder, changes | end | itself).ok()?;
            Some(Self(instance))
        }

        pub(super) fn wait(&self, timeout: Duration) -> bool {
            let timeout = Timespec::try_from(timeout).ok();
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) | Err(Errno::INTR) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
            let mut bytes = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&self.0, &mut bytes);
            let over =
                ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
            let mut is_watched = true;
            loop {
                match reader.next() {
                    // An overflow of the queue is an event as well, and the status is read after any.
                    Ok(event) => is_watched &= !event.events().intersects(over),
                    Err(Errno::INTR) => {}
                    Err(Errno::WOULDBLOCK) => return is_watched,
                    Err(_) => return false,
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{convert::Infallible, path::Path, time::Duration};

    /// There is none.
    pub(super) struct Watch(Infallible);

    impl Watch {
        pub(super) fn of(_folder: &Path) -> Option<Self> {
            None
        }

        pub(super) fn wait(&self, _timeout: Duration) -> bool {
            match self.0 {}
        }
    }
}

//! No core dump of this process: its memory holds secrets.

/// Forbids core dumps of this process. What it starts inherits that, and may allow its own again.
pub(crate) fn forbid() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
        // Lowering one's own limit is always allowed.
        let _ = setrlimit(Resource::Core, limit);
    }
}

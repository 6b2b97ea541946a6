//! Disables core dumps of this process, since its memory contains secrets.

/// Disables core dumps of this process. Its child processes inherit the limit, and may raise it again.
pub(crate) fn forbid() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
        // A process may always lower its own limit, so the error is ignored.
        let _ = setrlimit(Resource::Core, limit);
    }
}

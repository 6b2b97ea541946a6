//! Runs blocking operations on trees on a thread of their own.

use nexus_core::{
    CancelToken, ErrorKind,
    harness::{Failure, run_cancellable},
};

/// Runs `work` by [`run_cancellable`].
///
/// # Errors
///
/// Errors of `work`; [`ErrorKind::Crashed`] if it panicked, or the runtime ends.
pub(crate) async fn off_thread<T: Send + 'static>(
    cancel: CancelToken,
    work: impl FnOnce(CancelToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let broke_off = |_| Err(Failure::new(ErrorKind::Crashed, "the work on the files was interrupted"));
    run_cancellable(cancel, work).await.unwrap_or_else(broke_off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_the_work_is_a_failure() {
        let failed = off_thread::<()>(CancelToken::new(), |_| panic!("in the work")).await;
        assert_eq!(failed.unwrap_err().kind, ErrorKind::Crashed);
    }
}

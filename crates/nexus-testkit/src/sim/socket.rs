//! A TCP stream that can end by reset in place of FIN, and can send bytes beyond the end of an HTTP body.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Planned end of a connection.
#[derive(Debug, Default)]
pub(super) struct Ending {
    reset: AtomicBool,
    beyond: Mutex<Bytes>,
}

impl Ending {
    /// Closes by reset.
    pub(super) fn reset(&self) {
        self.reset.store(true, Ordering::SeqCst);
    }

    /// Sends `bytes` after what is being written now, in no message of HTTP.
    pub(super) fn send_beyond(&self, bytes: Bytes) {
        *self.beyond.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    fn is_reset(&self) -> bool {
        self.reset.load(Ordering::SeqCst)
    }
}

/// The stream, and its planned end.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    ending: Arc<Ending>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, ending: Arc<Ending>) -> Self {
        Self { stream, ending }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.ending.is_reset() {
            // With zero linger, the close sends RST.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, ending } = self.get_mut();
        let mut beyond = ending.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        while !beyond.is_empty() {
            // hyper flushes after the body, so the bytes follow it directly.
            let written = ready!(Pin::new(&mut *stream).poll_write(context, &beyond))?;
            beyond.advance(written);
        }
        Pin::new(stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending.is_reset() {
            // A shutdown would send FIN first, and the client would see a regular end.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

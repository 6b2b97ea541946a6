//! Reads lines of bounded length.

use std::io;

use nexus_core::message_line::{LineCollector, MessageLine};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Maximum length of a line, in bytes: enough for pictures, which arrive in base64. Source: our own bound.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

/// Reads the next line that is not blank; `None` at the end of the input. The last line needs no line end.
///
/// # Errors
///
/// The input cannot be read.
pub(crate) async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<MessageLine>> {
    loop {
        let mut line = LineCollector::new(MAX_LINE_BYTES);
        let is_last = loop {
            let buffer = match input.fill_buf().await {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if buffer.is_empty() {
                break true;
            }
            let (used, is_end) = line.take(buffer);
            input.consume(used);
            if is_end {
                break false;
            }
        };
        let line = line.finish();
        if line.is_some() || is_last {
            return Ok(line);
        }
    }
}

//! Reads lines of bytes up to a limit.

use std::io::{self, BufRead};

use nexus_core::message_line::{LineCollector, MessageLine};

/// Longest line that is read, in bytes. Source: our own bound. Models write the arguments of calls, so they are
/// short.
pub(crate) const MAX_LINE_BYTES: usize = 4 << 20;

/// Reads the next line that is not blank. Returns `None` at the end of the input. A last line without a line end
/// counts.
///
/// # Errors
///
/// The input cannot be read.
pub(crate) fn next(input: &mut impl BufRead) -> io::Result<Option<MessageLine>> {
    loop {
        let mut line = LineCollector::new(MAX_LINE_BYTES);
        let is_last = loop {
            let buffer = match input.fill_buf() {
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

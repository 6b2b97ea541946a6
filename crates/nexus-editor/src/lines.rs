//! Lines of the input, within a bound.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Longest line that is read, in bytes: room for pictures, which arrive in base64. Source: our own bound.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    /// Without its end.
    Whole(Vec<u8>),
    /// One above the bound: it was read over.
    TooLong,
}

/// The next line that is not blank; `None` at the end of the input. What stands there without an end of line is a line, too.
///
/// # Errors
///
/// The input cannot be read.
pub(crate) async fn next(
    input: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> io::Result<Option<InputLine>> {
    loop {
        let mut line = Vec::new();
        let mut is_too_long = false;
        let is_last = loop {
            let buffer = match input.fill_buf().await {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if buffer.is_empty() {
                break true;
            }
            let (piece, used, is_end) = match memchr::memchr(b'\n', buffer) {
                Some(end) => (buffer.get(..end).unwrap_or_default(), end + 1, true),
                None => (buffer, buffer.len(), false),
            };
            if line.len() + piece.len() > most {
                is_too_long = true;
                line = Vec::new();
            }
            if !is_too_long {
                line.extend_from_slice(piece);
            }
            input.consume(used);
            if is_end {
                break false;
            }
        };
        if is_too_long {
            return Ok(Some(InputLine::TooLong));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(InputLine::Whole(line)));
        }
        if is_last {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn lines(bytes: &[u8], buffer: usize) -> Vec<InputLine> {
        let mut input = BufReader::with_capacity(buffer, bytes);
        let mut found = Vec::new();
        while let Some(line) = next(&mut input, 4).await.unwrap() {
            found.push(line);
        }
        found
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_come() {
        for buffer in [1, 2, 3, 100] {
            let whole = |text: &str| InputLine::Whole(text.as_bytes().to_vec());
            assert_eq!(
                lines(b"\n \r\nab\n12345\nc\n\nlast", buffer).await,
                [whole("ab"), InputLine::TooLong, whole("c"), whole("last")]
            );
            assert_eq!(lines(b"", buffer).await, []);
        }
    }
}

//! Lines of bytes, within a bound.

use std::io::{self, BufRead};

/// Longest line that is read, in bytes. Source: our own bound; arguments of a call are written by a model.
pub(crate) const MAX_LINE_BYTES: usize = 4 << 20;

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
pub(crate) fn next(input: &mut impl BufRead) -> io::Result<Option<InputLine>> {
    loop {
        let mut line = Vec::new();
        let mut is_too_long = false;
        let is_last = loop {
            let buffer = match input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if buffer.is_empty() {
                break true;
            }
            let end = memchr::memchr(b'\n', buffer);
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            if line.len() + piece.len() > MAX_LINE_BYTES {
                is_too_long = true;
                line = Vec::new();
            }
            if !is_too_long {
                line.extend_from_slice(piece);
            }
            let used = end.map_or(buffer.len(), |end| end + 1);
            input.consume(used);
            if end.is_some() {
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
    use std::io::BufReader;

    use super::*;

    fn lines(bytes: &[u8], buffer: usize) -> Vec<InputLine> {
        let mut input = BufReader::with_capacity(buffer, bytes);
        std::iter::from_fn(|| next(&mut input).unwrap()).collect()
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        for buffer in [1, 2, 3, 100] {
            let whole = |text: &str| InputLine::Whole(text.as_bytes().to_vec());
            assert_eq!(lines(b"\n \r\nab\nc\n\nlast", buffer), [whole("ab"), whole("c"), whole("last")]);
            assert_eq!(lines(b"", buffer), []);
        }
    }

    #[test]
    fn a_line_above_the_bound_is_read_over_and_the_next_one_counts() {
        let mut bytes = vec![b'x'; MAX_LINE_BYTES];
        bytes.extend_from_slice(b"\ny\n");
        assert!(matches!(&lines(&bytes, 1 << 16)[..], [InputLine::Whole(_), InputLine::Whole(_)]));
        bytes.insert(0, b'x');
        assert_eq!(lines(&bytes, 1 << 16), [InputLine::TooLong, InputLine::Whole(b"y".to_vec())]);
    }
}

//! Splits a response body into server-sent events. The reader interprets them.
//!
//! The framing follows the WHATWG HTML standard (section 9.2, "Server-sent events"), with two exceptions: a last event
//! without its blank line is also returned, and bytes that are not UTF-8 are passed on unchanged.
//!
//! An [`EventSplitter`] borrows each event from its chunk. Only an event that spans chunks is copied, once, and no byte
//! is searched twice. The crate `eventsource-stream` does the same job, and the tests compare both. It is not used
//! because of its cost: after every line it moves the rest of its buffer into a new one. In chunks of 64 KiB each event
//! then allocates and copies about 94 KB, measured, whereas the splitter allocates nothing.

use std::{fmt, mem, ops::Range, str};

use bytes::Bytes;
use memchr::memchr2;

/// Default maximum size of an event, in bytes.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 64 << 20;

/// Buffer capacity retained for the next event that spans chunks, in bytes. Any excess is released.
const KEPT_CAPACITY_BYTES: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One server-sent event that has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Value of the `event` line; empty without such a line, or if it is not UTF-8.
    pub name: &'a str,
    /// Values of the `data` lines, joined by newlines.
    pub data: &'a [u8],
}

/// Error for an event that exceeds the maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLong {
    /// Maximum size, in bytes.
    pub max_event_bytes: usize,
}

impl fmt::Display for EventTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream is longer than `max_event_bytes` ({} bytes)", self.max_event_bytes)
    }
}

impl std::error::Error for EventTooLong {}

/// Cuts a body into server-sent events. Bytes in, borrowed events out.
///
/// ```
/// use nexus_backends::native::sse::EventSplitter;
///
/// let mut splitter = EventSplitter::new(1024);
/// let mut seen = Vec::new();
/// for chunk in ["data: on", "e\n\nevent: e\r\nda", "ta: two"] {
///     splitter.push(chunk.into());
///     while let Some(event) = splitter.next()? {
///         seen.push(event.data.to_vec());
///     }
/// }
/// assert_eq!(splitter.finish()?.map(|event| event.name), Some("e"));
/// assert_eq!(seen, [b"one"]);
/// # Ok::<(), nexus_backends::native::sse::EventTooLong>(())
/// ```
pub struct EventSplitter {
    max_event_bytes: usize,
    chunk: Bytes,
    /// Number of bytes of `chunk` that were read.
    position: usize,
    /// True if the previous line ended with a carriage return, so a newline directly after it belongs to it.
    skip_newline: bool,
    /// True after the first line of the body, so no byte order mark can follow.
    is_started: bool,
    /// Beginning of a line that the end of a chunk cut off.
    line: Vec<u8>,
    name: Value,
    data: Value,
    /// Copies of a `name` and `data` that are no longer in `chunk`.
    kept_name: Vec<u8>,
    kept_data: Vec<u8>,
    /// Total length of the lines of the current event.
    event_bytes: usize,
    /// True after the event was returned. The next call discards it.
    is_given: bool,
    is_too_long: bool,
}

/// Position of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Missing,
    InChunk(Range<usize>),
    Kept(Range<usize>),
}

/// Field of a line, with the range of its value.
#[derive(Debug, PartialEq, Eq)]
enum LineField {
    Name(Range<usize>),
    Data(Range<usize>),
    Ignored,
}

impl EventSplitter {
    /// Creates a splitter for events of up to `max_event_bytes` bytes, counted as the length of their lines without
    /// line endings. A longer line of any other kind is also an error. Comments do not count towards the event around
    /// them.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            chunk: Bytes::new(),
            position: 0,
            skip_newline: false,
            is_started: false,
            line: Vec::new(),
            name: Value::Missing,
            data: Value::Missing,
            kept_name: Vec::new(),
            kept_data: Vec::new(),
            event_bytes: 0,
            is_given: false,
            is_too_long: false,
        }
    }

    /// Adds the next chunk of the body. The previous chunk must be fully read, so that [`next`](Self::next) has
    /// returned `None`. Otherwise its unread part is lost.
    pub fn push(&mut self, chunk: Bytes) {
        // The current event may still borrow from the chunk that is replaced.
        self.keep_event();
        self.chunk = chunk;
        self.position = 0;
    }

    /// Returns the next complete event with data; `None` if more input is needed.
    ///
    /// # Errors
    ///
    /// [`EventTooLong`], for this and every further call.
    #[expect(
        clippy::should_implement_trait,
        reason = "the event borrows the splitter, which an Iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, EventTooLong> {
        // The returned event borrowed the splitter until now, so it can only be discarded here.
        if self.is_given {
            self.forget();
        }
        loop {
            if self.is_too_long {
                return Err(EventTooLong { max_event_bytes: self.max_event_bytes });
            }
            let rest = self.chunk.get(self.position..).unwrap_or_default();
            // CR and LF of one line end may arrive in different chunks.
            if self.skip_newline && !rest.is_empty() {
                self.skip_newline = false;
                if rest.first() == Some(&b'\n') {
                    self.position += 1;
                    continue;
                }
            }
            // The standard allows CR, LF and CRLF as line ends.
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.is_too_long = self.exceeds(self.line.len() + rest.len());
                if self.is_too_long {
                    continue;
                }
                // Store only the cut line and the values of the event. All else in the chunk was read.
                self.line.extend_from_slice(rest);
                self.keep_event();
                self.chunk = Bytes::new();
                self.position = 0;
                return Ok(None);
            };
            self.skip_newline = rest.get(end) == Some(&b'\r');
            let start = self.position;
            self.position += end + 1;
            // Check before copying, so a line never occupies more memory than the bound.
            self.is_too_long = self.exceeds(self.line.len() + end);
            if self.is_too_long {
                continue;
            }
            let is_blank = if self.line.is_empty() {
                self.read_line_of_chunk(start..start + end)
            } else {
                self.line.extend_from_slice(self.chunk.get(start..start + end).unwrap_or_default());
                self.read_cut_line()
            };
            if is_blank {
                // The standard ignores an event without data, and its name must not remain for the next one.
                if self.data == Value::Missing {
                    self.forget();
                } else {
                    self.is_given = true;
                    return Ok(Some(self.event()));
                }
            }
        }
    }

    /// Returns the last event at the end of the body, if it has no blank line after it.
    ///
    /// # Errors
    ///
    /// [`EventTooLong`], as for [`next`](Self::next).
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, EventTooLong> {
        if self.is_given {
            self.forget();
        }
        if self.is_too_long {
            return Err(EventTooLong { max_event_bytes: self.max_event_bytes });
        }
        // Unlike the standard, accept an event without its blank line: some servers close the connection directly after
        // it.
        if !self.line.is_empty() {
            self.read_cut_line();
        }
        self.is_given = true;
        Ok(if self.data == Value::Missing { None } else { Some(self.event()) })
    }

    /// Returns true if a line of `line_bytes` bytes exceeds the bound.
    fn exceeds(&self, line_bytes: usize) -> bool {
        self.event_bytes.saturating_add(line_bytes) > self.max_event_bytes
    }

    /// Reads a line that is completely in the chunk. Returns true if it is blank.
    fn read_line_of_chunk(&mut self, mut line: Range<usize>) -> bool {
        let mut bytes = self.chunk.get(line.clone()).unwrap_or_default();
        // Only the first line of the body may begin with a byte order mark.
        if !self.is_started {
            self.is_started = true;
            if let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK) {
                line.start += BYTE_ORDER_MARK.len();
                bytes = rest;
            }
        }
        let in_chunk = |value: &Range<usize>| line.start + value.start..line.start + value.end;
        match field(bytes) {
            LineField::Name(value) => {
                self.event_bytes += bytes.len();
                self.name = Value::InChunk(in_chunk(&value));
            }
            LineField::Data(value) => {
                self.event_bytes += bytes.len();
                if self.data == Value::Missing {
                    self.data = Value::InChunk(in_chunk(&value));
                } else {
                    // Values of several lines are joined, so they cannot stay a range of the chunk.
                    keep(&mut self.data, &mut self.kept_data, &self.chunk);
                    self.data.add_line(&mut self.kept_data, bytes.get(value).unwrap_or_default());
                }
            }
            LineField::Ignored => return bytes.is_empty(),
        }
        false
    }

    /// Reads a line that spans chunks. Returns true if it is blank.
    fn read_cut_line(&mut self) -> bool {
        let mut line = mem::take(&mut self.line);
        let mut start = 0;
        if !self.is_started {
            self.is_started = true;
            if line.starts_with(BYTE_ORDER_MARK) {
                start = BYTE_ORDER_MARK.len();
            }
        }
        let bytes = line.get(start..).unwrap_or_default();
        let is_blank = bytes.is_empty();
        match field(bytes) {
            LineField::Name(value) => {
                self.event_bytes += bytes.len();
                self.kept_name.clear();
                self.kept_name.extend_from_slice(bytes.get(value).unwrap_or_default());
                self.name = Value::Kept(0..self.kept_name.len());
            }
            LineField::Data(value) => {
                self.event_bytes += bytes.len();
                if self.data == Value::Missing {
                    self.data = Value::Kept(start + value.start..start + value.end);
                    // Swap the buffers: the cut line is already a copy, so its value needs no second one.
                    mem::swap(&mut line, &mut self.kept_data);
                } else {
                    keep(&mut self.data, &mut self.kept_data, &self.chunk);
                    self.data.add_line(&mut self.kept_data, bytes.get(value).unwrap_or_default());
                }
            }
            LineField::Ignored => {}
        }
        line.clear();
        // A single huge line must not occupy its memory for the rest of the stream.
        if line.capacity() <= KEPT_CAPACITY_BYTES {
            self.line = line;
        }
        is_blank
    }

    /// Copies the current event's values out of the chunk.
    fn keep_event(&mut self) {
        keep(&mut self.name, &mut self.kept_name, &self.chunk);
        keep(&mut self.data, &mut self.kept_data, &self.chunk);
    }

    fn forget(&mut self) {
        self.is_given = false;
        self.event_bytes = 0;
        self.name = Value::Missing;
        self.data = Value::Missing;
        if self.kept_data.capacity() > KEPT_CAPACITY_BYTES {
            self.kept_data = Vec::new();
        }
    }

    fn event(&self) -> Event<'_> {
        let name = self.value(&self.name, &self.kept_name);
        Event {
            // An unreadable name only loses the hint. The data usually states its type itself.
            name: str::from_utf8(name).unwrap_or_default(),
            data: self.value(&self.data, &self.kept_data),
        }
    }

    fn value<'a>(&'a self, value: &Value, kept: &'a [u8]) -> &'a [u8] {
        match value {
            Value::Missing => None,
            Value::InChunk(range) => self.chunk.get(range.clone()),
            Value::Kept(range) => kept.get(range.clone()),
        }
        .unwrap_or_default()
    }
}

/// Copies a value out of the chunk.
fn keep(value: &mut Value, kept: &mut Vec<u8>, chunk: &[u8]) {
    if let Value::InChunk(range) = value {
        kept.clear();
        kept.extend_from_slice(chunk.get(range.clone()).unwrap_or_default());
        *value = Value::Kept(0..kept.len());
    }
}

impl Value {
    /// Adds a line to a copied value.
    fn add_line(&mut self, kept: &mut Vec<u8>, line: &[u8]) {
        kept.push(b'\n');
        kept.extend_from_slice(line);
        if let Self::Kept(range) = self {
            range.end = kept.len();
        }
    }
}

/// Shows no byte of the stream.
impl fmt::Debug for EventSplitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSplitter")
            .field("max_event_bytes", &self.max_event_bytes)
            .field("unread_bytes", &self.chunk.len().saturating_sub(self.position))
            .field("kept_bytes", &(self.line.len() + self.kept_data.len()))
            .finish_non_exhaustive()
    }
}

/// Parses a line. `id` and `retry` are ignored, because only clients that reconnect by themselves need them.
fn field(line: &[u8]) -> LineField {
    if let Some(value) = line.strip_prefix(b"data").and_then(value_bytes) {
        LineField::Data(line.len() - value..line.len())
    } else if let Some(value) = line.strip_prefix(b"event").and_then(value_bytes) {
        LineField::Name(line.len() - value..line.len())
    } else {
        LineField::Ignored
    }
}

/// Returns the length of the value after a field's name; `None` if the name is longer.
fn value_bytes(rest: &[u8]) -> Option<usize> {
    match rest {
        [] => Some(0),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

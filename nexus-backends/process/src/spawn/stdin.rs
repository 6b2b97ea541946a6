//! What a child finds on its standard input.

use bytes::Bytes;

/// What the child finds on its standard input.
#[derive(Default)]
#[non_exhaustive]
pub enum StdinMode {
    /// Nothing: it is closed at once.
    #[default]
    Empty,
    /// These bytes, then the end.
    Bytes(Bytes),
    /// What [`StdinWriter::write`](super::StdinWriter::write) gives it, until it is closed.
    Open,
}

impl std::fmt::Debug for StdinMode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => formatter.write_str("Empty"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({} bytes)", bytes.len()),
            Self::Open => formatter.write_str("Open"),
        }
    }
}

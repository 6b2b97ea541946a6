//! Standard input of a child.

use bytes::Bytes;

/// Standard input of a child.
#[derive(Default)]
#[non_exhaustive]
pub enum StdinMode {
    /// No input: it is closed at once.
    #[default]
    Empty,
    /// These bytes, then the end of the input.
    Bytes(Bytes),
    /// Input from [`StdinWriter::write`](super::StdinWriter::write), until it is closed.
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

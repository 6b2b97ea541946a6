//! Hash of a file's content. Only this file uses the hash library.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
};

use sha2::{Digest as _, Sha256};

/// Size of each read, in bytes. Source: our own bound.
const CHUNK_BYTES: usize = 64 << 10;

/// SHA-256 hash and length of a file's content. Two files with equal values have the same content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash {
    digest: [u8; 32],
    bytes: u64,
}

impl ContentHash {
    /// Hashes these bytes.
    pub fn of(content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref();
        Self { digest: Sha256::digest(content).into(), bytes: content.len() as u64 }
    }

    /// Hashes the rest of `source`, read in pieces.
    ///
    /// # Errors
    ///
    /// Any error of `source`.
    pub fn of_reader(mut source: impl Read) -> io::Result<Self> {
        let (mut state, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
        loop {
            match source.read(&mut chunk) {
                Ok(0) => return Ok(Self { digest: state.finalize().into(), bytes }),
                Ok(read) => {
                    bytes += read as u64;
                    state.update(chunk.get(..read).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if the whole file has this hash. Stops early at a file that is longer or grows.
    pub(super) fn is_of(&self, file: File) -> io::Result<bool> {
        // Compare the length first, because it needs no read.
        if file.metadata()?.len() != self.bytes {
            return Ok(false);
        }
        // One byte more than expected reveals a file that grew after the check of its length.
        Ok(Self::of_reader(file.take(self.bytes.saturating_add(1)))? == *self)
    }

    /// Returns the length of the content in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first 16 of the 64 digits. They distinguish the versions of a file, and are short enough for a model to
    /// repeat.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(16);
        text
    }
}

/// Writes 64 hexadecimal digits, in lower case.
impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&nexus_files::hex(self.digest))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_the_standard_and_of_all_pieces() {
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(ContentHash::of("abc").to_string(), expected);
        assert_eq!(ContentHash::of("abc").short(), expected[..16]);
        let long = vec![7; 3 * CHUNK_BYTES + 1];
        assert_eq!(ContentHash::of_reader(&long[..]).unwrap(), ContentHash::of(&long));
    }
}

//! Decodes gzip incrementally.

use std::{io, io::Write as _};

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;

/// Decoder of one body.
#[derive(Debug)]
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// Received bytes that are not decoded yet.
    packed: Bytes,
    has_begun: bool,
}

impl Gunzip {
    pub(super) fn new() -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), packed: Bytes::new(), has_begun: false }
    }

    /// Adds the next received chunk. The caller must first drain the previous chunk with `next`.
    pub(super) fn push(&mut self, packed: Bytes) {
        self.has_begun |= !packed.is_empty();
        self.packed = packed;
    }

    /// Returns the next decoded chunk, or `None` if more input is needed. A chunk is at most one buffer long, because a
    /// few bytes of gzip may decode to very many.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.packed.is_empty() {
            let taken = self.decoder.write(&self.packed)?;
            // Without progress the loop would never end.
            if taken == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.packed.advance(taken);
            // Flush, so that a stream's events are visible before the body ends.
            self.decoder.flush()?;
            let decoded = std::mem::take(self.decoder.get_mut());
            if !decoded.is_empty() {
                return Ok(Some(decoded.into()));
            }
        }
        Ok(None)
    }

    /// Returns the remaining decoded bytes at the end of the body, and checks that the gzip stream is complete. An
    /// empty body is valid.
    pub(super) fn finish(&mut self) -> io::Result<Bytes> {
        if self.has_begun {
            self.decoder.try_finish()?;
        }
        Ok(std::mem::take(self.decoder.get_mut()).into())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Decodes pieces of `size` bytes, and shows each decoded piece.
    fn decode(packed: &[u8], size: usize, mut show: impl FnMut(&[u8])) -> io::Result<()> {
        let mut gunzip = Gunzip::new();
        for piece in packed.chunks(size) {
            gunzip.push(Bytes::copy_from_slice(piece));
            while let Some(decoded) = gunzip.next()? {
                show(&decoded);
            }
        }
        show(&gunzip.finish()?);
        Ok(())
    }

    #[test]
    fn any_cut_is_the_same_and_members_follow_one_another() {
        let two = [packed(b"data: 1\n\n"), packed(b"data: 2\n\n")].concat();
        for size in 1..=two.len() {
            let mut found = Vec::new();
            decode(&two, size, |piece| found.extend_from_slice(piece)).unwrap();
            assert_eq!(found, b"data: 1\n\ndata: 2\n\n", "{size}");
        }
    }

    #[test]
    fn what_can_be_decoded_is_not_held_back() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"data: 1\n\n").unwrap();
        encoder.flush().unwrap();
        let mut gunzip = Gunzip::new();
        gunzip.push(encoder.get_ref().clone().into());
        assert_eq!(gunzip.next().unwrap().unwrap(), &b"data: 1\n\n"[..]);
    }

    #[test]
    fn much_that_was_packed_into_little_comes_in_pieces() {
        let much = packed(&vec![0; 32 << 20]);
        let (mut total, mut largest) = (0, 0);
        decode(&much, much.len(), |piece| {
            total += piece.len();
            largest = largest.max(piece.len());
        })
        .unwrap();
        assert_eq!(total, 32 << 20);
        assert!(largest <= 128 << 10, "{largest}");
    }

    #[test]
    fn only_an_end_in_order_is_one() {
        let whole = packed(b"data: 1\n\n");
        for end in 1..whole.len() {
            assert!(decode(&whole[..end], end, |_| {}).is_err(), "{end}");
        }
        decode(b"", 1, |_| {}).unwrap();
        assert!(decode(b"this is not gzip", 16, |_| {}).is_err());
    }
}

//! Bytes of a terminal, as the keys that a line needs.

/// A key at a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypedKey {
    Character(char),
    Enter,
    /// Backspace.
    Erase,
    /// Ctrl-U, Ctrl-W counts as this too.
    EraseLine,
    /// Ctrl-D.
    End,
}

/// Decoder of keys. Escape sequences, such as those of arrows, are ignored.
#[derive(Debug, Default)]
pub(crate) struct KeyDecoder {
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
    sequence: Sequence,
}

/// Part of an escape sequence that has arrived. Source: ECMA-48.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    /// ESC.
    Escape,
    /// ESC and `[`, up to a final byte.
    Control,
    /// ESC and `O`, which one byte follows.
    Single,
}

impl KeyDecoder {
    /// Decodes the next byte. Returns the key that it completes.
    pub(crate) fn push(&mut self, byte: u8) -> Option<TypedKey> {
        match (self.sequence, byte) {
            // ESC begins a new sequence even within an incomplete one.
            (_, 0x1b) => {
                self.sequence = Sequence::Escape;
                return None;
            }
            (Sequence::Escape, b'[') => self.sequence = Sequence::Control,
            (Sequence::Escape, b'O') => self.sequence = Sequence::Single,
            (Sequence::Control, 0x20..=0x3f) => {}
            (Sequence::None, _) => return self.plain(byte),
            // The byte ends the sequence, or ESC came from the Alt key.
            _ => self.sequence = Sequence::None,
        }
        None
    }

    fn plain(&mut self, byte: u8) -> Option<TypedKey> {
        match byte {
            b'\r' | b'\n' => Some(TypedKey::Enter),
            0x7f | 0x08 => Some(TypedKey::Erase),
            0x15 | 0x17 => Some(TypedKey::EraseLine),
            0x04 => Some(TypedKey::End),
            // A tab would move the cursor by an unknown width, so it becomes a space.
            b'\t' => Some(TypedKey::Character(' ')),
            0..0x20 => None,
            _ => self.character(byte),
        }
    }

    fn character(&mut self, byte: u8) -> Option<TypedKey> {
        self.partial.push(byte);
        let character = match str::from_utf8(&self.partial) {
            Ok(text) => text.chars().next(),
            // Bytes may be missing.
            Err(error) if error.error_len().is_none() => None,
            Err(_) => Some(char::REPLACEMENT_CHARACTER),
        }?;
        self.partial.clear();
        (!character.is_control()).then_some(TypedKey::Character(character))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> String {
        let mut decoder = KeyDecoder::default();
        let keys = bytes.iter().filter_map(|byte| decoder.push(*byte));
        keys.map(|key| match key {
            TypedKey::Character(character) => character,
            TypedKey::Enter => '⏎',
            TypedKey::Erase => '⌫',
            TypedKey::EraseLine => '⇤',
            TypedKey::End => '∎',
        })
        .collect()
    }

    #[test]
    fn bytes_become_keys_and_escape_sequences_become_none() {
        for (bytes, shown) in [
            (&b"ab\r\n"[..], "ab⏎⏎"),
            ("ä字🦀".as_bytes(), "ä字🦀"),
            (b"a\x7f\x15\x04", "a⌫⇤∎"),
            (b"\x1b[A\x1b[1;5Cx\x1bOHy\x1bbz", "xyz"),
            (b"\x1b\x1b[Dq", "q"),
            (b"\xff\xc3a\xe5\xad", "\u{fffd}\u{fffd}"),
            (b"\x00\x01\x0c\tb", " b"),
        ] {
            assert_eq!(keys(bytes), shown, "{bytes:?}");
        }
    }
}

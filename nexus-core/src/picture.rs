//! Detects the type and the size of pictures, and encodes them as base64.

use base64::Engine as _;

/// Largest total of pictures in one tool answer or in the record of a conversation, as base64 bytes. Source: our own bound, below every
/// vendor's limit for one picture.
pub const MAX_PICTURE_BYTES: usize = 4 << 20;

/// Returns the media type by the first bytes. Returns `None` for anything but PNG, JPEG, GIF and WebP, which every vendor with picture
/// support accepts.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Longest part of a picture that is searched for its size, in base64 characters. Source: our own bound. The metadata before the size of a
/// JPEG is seldom longer.
const HEAD_CHARACTERS: usize = 256 << 10;

/// Returns the width and height of a base64 picture, in pixels. Returns `None` if the searched part does not contain them.
pub(crate) fn size(data: &str) -> Option<(u32, u32)> {
    // Base64 decodes in groups of four characters.
    let length = data.len().min(HEAD_CHARACTERS) / 4 * 4;
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.get(..length)?).ok()?;
    match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => Some((u32_at(&bytes, 16)?, u32_at(&bytes, 20)?)),
        [b'G', b'I', b'F', b'8', ..] => Some((little_at(&bytes, 6, 2)?, little_at(&bytes, 8, 2)?)),
        [0xff, 0xd8, 0xff, ..] => jpeg_size(&bytes),
        [b'R', b'I', b'F', b'F', ..] => match bytes.get(12..16)? {
            // The upper two bits of each field are a scaling factor.
            b"VP8 " => Some((little_at(&bytes, 26, 2)? & 0x3fff, little_at(&bytes, 28, 2)? & 0x3fff)),
            b"VP8L" => {
                // A lossless WebP stores both sizes in 14 bits each, reduced by one.
                let bits = little_at(&bytes, 21, 4)?;
                Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
            }
            b"VP8X" => Some((little_at(&bytes, 24, 3)? + 1, little_at(&bytes, 27, 3)? + 1)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the size in the first frame header of a JPEG, after the segments before it.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2_usize;
    loop {
        let &[0xff, marker] = bytes.get(at..at.checked_add(2)?)? else { return None };
        let length = u16::from_be_bytes(bytes.get(at + 2..at + 4)?.try_into().ok()?);
        // Three of these marker numbers are not frame headers.
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            let side = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into());
            // The frame header has the height before the width.
            return Some((side(at + 7)?, side(at + 5)?));
        }
        // A segment's length includes itself but not the marker.
        at = at.checked_add(2)?.checked_add(length.into())?;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads a little-endian number of up to four bytes.
fn little_at(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + length)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u32::from(byte)))
}

/// Returns the media type and the base64 of a picture.
pub(crate) fn encode(bytes: &[u8]) -> Option<(String, String)> {
    let media_type = media_type(bytes)?;
    Some((media_type.to_owned(), base64::engine::general_purpose::STANDARD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size_of(bytes: &[u8]) -> Option<(u32, u32)> {
        // Behind the size there is more.
        let bytes = [bytes, &[0; 16]].concat();
        size(&encode(&bytes)?.1)
    }

    /// The beginning of a picture of each kind.
    fn pictures(width: u16, height: u16) -> Vec<Vec<u8>> {
        let (wide, high) = (width.to_be_bytes(), height.to_be_bytes());
        let (w, h) = (width.to_le_bytes(), height.to_le_bytes());
        let (w1, h1) = ((width - 1).to_le_bytes(), (height - 1).to_le_bytes());
        let bits = (u32::from(width - 1) | u32::from(height - 1) << 14).to_le_bytes();
        let webp = |kind: &[u8], rest: &[u8]| [b"RIFF\0\0\0\0WEBP", kind, &[0; 4], rest].concat();
        vec![
            [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", &wide[..], &[0, 0], &high].concat(),
            [b"GIF89a", &w[..], &h].concat(),
            [b"\xff\xd8\xff\xe0\0\x04JF\xff\xc2\0\x11\x08", &high[..], &wide].concat(),
            webp(b"VP8 ", &[&[0; 6], &w[..], &h].concat()),
            webp(b"VP8L", &[&[0x2f], &bits[..]].concat()),
            webp(b"VP8X", &[&[0; 4], &w1[..], &[0], &h1, &[0]].concat()),
        ]
    }

    proptest! {
        #[test]
        fn the_size_of_a_picture_of_any_kind_is_read(width in 1_u16..16_000, height in 1_u16..16_000) {
            for picture in pictures(width, height) {
                prop_assert_eq!(size_of(&picture), Some((width.into(), height.into())), "{:?}", picture);
            }
        }

        #[test]
        fn no_beginning_of_a_picture_panics(kind in 0_usize..6, rest in prop::collection::vec(any::<u8>(), 0..60), cut in 3_usize..90) {
            let mut bytes = pictures(1, 1).swap_remove(kind);
            bytes.truncate(16);
            bytes.extend(rest);
            bytes.truncate(cut);
            let _ = encode(&bytes).map(|(_, data)| size(&data));
        }
    }
}

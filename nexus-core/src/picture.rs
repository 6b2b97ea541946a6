//! Pictures by their bytes: which kind it is, and the form in which it travels.

use base64::Engine as _;

/// Most bytes of pictures that one answer of a tool, or the record of a conversation, shows a model: the length of their base64.
/// Source: our own bound, below what every vendor takes of one picture.
pub const MAX_PICTURE_BYTES: usize = 4 << 20;

/// The media type that the first bytes tell, or `None` if they are not those of PNG, JPEG, GIF or WebP, which
/// every vendor that takes pictures takes.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The media type and the base64 of a picture.
pub(crate) fn encode(bytes: &[u8]) -> Option<(String, String)> {
    let media_type = media_type(bytes)?;
    Some((media_type.to_owned(), base64::engine::general_purpose::STANDARD.encode(bytes)))
}

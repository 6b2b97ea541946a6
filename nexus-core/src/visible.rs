//! Displays foreign text so that every character is visible.

use std::fmt::{self, Write as _};

/// Displays a text with control characters and [invisible](is_invisible) characters escaped, as `\u{202e}`. Line
/// ends are escaped too.
///
/// ```
/// use nexus_core::visible::Visible;
///
/// assert_eq!(Visible("safe\u{202e}gpj.exe\n").to_string(), r"safe\u{202e}gpj.exe\u{a}");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Visible<'t>(pub &'t str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character.is_control() || is_invisible(character) {
            true => write!(f, "\\u{{{:x}}}", u32::from(character)),
            false => f.write_char(character),
        })
    }
}

/// Returns true if a character shows nothing, ends a line, or reverses the order of its neighbours: separators of
/// lines and paragraphs, marks of direction and of zero width, tags, and blank letters. Returns false for control
/// characters. Source: Unicode's general categories Zl, Zp and Cf, and the property Default_Ignorable_Code_Point,
/// without variation selectors, which emoji have.
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

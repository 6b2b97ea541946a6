//! Text that is never printed.

use std::fmt;

use zeroize::{ZeroizeOnDrop, Zeroizing};

/// A secret text. It prints as `[redacted]`, has no `Display` and no serialisation, and its memory is
/// overwritten when it is dropped.
///
/// ```
/// use nexus_core::Secret;
///
/// let token = Secret::new("very-private");
/// assert_eq!(format!("{token:?}"), "[redacted]");
/// assert_eq!(token.expose(), "very-private");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text. Review every call of this method.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// The inner `Zeroizing` overwrites the text on drop.
impl ZeroizeOnDrop for Secret {}

// Compile-time check that the inner text overwrites itself on drop.
const _: fn(&Secret) = |secret| {
    fn overwrites_itself<T: ZeroizeOnDrop>(_: &T) {}
    overwrites_itself(&secret.0);
};

// Compile-time check that a secret has neither `Display` nor serialisation. For a type that has one, two
// implementations fit `_`, and compilation fails.
const _: () = {
    trait Silent<Which> {
        const HOLDS: () = ();
    }
    struct Displayed;
    struct Serialised;
    impl<T> Silent<()> for T {}
    impl<T: fmt::Display> Silent<Displayed> for T {}
    impl<T: serde::Serialize> Silent<Serialised> for T {}
    let () = <Secret as Silent<_>>::HOLDS;
};

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

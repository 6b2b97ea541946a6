//! Declares text types, so that two kinds of text cannot be swapped.

#[doc(hidden)]
pub use serde;

/// Declares a type that holds one text: an id or a name, cheap to clone, written and read as plain text.
///
/// A type with a check is created with [`str::parse`]. Parsing and deserializing reject other texts with the error of the check. A
/// type without a check accepts every text with `new` and `From`.
///
/// ```
/// #[derive(Debug, PartialEq)]
/// pub struct NotASeat;
///
/// impl std::fmt::Display for NotASeat {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         f.write_str("a seat is one letter")
///     }
/// }
///
/// nexus_core::name_type! {
///     /// A seat at the table.
///     pub struct Seat: check_seat => NotASeat;
/// }
///
/// fn check_seat(text: &str) -> Result<(), NotASeat> {
///     if text.len() == 1 { Ok(()) } else { Err(NotASeat) }
/// }
///
/// assert_eq!("a".parse::<Seat>().unwrap().as_str(), "a");
/// assert_eq!("ab".parse::<Seat>(), Err(NotASeat));
/// ```
#[macro_export]
macro_rules! name_type {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $crate::name_type!(@type $(#[$meta])* $visibility $name);

        impl $name {
            /// Wraps the text unchanged.
            $visibility fn new(text: impl Into<std::sync::Arc<str>>) -> Self {
                Self(text.into())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }

        impl<'de> $crate::name_type::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::name_type::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as $crate::name_type::serde::Deserialize>::deserialize(deserializer).map(Self::from)
            }
        }
    };

    ($(#[$meta:meta])* $visibility:vis struct $name:ident: $check:path => $error:ty;) => {
        $crate::name_type!(@type $(#[$meta])* $visibility $name);

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                $check(text)?;
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $error;

            fn try_from(text: &str) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl<'de> $crate::name_type::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::name_type::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as $crate::name_type::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err($crate::name_type::serde::de::Error::custom)
            }
        }
    };

    (@type $(#[$meta:meta])* $visibility:vis $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $visibility struct $name(std::sync::Arc<str>);

        #[allow(dead_code, reason = "not every type needs every part")]
        impl $name {
            /// Returns the text.
            $visibility fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl $crate::name_type::serde::Serialize for $name {
            fn serialize<S: $crate::name_type::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    name_type! {
        /// Any text.
        struct AnyName;
    }
    name_type! {
        /// A text of digits.
        struct DigitName: check_digits => &'static str;
    }

    fn check_digits(text: &str) -> Result<(), &'static str> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) { Ok(()) } else { Err("these are no digits") }
    }

    #[test]
    fn a_name_is_plain_text_on_the_wire() {
        let name = AnyName::new("alpha");
        assert_eq!(serde_json::to_value(&name).unwrap(), serde_json::json!("alpha"));
        assert_eq!(serde_json::from_str::<AnyName>("\"alpha\"").unwrap(), name);
        assert_eq!(name.to_string(), "alpha");
        assert_eq!(format!("{name:?}"), "AnyName(\"alpha\")");
    }

    #[test]
    fn a_checked_name_is_checked_when_it_is_read() {
        assert_eq!(serde_json::from_str::<DigitName>("\"12\"").unwrap().as_str(), "12");
        let error = serde_json::from_str::<DigitName>("\"1a\"").unwrap_err().to_string();
        assert!(error.contains("these are no digits"), "{error}");
        assert_eq!(DigitName::try_from("x"), Err("these are no digits"));
    }
}

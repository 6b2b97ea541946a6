//! Closed sets of words in public answers.

/// Declares an enum of words that answers carry: each is written as its word, in files, in answers and in their JSON Schema.
///
/// ```
/// nexus_work::answer_words! {
///     /// State of a door.
///     pub enum DoorState {
///         /// People can pass.
///         Open = "open",
///         /// It is closed.
///         Shut = "shut",
///     }
/// }
///
/// assert_eq!(DoorState::Open.as_str(), "open");
/// assert_eq!(DoorState::of("shut"), Some(DoorState::Shut));
/// assert_eq!(DoorState::Shut, "shut");
/// ```
#[macro_export]
macro_rules! answer_words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$word_about:meta])* $word:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$word_about])* #[serde(rename = $text)] $word,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$word,)*];

            /// Returns the word of the value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }

            /// Returns the value of a word.
            pub fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == word)
            }

            /// Returns all words, as a list within a sentence.
            pub fn listed() -> String {
                [$($text),*].join(", ")
            }

            /// Returns the word as a person reads it.
            pub fn spoken(self) -> String {
                self.as_str().replace('_', " ")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        // Leave out the descriptions of the words: every client receives the schemas of all tools, so they must be short.
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($text),*] })
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, word: &&str) -> bool {
                self.as_str() == *word
            }
        }
    };
}

//! The name of a workspace, which is also the name of its folder.

use nexus_core::name_type;

/// Maximum length of an id, in bytes. Source: our own bound; every file system in use accepts longer names.
const MAX_BYTES: usize = 64;
/// Length of a random id: 130 bits.
const RANDOM_BYTES: usize = 26;
/// Characters of a random id. No upper case, as some file systems ignore case.
const RANDOM_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Names that Windows opens as a device in every folder, with or without a digit at the end.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

name_type! {
    /// Id of a workspace: 1 to 64 ASCII letters, digits, `-` and `_`. It is the name of a folder and never a path, and not a
    /// device name of Windows (`con`, `nul`, `com1`).
    ///
    /// ```
    /// use nexus_work::WorkspaceId;
    ///
    /// let id: WorkspaceId = "issue-12_attempt-3".parse()?;
    /// assert_eq!(id.as_str(), "issue-12_attempt-3");
    /// assert!("../issue-12".parse::<WorkspaceId>().is_err());
    /// # Ok::<(), nexus_work::InvalidWorkspaceId>(())
    /// ```
    pub struct WorkspaceId: check => InvalidWorkspaceId;
}

impl WorkspaceId {
    /// Creates a random id, with 130 bits from the operating system's generator.
    ///
    /// # Panics
    ///
    /// If the operating system cannot provide random numbers.
    pub fn random() -> Self {
        let mut bytes = [0; RANDOM_BYTES];
        if let Err(error) = getrandom::fill(&mut bytes) {
            panic!("the operating system gives no random numbers: {error}");
        }
        // 256 is a multiple of 32, so every character is equally likely.
        let character = |byte: &u8| char::from(RANDOM_ALPHABET[usize::from(byte % 32)]);
        Self(bytes.iter().map(character).collect::<String>().into())
    }
}

/// Returns true if Windows would open a device and not a file of this name.
fn is_device(text: &str) -> bool {
    // Windows opens a device for such a name, in every folder and in any case.
    let text = text.to_ascii_lowercase();
    let is_numbered = |device: &str| {
        text.strip_prefix(device).is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit())
    };
    DEVICES.contains(&text.as_str()) || NUMBERED_DEVICES.iter().any(|device| is_numbered(device))
}

fn check(text: &str) -> Result<(), InvalidWorkspaceId> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.is_empty() || text.len() > MAX_BYTES || !text.bytes().all(fits) || is_device(text) {
        return Err(InvalidWorkspaceId { text: text.chars().take(2 * MAX_BYTES).collect() });
    }
    Ok(())
}

/// The text is not a valid id of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not the id of a workspace: write 1 to {MAX_BYTES} ASCII letters, digits, `-` and `_`, and \
    no name of a Windows device"
)]
pub struct InvalidWorkspaceId {
    /// The given text, shortened.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_lead_out_of_the_folder_is_no_id() {
        let long = "x".repeat(65);
        for text in ["", ".", "..", "a/b", "a\\b", "/a", "C:", "a.b", "a b", "é", "a\0", "a\n", &long] {
            assert!(text.parse::<WorkspaceId>().is_err(), "{text:?}");
        }
        for text in ["con", "NUL", "Aux", "com1", "LPT9"] {
            assert!(text.parse::<WorkspaceId>().is_err(), "{text:?}");
        }
        for text in ["a", "-", "_", "console", "com10", "com", "comx", &"x".repeat(64)] {
            assert!(text.parse::<WorkspaceId>().is_ok(), "{text:?}");
        }
        assert!(serde_json::from_str::<WorkspaceId>("\"../a\"").is_err());
    }

    #[test]
    fn random_ids_differ_and_are_ids() {
        let (one, other) = (WorkspaceId::random(), WorkspaceId::random());
        assert_ne!(one, other);
        assert_eq!(one.as_str().parse::<WorkspaceId>().unwrap(), one);
    }
}

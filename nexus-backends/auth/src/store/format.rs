//! The format of a stored login: JSON with a version.
//!
//! ```json
//! {
//!   "version": 1,
//!   "generation": 7,
//!   "access_token": "...",
//!   "refresh_token": "...",
//!   "obtained_at": 1795253000,
//!   "expires_at": 1795256600,
//!   "identity": { "account": "...", "email": "...", "plan": "..." },
//!   "origin": {}
//! }
//! ```
//!
//! Times are in seconds since 1970, by our clock. Unknown values are left out. `refused` exists once the issuer
//! has refused to refresh the login. A text ends with `}` and a line feed, so a truncated text is always
//! recognised.
//!
//! **An unknown field is refused**, not carried over: it may belong to the very tokens that a refresh replaces,
//! so carrying it over would be a guess, and dropping it a loss. A change that adds a field raises the version.
//!
//! **Token text in memory**: it is in [`Secret`]s and buffers that are overwritten when dropped, and in the
//! buffer of the system call. Out of reach are the pages of the file system or of the keyring's daemon, the
//! disk blocks of a replaced file, and, for a token with characters that JSON escapes (no known issuer creates
//! one), the scratch space in which `serde_json` unescapes.

use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_core::Secret;
use serde::Serialize;
use serde_json::{Map, Value};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::strict::{SecretText, StrictMap, UnreadFields};
use crate::{Identity, Login};

/// The version written, and the only one read.
const VERSION: u64 = 1;

/// Latest time that is written or read, in seconds since 1970: the end of the year 9999.
const LATEST_SECONDS: u64 = 253_402_300_799;

/// Last bytes of every text.
const ENDING: &str = "}\n";

/// Advice for a text that cannot be parsed.
const WAY_OUT: &str = "restore a complete copy, or move it away and log in again";

/// A login in the form that a store contains.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLogin {
    /// The login itself.
    pub login: Login,
    /// Number of writes. Of two texts, the one with the higher number is newer.
    pub generation: u64,
    /// Error code with which the issuer refused a refresh. If it is set, the login ends when its access token expires.
    pub refused: Option<String>,
}

// Compile-time check: fields with a secret must overwrite it when dropped. A new field breaks this pattern, so its
// author must decide.
const _: fn(&StoredLogin) = |stored| {
    fn is_overwritten<T: ZeroizeOnDrop>(_: &T) {}

    let StoredLogin { login, generation: _, refused: _ } = stored;
    let Login { access_token, refresh_token, obtained_at: _, expires_at: _, identity: _, origin: _ } = login;
    is_overwritten(access_token);
    is_overwritten(refresh_token);
};

#[derive(Serialize)]
struct WrittenLogin<'a> {
    version: u64,
    generation: u64,
    access_token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<&'a str>,
    obtained_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    identity: WrittenIdentity<'a>,
    origin: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct WrittenIdentity<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a str>,
}

impl StoredLogin {
    /// Creates a stored login of generation 1.
    pub fn new(login: Login) -> Self {
        Self { login, generation: 1, refused: None }
    }

    /// Returns the login as text. Times are truncated to seconds.
    pub fn to_text(&self) -> Secret {
        let Self { login, generation, refused } = self;
        written(&WrittenLogin {
            version: VERSION,
            generation: *generation,
            access_token: login.access_token.expose(),
            refresh_token: login.refresh_token.as_ref().map(Secret::expose),
            obtained_at: seconds(login.obtained_at),
            expires_at: login.expires_at.map(seconds),
            refused: refused.as_deref(),
            identity: WrittenIdentity {
                account: login.identity.account.as_deref(),
                email: login.identity.email.as_deref(),
                plan: login.identity.plan.as_deref(),
            },
            origin: &login.origin,
        })
    }

    /// Parses a text that [`StoredLogin::to_text`] wrote.
    ///
    /// # Errors
    ///
    /// The fault of the text, with advice and without any part of the text.
    pub fn from_text(text: &Secret) -> Result<Self, String> {
        let mut fields = versioned(text)?;
        if fields.has(STORED_IN) {
            return Err("it contains only the location of the login".to_owned());
        }
        // The next refresh rewrites the text and would lose an unknown field, so reject such a text.
        Self::from_fields(&mut fields).and_then(|stored| fields.end().map(|()| stored)).map_err(with_way_out)
    }

    fn from_fields(fields: &mut UnreadFields<'_>) -> Result<Self, String> {
        let SecretText(access_token) = fields.require("access_token", "a text")?;
        let refresh_token = fields.take::<SecretText>("refresh_token", "a text")?;
        let obtained_at = time("obtained_at", fields.require("obtained_at", "a number of seconds")?)?;
        let expires_at = fields.take("expires_at", "a number of seconds")?;
        let StrictMap(origin) = fields.require("origin", "an object")?;
        let mut login = Login::new(access_token, obtained_at)
            .with_refresh_token(refresh_token.map(|SecretText(token)| token))
            .with_identity(identity(fields.take_object("identity")?)?)
            .with_origin(origin);
        login.expires_at = expires_at.map(|seconds| time("expires_at", seconds)).transpose()?;
        Ok(Self {
            login,
            generation: fields.require("generation", "a number")?,
            refused: fields.take("refused", "a text")?,
        })
    }
}

fn identity(mut fields: UnreadFields<'_>) -> Result<Identity, String> {
    let identity = Identity {
        account: fields.take("account", "a text")?,
        email: fields.take("email", "a text")?,
        plan: fields.take("plan", "a text")?,
    };
    fields.end().map(|()| identity)
}

/// Field of a text that contains only the location of the login.
const STORED_IN: &str = "stored_in";

/// Returns the text for the file of a login that is in the keyring of the system.
pub(super) fn keyring_pointer() -> Secret {
    written(&serde_json::json!({ "version": VERSION, STORED_IN: "keyring" }))
}

/// Returns true if a text is that of [`keyring_pointer`]. Returns false for any other text, which the caller parses as
/// a login.
///
/// # Errors
///
/// The text names an unknown location. The error has the fault and advice.
pub(super) fn points_to_keyring(text: &Secret) -> Result<bool, String> {
    let Ok(fields) = UnreadFields::of(text.expose()) else { return Ok(false) };
    if !fields.has(STORED_IN) {
        return Ok(false);
    }
    let mut fields = versioned(text)?;
    let place: String = fields.require(STORED_IN, "a text").map_err(with_way_out)?;
    fields.end().map_err(with_way_out)?;
    match place.as_str() {
        "keyring" => Ok(true),
        _ => {
            Err("it names a location of the login that this version of Nexus does not support: update Nexus"
                .to_owned())
        }
    }
}

/// Returns true if a text is complete.
pub(super) fn is_whole(text: &Secret) -> bool {
    text.expose().ends_with(ENDING) && UnreadFields::of(text.expose()).is_ok()
}

/// Returns true for a truncated or overwritten text, and for a text of our version that cannot be parsed as a login.
pub(super) fn is_damaged(text: &Secret) -> bool {
    match versioned(text) {
        _ if !is_whole(text) => true,
        Ok(fields) => !fields.has(STORED_IN) && StoredLogin::from_text(text).is_err(),
        // The text of another version is not damaged, so it must not be moved away.
        Err(_) => false,
    }
}

/// Checks that a text is a login or that of [`keyring_pointer`].
///
/// # Errors
///
/// The fault of the text, with advice.
pub(super) fn understand(text: &Secret) -> Result<(), String> {
    match points_to_keyring(text)? {
        true => Ok(()),
        false => StoredLogin::from_text(text).map(drop),
    }
}

/// Returns the fields of a complete text of our version.
fn versioned(text: &Secret) -> Result<UnreadFields<'_>, String> {
    let text = text.expose();
    if text.is_empty() {
        return Err(with_way_out("it is empty"));
    }
    if !text.ends_with(ENDING) {
        return Err(with_way_out("it ends too early"));
    }
    let mut fields = UnreadFields::of(text).map_err(with_way_out)?;
    // Check the version first, because a newer format may have other fields.
    check_version(fields.require("version", "a number").map_err(with_way_out)?)?;
    Ok(fields)
}

fn check_version(version: u64) -> Result<(), String> {
    match version {
        0 => Err(with_way_out("its `version` is not a version that Nexus writes")),
        VERSION => Ok(()),
        newer => Err(format!(
            "a newer version of Nexus wrote it (format version {newer}; this version supports {VERSION}): \
             update Nexus"
        )),
    }
}

fn with_way_out(reason: impl std::fmt::Display) -> String {
    format!("{reason}: {WAY_OUT}")
}

fn seconds(time: SystemTime) -> u64 {
    // Write no time that `time` would reject when the text is read again.
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().min(LATEST_SECONDS)
}

fn time(name: &str, seconds: u64) -> Result<SystemTime, String> {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).filter(|_| seconds <= LATEST_SECONDS);
    time.ok_or_else(|| format!("its `{name}` is not a valid time"))
}

/// Serialises twice: first to count the bytes, then into a buffer of exactly that size. The buffer is never
/// reallocated, so no copy of the secret stays behind.
fn written(value: &impl Serialize) -> Secret {
    const NEVER_FAILS: &str = "texts, numbers and maps of them always serialise";

    let mut length = Length(0);
    serde_json::to_writer_pretty(&mut length, value).expect(NEVER_FAILS);
    let mut text = Zeroizing::new(Vec::with_capacity(length.0 + 1));
    serde_json::to_writer_pretty(&mut *text, value).expect(NEVER_FAILS);
    text.push(b'\n');
    debug_assert_eq!(text.len(), length.0 + 1);
    Secret::new(String::from_utf8(std::mem::take(&mut *text)).expect("JSON is UTF-8"))
}

/// Writer that only counts bytes.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

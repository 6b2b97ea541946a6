//! The keys of accounts.

use nexus_router::hold::Slot;

/// Returns the key of the hold on an account.
pub(super) fn hold_key(account: &str) -> String {
    escaped(account)
}

/// Returns the key of the probe slot of an account.
pub(super) fn probe_key(account: &str) -> String {
    format!("{}.{PROBE}", escaped(account))
}

/// Suffix of [`probe_key`].
pub(super) const PROBE: &str = "probe";

/// Returns the key of a slot of an account.
pub(super) fn slot_key(account: &str, slot: &Slot) -> String {
    match slot {
        Slot::Turn(_, index) => format!("{}.turn-{index}", escaped(account)),
        Slot::Next(_) => format!("{}.next", escaped(account)),
        _ => probe_key(account),
    }
}

/// Returns the pattern of the keys of an account's slots.
pub(super) fn slots_of(account: &str) -> String {
    format!("{}.*", escaped(account))
}

/// Returns the account of a [`hold_key`]. `None` for any other key.
pub(super) fn account_of_key(key: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'=' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Encodes a name as one token of a subject: each byte that is not allowed becomes `=` and two hexadecimal digits.
fn escaped(name: &str) -> String {
    name.bytes().fold(String::with_capacity(name.len()), |mut key, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => key.push(char::from(byte)),
            _ => key.push_str(&format!("={byte:02x}")),
        }
        key
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_key_of_its_own_and_is_found_again() {
        for (name, key) in [
            ("codex-cli", "codex-cli"),
            ("a.b", "a=2eb"),
            ("a=2eb", "a=3d2eb"),
            ("Größe *>", "Gr=c3=b6=c3=9fe=20=2a=3e"),
        ] {
            assert_eq!(hold_key(name), key);
            assert_eq!(account_of_key(key).as_deref(), Some(name));
        }
        for odd in ["=", "=2", "=zz", "=ff"] {
            assert_eq!(account_of_key(odd), None, "{odd}");
        }
    }
}

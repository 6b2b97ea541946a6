//! SHA-256, as hubs and installed skills write it: 64 small hexadecimal digits.

use sha2::{Digest as _, Sha256};

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

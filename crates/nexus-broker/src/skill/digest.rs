//! SHA-256, as hubs and installed skills write it: 64 small hexadecimal digits.

use sha2::{Digest as _, Sha256};

pub(super) fn sha256(bytes: &[u8]) -> String {
    nexus_files::hex(Sha256::digest(bytes))
}

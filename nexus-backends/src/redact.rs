//! What the vendors' own keys look like, for the [`Redactor`].

use nexus_core::redact::Redactor;

use crate::registry::KEY_PREFIXES;

/// Looks for these secrets, and for what looks like a token of any vendor's. An empty secret is ignored.
pub(crate) fn redactor(secrets: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Redactor {
    Redactor::new(secrets).with_key_prefixes(KEY_PREFIXES)
}

#[cfg(test)]
mod tests {
    use crate::redact::redactor;

    #[test]
    fn keys_of_every_vendor_go() {
        let shown =
            redactor(["hunter2"]).redact(b"hunter2 xai-0123456789abcdef sk-ant-0123456789abcdef xai-note");
        assert_eq!(String::from_utf8_lossy(&shown), "[redacted] [redacted] [redacted] xai-note");
    }
}

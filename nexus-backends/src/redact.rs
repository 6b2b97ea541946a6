//! Formats of the vendors' own keys, for the [`Redactor`].

use nexus_core::redact::Redactor;

use crate::wire_names::KEY_PREFIXES;

/// Returns a redactor with the secrets of `redactor`, which also removes texts that look like a key of any vendor.
pub(crate) fn with_key_prefixes(redactor: &Redactor) -> Redactor {
    redactor.clone().with_key_prefixes(KEY_PREFIXES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_vendor_go() {
        let redactor = with_key_prefixes(&Redactor::new(["hunter2"]));
        let shown = redactor.redact_text("hunter2 xai-0123456789abcdef sk-ant-0123456789abcdef xai-note");
        assert_eq!(shown, "[redacted] [redacted] [redacted] xai-note");
    }
}

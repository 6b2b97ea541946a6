//! Forms of the vendors' own keys, for the [`Redactor`].

use nexus_core::redact::Redactor;

use crate::wire_names::KEY_PREFIXES;

/// Looks for what `redactor` knows and learns, and for what looks like a token of any vendor's.
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

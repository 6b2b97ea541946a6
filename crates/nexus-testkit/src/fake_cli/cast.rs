//! The imitation for each vendor.

use super::{Vendor, imitation::Imitation};

/// The imitation of a vendor's harness, if this build has one.
pub(super) fn imitation_of(vendor: Vendor) -> Option<Box<dyn Imitation>> {
    match vendor {
        Vendor::Claude => Some(Box::new(super::claude::Claude::default())),
        Vendor::Grok => Some(Box::new(super::grok::Grok::default())),
        Vendor::Codex => Some(Box::new(super::codex::Codex::default())),
        Vendor::CodexAcp => Some(Box::new(super::codex_acp::CodexAcp::default())),
    }
}

//! The cases, one file for each family.

pub(super) mod failure;
pub(super) mod text;

/// A picture of one pixel, in base64.
pub(super) const ONE_PIXEL_PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

//! Images that the program drops from the prompt.

use nexus_core::PromptBlock;

/// Minimum number of pixels of an image that reaches the model. The program reports a dropped image only to its model.
/// Source: observed with grok 1.0.41.
const LEAST_PIXELS: u64 = 512;

/// Returns warnings about the images that the program drops.
pub(super) fn warnings(prompt: &[PromptBlock]) -> Vec<String> {
    let sizes = prompt.iter().filter_map(PromptBlock::image_size);
    let dropped = sizes.filter(|&(width, height)| u64::from(width) * u64::from(height) < LEAST_PIXELS);
    let warning = |(width, height)| {
        format!(
            "a picture of {width}×{height} pixels does not reach the model: Grok drops pictures of less than \
            {LEAST_PIXELS} pixels"
        )
    };
    dropped.map(warning).collect()
}

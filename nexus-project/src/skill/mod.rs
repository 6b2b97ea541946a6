//! Skills, and which of them is active.

use crate::{error::ProjectError, folder::Project};

impl Project {
    /// The skill that is active.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "to be written")]
    pub(crate) fn active_skill(&self) -> Result<Option<String>, ProjectError> {
        Ok(None)
    }
}

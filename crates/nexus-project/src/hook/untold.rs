//! `state/{harness}/untold.json`: texts that wait for the next answer that the program passes on to its model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{error::ProjectError, file, folder::ProjectFolder, state::Document};

/// Maximum length of the texts together, in bytes. Beyond it the oldest are dropped. Source: our own bound.
const MOST_UNTOLD: usize = 32 << 10;

/// Texts that were not sent yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Untold {
    /// The version of this file: 1.
    version: u32,
    /// The session whose model gets the texts.
    session: String,
    /// The texts, oldest first.
    texts: Vec<String>,
}

impl Document for Untold {
    const NAME: &'static str = "untold.json";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl ProjectFolder {
    /// Stores a text for the model of a session. Drops the texts of another session.
    pub(super) fn keep_untold(&self, harness: &str, session: &str, text: String) -> Result<(), ProjectError> {
        let path = self.harness_path(harness)?.join(Untold::NAME);
        self.locked(|| {
            let before = Untold::read(&path)?.filter(|untold| untold.session == session);
            let mut texts = before.map(|untold| untold.texts).unwrap_or_default();
            texts.push(text);
            // The newest text always stays, even if it alone is above the limit.
            while texts.len() > 1 && texts.iter().map(String::len).sum::<usize>() > MOST_UNTOLD {
                texts.remove(0);
            }
            Untold { version: 1, session: session.to_owned(), texts }.write(&path)
        })
    }

    /// Removes and returns the stored texts for the model of a session.
    pub(super) fn take_untold(&self, harness: &str, session: &str) -> Result<Option<String>, ProjectError> {
        let path = self.harness_path(harness)?.join(Untold::NAME);
        // Look without the lock first: this runs before every tool call, and a text is rarely there.
        if !path.is_file() {
            return Ok(None);
        }
        self.locked(|| {
            let Some(untold) = Untold::read(&path)?.filter(|untold| untold.session == session) else {
                return Ok(None);
            };
            file::remove(&path)?;
            Ok(Some(untold.texts.join("\n\n")))
        })
    }
}

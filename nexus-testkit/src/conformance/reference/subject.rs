//! The reference backend before the suite.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use nexus_core::ModelId;

use super::backend::ReferenceBackend;
use crate::conformance::{ScriptedModel, Setting, Stage, StageError, Subject, Timing};

/// Stages a [`ReferenceBackend`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceSubject;

#[async_trait]
impl Subject for ReferenceSubject {
    fn name(&self) -> &str {
        "reference"
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        let model = Arc::new(ScriptedModel::new(&setting));
        let backend = ReferenceBackend::new(Arc::clone(&model), setting.home, setting.environment);
        Ok(Stage::new(Arc::new(backend), model))
    }

    fn model(&self) -> Option<ModelId> {
        Some("reference-1".into())
    }

    fn timing(&self) -> Timing {
        Timing { short: Duration::from_millis(400), bound: Duration::from_secs(20) }
    }
}

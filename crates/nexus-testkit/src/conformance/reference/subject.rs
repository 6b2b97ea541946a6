//! The reference backend before the suite.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use nexus_core::ModelId;

use super::backend::ReferenceBackend;
use crate::conformance::{ScriptedModel, Setting, Stage, StageError, Subject, Timing};

/// Stages a [`ReferenceBackend`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceSubject;

/// Stages a [`ReferenceBackend`] with only the caller's tools, so that cases bring theirs.
#[derive(Clone, Copy, Debug, Default)]
pub struct BareReferenceSubject;

#[async_trait]
impl Subject for ReferenceSubject {
    fn name(&self) -> &str {
        "reference"
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        Ok(stage(setting, |backend| backend))
    }

    fn model(&self) -> Option<ModelId> {
        Some("reference-1".into())
    }

    fn timing(&self) -> Timing {
        Timing { short: Duration::from_secs(1), bound: Duration::from_secs(300) }
    }
}

#[async_trait]
impl Subject for BareReferenceSubject {
    fn name(&self) -> &str {
        "reference without a harness"
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        Ok(stage(setting, ReferenceBackend::without_harness))
    }

    fn model(&self) -> Option<ModelId> {
        ReferenceSubject.model()
    }

    fn timing(&self) -> Timing {
        ReferenceSubject.timing()
    }
}

fn stage(setting: Setting, change: fn(ReferenceBackend) -> ReferenceBackend) -> Stage {
    let model = Arc::new(ScriptedModel::new(&setting));
    let renewable = setting.renewable;
    let mut backend = ReferenceBackend::new(Arc::clone(&model), setting.home, setting.environment);
    if let Some(renewable) = renewable {
        backend = backend.with_credential(renewable);
    }
    Stage::new(Arc::new(change(backend)), model)
}

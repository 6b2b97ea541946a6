//! An agent that follows a script, for tests through the public API.

pub(crate) mod attempts;

use std::sync::Arc;

use nexus_core::{BuildContext, Enforcement, ExecutionBackend, LimitSupport, Registry, TurnRequest};
use nexus_router::Router;
use nexus_testkit::scripted::{Act, ScriptedBackend};
use serde_json::json;

/// A backend that plays `turns`, and panics at one more.
pub(crate) fn agent(id: &str, turns: Vec<Vec<Act>>) -> Arc<ScriptedBackend> {
    let backend = ScriptedBackend::playing(id, turns);
    Arc::new(backend.capable(|capabilities| {
        capabilities.limits = LimitSupport::new().with_output_tokens(Enforcement::Ours);
    }))
}

/// A backend that plays each turn by what is asked.
pub(crate) fn agent_by(
    id: &str,
    script: impl Fn(&TurnRequest) -> Vec<Act> + Send + Sync + 'static,
) -> Arc<ScriptedBackend> {
    Arc::new(ScriptedBackend::by(id, move |turn| script(&turn.request)))
}

/// Such a backend, and a router whose only work-kind is `worker`.
pub(crate) fn scripted(turns: Vec<Vec<Act>>) -> (Router, Arc<ScriptedBackend>) {
    let backend = agent("alpha", turns);
    (router_over(&[&backend], "before-writes"), backend)
}

/// A router whose only work-kind is `worker`: these backends, one after the other, by a fallback rule.
pub(crate) fn router_over(backends: &[&Arc<ScriptedBackend>], fallback: &str) -> Router {
    let ids: Vec<&str> = backends.iter().map(|backend| backend.id().as_str()).collect();
    let configuration = json!({
        "groups": { "only": ids },
        "types": { "worker": {
            "tier": "execution", "phase": "implement", "group": "only", "model": { "exact": "any" }, "fallback": fallback,
        } },
    });
    let builder = Router::builder(Registry::new(), BuildContext::in_home("home"));
    let builder = backends
        .iter()
        .fold(builder, |builder, backend| builder.backend(Arc::clone(backend) as Arc<dyn ExecutionBackend>));
    builder.from_value(configuration).unwrap()
}

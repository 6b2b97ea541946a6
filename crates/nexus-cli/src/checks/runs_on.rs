//! Backends that would run a turn now, from the router's explanation and the probes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use nexus::{Availability, BackendId, Effort, ExplainedChain, ExplainedTarget, ModelId, VendorId, Verdict};
use nexus_files::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;

/// Reason why a turn without a model does not start.
pub(super) const NO_MODEL: &str =
    "no model is named: set `model` in the settings of the backend, or in the types that use it";

/// Backend that would run a turn, or one seat of a panel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunsOn {
    /// Number of the seat, in a panel.
    #[serde(skip_serializing_if = "Option::is_none")]
    seat: Option<usize>,
    /// First ready backend of the chain. `None` if every backend is skipped.
    #[schemars(with = "Option<String>")]
    pub(super) backend: Option<BackendId>,
    /// Vendor of that backend.
    #[serde(skip)]
    pub(super) vendor: Option<VendorId>,
    #[schemars(with = "Option<String>")]
    model: Option<ModelId>,
    #[schemars(with = "Option<String>")]
    effort: Option<Effort>,
    /// Backends before it in the chain, each with the reason why it would not run.
    passed_over: Vec<SkippedBackend>,
}

/// Backend that was passed over.
#[derive(Debug, Serialize, JsonSchema)]
struct SkippedBackend {
    #[schemars(with = "String")]
    backend: BackendId,
    reason: String,
}

impl RunsOn {
    /// `needs_model` has the backends that run no turn without a model.
    pub(super) fn of(
        target: &ExplainedTarget,
        found: &BTreeMap<&BackendId, &Availability>,
        needs_model: &BTreeSet<BackendId>,
    ) -> Vec<Self> {
        match target {
            ExplainedTarget::Chain(chain) => vec![Self::chain(None, chain, found, needs_model)],
            ExplainedTarget::Panel { seats, .. } => {
                let seats = seats.iter().enumerate();
                seats.map(|(index, seat)| Self::chain(Some(index), &seat.chain, found, needs_model)).collect()
            }
            // This version does not know the target. Its explanation is printed beside this value.
            _ => Vec::new(),
        }
    }

    fn chain(
        seat: Option<usize>,
        chain: &ExplainedChain,
        found: &BTreeMap<&BackendId, &Availability>,
        needs_model: &BTreeSet<BackendId>,
    ) -> Self {
        let mut passed_over = Vec::new();
        let (mut backend, mut vendor, mut model) = (None, None, chain.model.as_ref());
        for entry in &chain.entries {
            let has_model = entry.model.is_some() || chain.model.is_some();
            let lacks_model = || needs_model.contains(&entry.backend) && !has_model;
            let obstacle = obstacle(&entry.verdict, found.get(&entry.backend).copied());
            match obstacle.or_else(|| lacks_model().then(|| NO_MODEL.to_owned())) {
                None => {
                    backend = Some(entry.backend.clone());
                    vendor.clone_from(&entry.vendor);
                    model = entry.model.as_ref().or(model);
                    break;
                }
                Some(reason) => {
                    passed_over.push(SkippedBackend { backend: entry.backend.clone(), reason });
                }
            }
        }
        Self { seat, backend, vendor, model: model.cloned(), effort: chain.effort, passed_over }
    }
}

/// Returns the reason why a turn would not run on a backend; `None` if it would.
fn obstacle(verdict: &Verdict, found: Option<&Availability>) -> Option<String> {
    match verdict {
        Verdict::Parked { reason } => return Some(format!("parked: {reason}")),
        Verdict::Absent { reason } => return Some(reason.clone()),
        Verdict::Held { reason, until, .. } => {
            return Some(format!("held until {}: {reason}", rfc3339::seconds(*until)));
        }
        Verdict::Unsupported { need } => return Some(format!("does not support {need}")),
        _ => {}
    }
    match found? {
        Availability::Ready { .. } => None,
        Availability::NotInstalled { .. } => Some("not installed".to_owned()),
        Availability::Unauthenticated { .. } => Some("not logged in".to_owned()),
        Availability::Unusable { reason } => Some(reason.clone()),
        _ => Some("not ready".to_owned()),
    }
}

impl fmt::Display for RunsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seat) = self.seat {
            write!(f, ", seat {seat}")?;
        }
        match &self.backend {
            Some(backend) => {
                write!(f, ": {backend}")?;
                if let Some(model) = &self.model {
                    write!(f, ", model {model}")?;
                }
                if let Some(effort) = self.effort {
                    write!(f, ", effort {effort}")?;
                }
            }
            None => f.write_str(": no backend could run it")?,
        }
        let passed = self.passed_over.iter().map(|passed| format!("{}: {}", passed.backend, passed.reason));
        let passed = passed.collect::<Vec<_>>().join("; ");
        if passed.is_empty() { Ok(()) } else { write!(f, " (passed over {passed})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_is_not_ready_is_passed_over() {
        let missing = Availability::NotInstalled { looked_in: Vec::new(), remedy: String::new() };
        assert_eq!(obstacle(&Verdict::First, Some(&missing)).as_deref(), Some("not installed"));
        assert_eq!(obstacle(&Verdict::Next, Some(&Availability::ready(None))), None);
    }

    #[test]
    fn a_backend_that_is_parked_is_passed_over_although_it_is_ready() {
        let parked = Verdict::Parked { reason: "it stalls".into() };
        let found = Availability::ready(None);
        assert_eq!(obstacle(&parked, Some(&found)).as_deref(), Some("parked: it stalls"));
    }
}

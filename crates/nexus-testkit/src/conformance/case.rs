//! A case: one promise of the seam, and its test.

use futures::future::BoxFuture;
use nexus_core::Capabilities;

use super::{feature::Feature, finding::Verdict, trial::Trial};

/// One promise of the seam, and its test.
#[derive(Clone, Copy)]
pub struct Case {
    /// The family it belongs to.
    pub family: &'static str,
    /// The promise, as a name.
    pub name: &'static str,
    /// Features that a backend must declare for the case to apply. If it declares all of them, the case proves them.
    pub needs: &'static [Feature],
    pub(super) run: for<'t> fn(&'t Trial<'t>) -> BoxFuture<'t, Verdict>,
}

impl Case {
    /// Returns the features that the case proves for a backend with `capabilities`.
    pub(super) fn shows(&self, capabilities: &Capabilities) -> Vec<Feature> {
        let with_others = |need: &Feature| [&[*need], need.stands_for(capabilities)].concat();
        self.needs.iter().flat_map(with_others).collect()
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::{}", self.family, self.name)
    }
}

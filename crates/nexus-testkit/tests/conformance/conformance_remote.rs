//! A turn that runs elsewhere than its caller keeps every promise.

use std::sync::Arc;

use libtest_mimic::Trial;
use nexus_testkit::conformance::{
    self, RemoteSubject, Subject,
    reference::{BareReferenceSubject, ReferenceSubject},
};

pub(crate) fn trials() -> Vec<Trial> {
    let subjects: [(&str, Arc<dyn Subject>); 2] = [
        ("reference", Arc::new(ReferenceSubject)),
        ("reference_without_a_harness", Arc::new(BareReferenceSubject)),
    ];
    let remote = |(name, subject): (&str, Arc<dyn Subject>)| {
        let subject: Arc<dyn Subject> = Arc::new(RemoteSubject::new(subject));
        conformance::trials(&format!("conformance_remote::{name}"), &subject)
    };
    subjects.into_iter().flat_map(remote).collect()
}

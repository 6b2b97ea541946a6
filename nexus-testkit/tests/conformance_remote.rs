//! A turn that runs elsewhere than its caller keeps every promise.

mod reference {
    use std::sync::Arc;

    use nexus_testkit::conformance::{RemoteSubject, reference::ReferenceSubject};

    nexus_testkit::conformance_tests!(RemoteSubject::new(Arc::new(ReferenceSubject)));
}

mod reference_without_a_harness {
    use std::sync::Arc;

    use nexus_testkit::conformance::{RemoteSubject, reference::BareReferenceSubject};

    nexus_testkit::conformance_tests!(RemoteSubject::new(Arc::new(BareReferenceSubject)));
}

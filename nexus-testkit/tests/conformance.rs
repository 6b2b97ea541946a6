//! The reference backend keeps every promise.

mod reference {
    nexus_testkit::conformance_tests!(nexus_testkit::conformance::reference::ReferenceSubject);
}

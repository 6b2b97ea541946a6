//! nexus-backends

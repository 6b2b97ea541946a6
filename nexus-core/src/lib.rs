//! nexus-core

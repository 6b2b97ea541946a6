//! nexus-router

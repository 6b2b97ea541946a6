//! Nexus.

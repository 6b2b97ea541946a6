//! nexus-testkit

//! The integration tests.

mod named_conversations;

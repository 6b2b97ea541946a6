//! Planning artifacts: the lint, byte for byte, and writers that are many and are killed.

mod decisions;
mod handoffs;
mod kills;
mod rules;
mod scaffolding;
mod support;
mod texts;
mod transitions;

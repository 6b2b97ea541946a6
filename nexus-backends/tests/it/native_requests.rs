//! What the native backends send, held against what the vendors' own programs sent.
//!
//! `transcripts/native/requests` has requests of codex 0.169.0 and grok 1.0.41. Ours need not have everything
//! that theirs have; what they leave out, and what they say otherwise, is listed beside each comparison, and
//! nothing else may differ.

mod any_server;
mod catalogs;
mod chatgpt;
mod clouds;
mod codex;
mod grok;
mod providers;
mod support;

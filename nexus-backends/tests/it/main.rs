//! The backends against simulated vendors, scripts in the place of their programs, and recordings. Tests that need a
//! vendor's real program are ignored by default; each module says what its tests need.

mod acp_agents;
mod acp_questions;
mod claude_first_turns;
mod claude_real;
mod claude_transcripts;
#[cfg(target_os = "linux")]
mod claude_untouched;
mod cli_prices;
mod codex_real;
mod codex_transcripts;
mod grok_real;
mod grok_transcripts;
mod host_death;
mod independent_server;
mod inference_server;
mod lease_expiry;
#[cfg(target_os = "linux")]
mod lease_real;
mod lease_removal;
mod mcp_server;
mod mcp_server_real;
mod mcp_servers;
mod mutated_streams;
mod native_independent;
mod native_loop;
mod native_requests;
mod native_transcripts;
mod sandboxed_agents;
mod sandboxed_clis;
mod signature_oracle;
mod support;
mod vendor_logins;

//! The `nexus` command as a process of its own.
//!
//! Modules named `…_real` need programs that others wrote; the head of each says which. They are ignored unless asked for.

#[cfg(target_os = "linux")]
mod acp;
#[cfg(target_os = "linux")]
mod acp_real;
#[cfg(all(unix, feature = "keyring"))]
mod agent;
mod api_key;
mod artifact;
#[cfg(all(feature = "keyring", feature = "login", feature = "otlp"))]
mod book;
#[cfg(target_os = "linux")]
mod broker;
mod broker_real;
#[cfg(target_os = "linux")]
mod chat;
mod clean;
mod command;
mod configuration;
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(target_os = "linux")]
mod debate;
#[path = "../../../nexus-debates/examples/debate/model.rs"]
mod debate_model;
#[cfg(all(target_os = "linux", feature = "demo"))]
mod demo;
#[cfg(target_os = "linux")]
mod detection;
mod doctor;
#[cfg(target_os = "linux")]
mod every_command;
#[cfg(all(target_os = "linux", feature = "otlp"))]
mod fleet_command;
mod holds;
#[cfg(unix)]
mod hook;
#[cfg(target_os = "linux")]
mod json;
#[cfg(all(unix, feature = "login"))]
mod login;
mod mcp;
mod mcp_callers_real;
#[cfg(target_os = "linux")]
mod mcp_kills;
mod mcp_servers;
mod models;
mod native_agent;
#[cfg(target_os = "linux")]
mod other_users;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod otlp_attacks;
#[cfg(target_os = "linux")]
mod output;
mod project;
mod project_real;
#[cfg(target_os = "linux")]
mod project_roles;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod recorded;
#[cfg(all(target_os = "linux", feature = "demo"))]
mod serve;
#[allow(dead_code, reason = "the tests of the configuration use only the section")]
#[path = "../../src/serve/settings.rs"]
mod serve_settings;
mod setup;
#[cfg(all(target_os = "linux", feature = "login"))]
mod shared_login_real;
#[cfg(target_os = "linux")]
mod signals;
mod support;
#[cfg(all(feature = "keyring", feature = "login", feature = "otlp"))]
mod surface;
#[cfg(target_os = "linux")]
mod task;
#[path = "../../../nexus-tasks/examples/task/model.rs"]
mod task_model;
mod task_routes;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod testbed;
mod testbed_real;
#[cfg(all(feature = "keyring", feature = "login", feature = "otlp"))]
mod texts;
#[cfg(target_os = "linux")]
mod trust;
mod uninstall;
mod usage;

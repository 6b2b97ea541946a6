//! The fleet, before a real `nats-server`.

mod acceptor;
mod bounds;
mod canaries;
mod checkout;
mod cluster;
mod denied;
mod entry;
mod frames;
mod git_workspace;
mod git_workspace_real;
mod holds;
mod hostile;
mod lying_worker;
mod monitoring;
mod production;
mod proxy;
mod python_client;
mod relay;
#[allow(dead_code, reason = "a kit: not every test needs all of it")]
mod remote;
mod server;
mod server_tests;
mod shared_login;
mod shell;
mod status;

//! The fleet, before a real `nats-server`.

mod bounds;
mod canaries;
mod checkout;
mod denied;
mod entry;
mod git_workspace;
mod git_workspace_real;
mod holds;
mod hostile;
mod lying_worker;
mod production;
mod python_client;
mod server_tests;
mod shared_login;
mod shell;
mod status;

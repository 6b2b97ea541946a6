//! Tests whose fakes are this program itself: the conformance suite on the CLI of `examples/custom_cli`, and conversations that
//! move between vendors.

mod conversations;
mod custom_cli;
mod mcp_servers;

use std::{process::ExitCode, sync::Arc};

use nexus_testkit::{
    conformance::{self, Subject},
    fake_cli,
};

fn main() -> ExitCode {
    custom_cli::run_if_named();
    fake_cli::run_if_invoked();
    let custom_cli: Arc<dyn Subject> = Arc::new(custom_cli::SmalltalkSubject);
    let mut trials = conformance::trials("custom_cli", &custom_cli);
    trials.extend(conversations::trials());
    trials.extend(mcp_servers::trials());
    conformance::run_trials(trials)
}

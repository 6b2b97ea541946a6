//! What a turn costs: time to a delta, a tool round, memory; beside the floor client and other people's clients.

mod clients;
#[path = "../native/mod.rs"]
mod native;

fn main() -> std::process::ExitCode {
    native::main("turn_overhead", &clients::PEERS)
}

//! What one stream of 100,000 pieces of text costs, beside the floor client and other people's clients.

mod clients;
#[path = "../native/mod.rs"]
mod native;

fn main() -> std::process::ExitCode {
    native::main("decode", &clients::PEERS)
}

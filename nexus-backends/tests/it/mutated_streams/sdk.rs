//! The vendors' own SDKs as readers of the same streams.
//!
//! Needs the variables of `real/wires/install`, and Node:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it mutated_streams::sdk -- --ignored`

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

use super::{
    comparable, decode,
    generated::{UNKNOWN_MEMBER, WIRES, Wire, answers, rewritings},
};

/// A process that reads streams with the vendors' SDKs.
struct Sdks {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Sdks {
    fn start() -> Self {
        let script = std::env::var("NEXUS_REAL_SDK_ORACLE").expect("NEXUS_REAL_SDK_ORACLE names the program");
        let mut child = Command::new("node")
            .arg(script)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn read(&mut self, wire: Wire, body: &str) -> Value {
        let asked = json!({ "wire": wire.name(), "body": BASE64_STANDARD.encode(body) });
        writeln!(self.input, "{asked}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Sdks {
    fn drop(&mut self) {
        // It is gone already, or it goes now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs programs of somebody else's; run by .ci/deep"]
fn the_vendors_sdk_reads_the_same_text_calls_and_usage() {
    let mut sdks = Sdks::start();
    let sdks = std::cell::RefCell::new(&mut sdks);
    let mut runner = TestRunner::new(ProptestConfig::default());
    let compared = runner.run(&(answers(), rewritings()), |(answer, rewriting)| {
        for wire in WIRES {
            let body = rewriting.of(&wire.stream(&answer));
            let mut theirs = sdks.borrow_mut().read(wire, &body);
            for call in theirs["calls"].as_array_mut().into_iter().flatten() {
                call[2].as_object_mut().map(|members| members.remove(UNKNOWN_MEMBER));
            }
            let (_, decoded) = decode(wire, [Bytes::from(body.clone())]);
            let usage = decoded.usage.unwrap_or_default();
            let ours = json!({
                "text": decoded.messages.concat(), "calls": comparable(&decoded),
                "input": usage.all_input_tokens(), "output": usage.all_output_tokens(),
            });
            prop_assert_eq!(&ours, &theirs, "{:?}\n{}", wire, body);
        }
        Ok(())
    });
    compared.unwrap();
}

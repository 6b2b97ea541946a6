use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use super::super::hosts::AllowedHosts;
use super::*;
use crate::run_id::RunId;

#[test]
fn an_opener_without_all_listeners_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = PrivateHome::below(temporary.path(), &RunId::default()).unwrap();
    let network = SandboxNetwork::new(AllowedHosts::parse(["pages.test"]).unwrap());
    let relay = RelaySocket::prepare(&network, &folder).unwrap().start().unwrap();
    let mut opener = UnixStream::connect(folder.path().join(SOCKET)).unwrap();
    opener.write_all(b".").unwrap();
    opener.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    opener.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Too many open files"), "{answer}");
    drop(relay);
}

#[test]
fn a_machine_without_ipv6_lacks_no_listener() {
    let plan = NetworkPlan::new(&AllowedHosts::parse(["localhost:8080"]).unwrap());
    let required: Vec<String> = plan.required().map(|address| address.to_string()).collect();
    assert_eq!(required, ["127.0.0.1:8080", "127.0.8.1:3128"]);
}

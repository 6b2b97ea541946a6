use super::super::client_hello::tests::hello;
use super::*;

fn target(port: u16) -> RelayTarget {
    RelayTarget { host: TargetHost::Name("pypi.org".to_owned()), port }
}

#[test]
fn a_client_must_name_the_server_that_it_connects_to() {
    let other = |name: &str, port| {
        GateDecision::OtherServer(RelayTarget { host: TargetHost::Name(name.to_owned()), port })
    };
    for (port, bytes, expected) in [
        (443, hello("pypi.org"), None),
        (443, hello("evil.test"), Some(other("evil.test", 443))),
        (443, b"\x16\x03\x01\x00\x00".to_vec(), Some(GateDecision::NoServer)),
        (443, b"SSH-2.0-x\r\n".to_vec(), Some(GateDecision::NoServer)),
        (22, b"SSH-2.0-x\r\n".to_vec(), None),
        (80, b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_vec(), Some(other("evil.test", 80))),
        (8080, b"GET / HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n".to_vec(), Some(other("evil.test", 8080))),
        (8080, b"\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_vec(), Some(other("evil.test", 80))),
        (80, b"GET / HTTP/1.1\r\nHost: pypi.org:81\r\n\r\n".to_vec(), Some(GateDecision::NoServer)),
        (80, b"GET / HTTP/1.0\r\n\r\n".to_vec(), Some(GateDecision::NoServer)),
        (80, b"GET / HT".to_vec(), Some(GateDecision::Incomplete)),
        (80, Vec::new(), Some(GateDecision::Incomplete)),
        (5432, b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec(), None),
    ] {
        let expected = expected.unwrap_or_else(|| GateDecision::Pass(bytes.clone()));
        assert_eq!(judge(&target(port), &bytes), expected, "{port}: {}", String::from_utf8_lossy(&bytes));
    }
    let request = b"GET / HTTP/1.1\r\nHost: pypi.org\r\n\r\nrest";
    let passed = b"GET / HTTP/1.1\r\nHost: pypi.org\r\nConnection: close\r\n\r\nrest".to_vec();
    assert_eq!(judge(&target(80), request), GateDecision::Pass(passed));
}

#[test]
fn an_address_serves_any_name() {
    let target = RelayTarget { host: TargetHost::ThisMachine, port: 443 };
    assert_eq!(judge(&target, b"anything"), GateDecision::Pass(b"anything".to_vec()));
}

use super::super::client_hello::tests::{hello, hello_with_hidden_name};
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
        (443, hello("pypi.org"), Some(GateDecision::PassHello { bytes: hello("pypi.org").len() })),
        (443, hello_with_hidden_name("pypi.org"), Some(GateDecision::HiddenName)),
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
        (8080, b"GET /\r\nHost: evil.test\r\n\r\n".to_vec(), Some(GateDecision::NoServer)),
        (9418, b"0025git-upload-pack /x\0host=pypi.org\0".to_vec(), None),
        (9418, b"0026git-upload-pack /x\0host=evil.test\0".to_vec(), Some(other("evil.test", 9418))),
        (9418, b"0018git-upload-pack /x\0\0".to_vec(), Some(GateDecision::NoServer)),
        (9418, b"0026git-upload-pack /x\0".to_vec(), Some(GateDecision::Incomplete)),
        (389, b"0\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0".to_vec(), None),
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

#[test]
fn a_second_handshake_message_must_name_the_server_again() {
    let evil = RelayTarget { host: TargetHost::Name("evil.test".to_owned()), port: 443 };
    let same = hello("pypi.org");
    assert_eq!(judge_second(&target(443), &same), GateDecision::PassHello { bytes: same.len() });
    assert_eq!(judge_second(&target(443), &hello("evil.test")), GateDecision::OtherServer(evil));
    assert_eq!(judge_second(&target(443), &hello_with_hidden_name("pypi.org")), GateDecision::HiddenName);
    assert_eq!(judge_second(&target(443), b""), GateDecision::Incomplete);
    assert_eq!(judge_second(&target(443), b"GET"), GateDecision::NoServer);
    let endless = [23, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat_n(0, 0x4000)).collect::<Vec<u8>>();
    assert_eq!(judge_second(&target(443), &endless.repeat(3)), GateDecision::NoServer);
}

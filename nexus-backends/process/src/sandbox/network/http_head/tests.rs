use super::*;

fn complete(text: &str) -> HttpRequestHead {
    match read(text.as_bytes()) {
        HttpHead::Complete(head) => head,
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn the_server_of_a_request_is_its_host() {
    for (text, server) in [
        ("GET / HTTP/1.1\r\nHost: PyPI.org\r\n\r\nbody", Some("pypi.org:80")),
        ("GET / HTTP/1.1\nhost:pypi.org:8080\n\n", Some("pypi.org:8080")),
        ("\r\n\nGET http://pypi.org/x HTTP/1.1\r\nHost: pypi.org\r\n\r\n", Some("pypi.org:80")),
        ("GET http://evil.test/x HTTP/1.1\r\nHost: pypi.org\r\n\r\n", None),
        ("GET HTTP://evil.test/x HTTP/1.1\r\nHost: pypi.org\r\n\r\n", None),
        ("GET https://pypi.org/x HTTP/1.1\r\nHost: pypi.org\r\n\r\n", None),
        ("GET pypi.org HTTP/1.1\r\nHost: pypi.org\r\n\r\n", None),
        ("GET / HTTP/1.0\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: user@pypi.org\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nHost: pypi.org, evil.test\r\n\r\n", None),
    ] {
        assert_eq!(complete(text).server().map(|target| target.to_string()).as_deref(), server, "{text:?}");
    }
}

#[test]
fn an_ambiguous_head_is_malformed() {
    for text in [
        "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.test\r\n b.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
        "GET / HTTP/1.1\r\nX: y\rHost: a.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET\t/\tHTTP/1.1\r\nHost: a.test\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /\u{1} HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /\u{e9} HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "get / http/1.1\r\nHost: a.test\r\n\r\n",
        // Some servers read these as requests, and use the header.
        "GET /\r\nHost: a.test\r\n\r\n",
        "GET x\r\nHost: a.test\r\n\r\n",
        " GET /\r\nHost: a.test\r\n\r\n",
        "GET\u{1c}/\r\nHost: a.test\r\n\r\n",
        "FOO HTTP://a.test/\r\nHost: a.test\r\n\r\n",
        "GET / RTSP/1.0\r\nHost: a.test\r\n\r\n",
        "SOURCE /x ICE/1.0\r\nHost: a.test\r\n\r\n",
    ] {
        assert_eq!(read(text.as_bytes()), HttpHead::Malformed, "{text:?}");
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD_BYTES));
    assert_eq!(read(long.as_bytes()), HttpHead::Malformed);
}

#[test]
fn another_protocol_is_recognised_and_a_partial_head_is_not_judged() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"EHLO me\r\n",
        b"\0\0\0\x08",
        b"*1\r\n$4\r\nPING\r\n",
        // LDAP, with a space or a form feed as its length.
        b"0\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0",
        b"0 \x02\x01\x01",
        b"get key\r\n",
    ] {
        assert_eq!(read(bytes), HttpHead::NotHttp, "{bytes:?}");
    }
    let text = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(read(&text.as_bytes()[..end]), HttpHead::Incomplete, "{end}");
    }
    assert_eq!(complete(text).bytes, text.len());
}

#[test]
fn a_control_character_does_not_hide_a_request() {
    for text in ["GET /\u{1}", "GET \u{1}", "FOO \u{1}", "1 /\u{1}"] {
        assert_eq!(read(text.as_bytes()), HttpHead::Incomplete, "{text:?}");
        let whole = format!("{text} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(read(whole.as_bytes()), HttpHead::Malformed, "{text:?}");
    }
}

#[test]
fn the_server_gets_one_request_on_a_connection() {
    let text = "POST http://a.test?x HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: x\r\nConnection: keep-alive\r\nUpgrade: h2c\r\n\
        Content-Length: 2\r\n\r\nhi";
    let expected = "POST /?x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    assert_eq!(String::from_utf8(complete(text).for_server()).unwrap(), expected);
}

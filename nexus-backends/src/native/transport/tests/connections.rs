//! Which connections are made, kept, and led through a proxy.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{SocketAddr, TcpStream},
    sync::Mutex,
};

use http::header::USER_AGENT;

use nexus_testkit::sim::{Dialect, Scenario, Sim};

use super::*;

/// A server that keeps its connections.
fn keeping() -> Server {
    Server::start(|stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{STREAM}content-length: {}\r\n\r\n{EVENTS}", EVENTS.len());
        After::Keep
    })
}

async fn read_through(transport: &Transport) {
    let ServerAnswer::Stream { body, .. } = post(transport).await.unwrap() else { panic!("no stream") };
    read(body).await.1.unwrap();
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = keeping();
    let transport = transport(&server.base_url(), json!({}));
    for _ in 0..3 {
        read_through(&transport).await;
    }
    assert_eq!(connections(&server), [0, 0, 0]);
}

/// Answers the first request on each of the first `answered` connections, and says that the connection is kept.
/// What comes then is read whole, and the connection is closed without a word.
fn promising(answered: usize) -> Server {
    let seen = Mutex::new(BTreeSet::new());
    Server::start(move |stream, request| {
        if request.connection >= answered || !seen.lock().unwrap().insert(request.connection) {
            return After::Close;
        }
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{STREAM}content-length: {}\r\n\r\n{EVENTS}", EVENTS.len());
        After::Keep
    })
}

fn connections(server: &Server) -> Vec<usize> {
    server.requests().iter().map(|request| request.connection).collect()
}

#[tokio::test]
async fn a_request_that_the_server_may_have_read_is_not_repeated() {
    let server = promising(2);
    let transport = transport(&server.base_url(), json!({}));
    read_through(&transport).await;
    is_transient(&post(&transport).await.unwrap_err(), "before an answer");
    assert_eq!(connections(&server), [0, 0]);
    // What was lost has cost its connection: the next request has one of its own.
    read_through(&transport).await;
    assert_eq!(connections(&server), [0, 0, 1]);
}

#[tokio::test]
async fn a_connection_that_was_closed_before_the_request_fails_no_request() {
    let server = Server::start(|stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{STREAM}content-length: {}\r\n\r\n{EVENTS}", EVENTS.len());
        After::Close
    });
    let transport = transport(&server.base_url(), json!({}));
    for count in 1..=3 {
        read_through(&transport).await;
        // The close has to arrive, or the next request is one that the server may have read.
        server.until_closed(count).await;
    }
    assert_eq!(connections(&server), [0, 1, 2]);
}

#[tokio::test]
async fn a_first_request_that_is_lost_has_failed() {
    let server = promising(0);
    is_transient(&asked(&server).await.unwrap_err(), "before an answer");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_costs_its_connection_only() {
    let server = keeping();
    let transport = transport(&server.base_url(), json!({}));
    drop(post(&transport).await.unwrap());
    read_through(&transport).await;
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_proxy_is_used_where_the_settings_name_one() {
    let proxy = keeping();
    let setting = format!("http://me:pass@{}", proxy.address());
    let transport = transport("http://server.invalid/v1", json!({ "network": { "proxy": setting } }));
    read_through(&transport).await;
    let head = &proxy.requests()[0].head;
    assert!(head.starts_with("post http://server.invalid/v1/responses http/1.1\r\n"), "{head}");
    // "me:pass" in Base64, in lower case as everything here.
    assert!(head.contains("proxy-authorization: basic bwu6cgfzcw=="), "{head}");
    assert!(!format!("{transport:?}").contains("pass"));
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_tunnel_where_the_server_speaks_tls() {
    let proxy = Server::answering(403, "", "");
    let ca = super::tls::authority();
    let network = json!({ "proxy": format!("http://{}", proxy.address()), "ca_file": ca.path() });
    let transport = transport("https://server.invalid/v1", json!({ "network": network }));
    is_transient(&post(&transport).await.unwrap_err(), "proxy");
    assert!(proxy.requests()[0].head.starts_with("connect server.invalid:443 http/1.1\r\n"));
}

#[tokio::test]
async fn a_server_over_tls_is_asked_through_the_tunnel() {
    let sim = Sim::builder(Dialect::Responses, Scenario::text("Hello.")).tls("localhost").start().unwrap();
    let mut ca = tempfile::NamedTempFile::new().unwrap();
    ca.write_all(sim.ca_pem().unwrap().as_bytes()).unwrap();
    let server = sim.address();
    let proxy = Server::start(move |client, _| {
        let mut server = TcpStream::connect(server).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let _ = client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
        std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        let _ = std::io::copy(&mut server, client);
        After::Close
    });
    let network = json!({ "proxy": format!("http://me:pass@{}", proxy.address()), "ca_file": ca.path() });
    let transport = transport(&sim.base_url(), json!({ "network": network }));
    for _ in 0..2 {
        read_through(&transport).await;
    }
    let tunnels = proxy.requests();
    assert_eq!(tunnels.len(), 1, "the tunnel is kept");
    assert!(tunnels[0].head.starts_with("connect localhost:"), "{tunnels:?}");
    assert!(tunnels[0].head.contains("proxy-authorization: basic bwu6cgfzcw=="), "{tunnels:?}");
    let asked = sim.requests();
    assert_eq!(asked.len(), 2);
    // The password of the proxy is for the proxy alone.
    assert!(!format!("{asked:?}").to_ascii_lowercase().contains("proxy-authorization"), "{asked:?}");
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_closed() {
    let (closed, is_closed) = std::sync::mpsc::channel();
    let server = Server::start(move |stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{STREAM}\r\n{EVENTS}");
        // What the client never ends blocks here.
        let _ = closed.send(std::io::Read::read(stream, &mut [0; 8]).unwrap_or(0));
        After::Close
    });
    let answer = asked(&server).await.unwrap();
    assert!(is_closed.try_recv().is_err());
    drop(answer);
    assert_eq!(is_closed.recv_timeout(Duration::from_secs(60)), Ok(0));
}

#[tokio::test]
async fn the_hosts_proxy_is_used_only_if_asked_for_and_not_for_its_exceptions() {
    let server = keeping();
    let proxied = |inherit: bool, proxy: SocketAddr, except: &str| {
        let Value::Object(settings) =
            json!({ "base_url": server.base_url(), "network": { "inherit_proxy": inherit } })
        else {
            panic!("settings are an object")
        };
        let environment = [("http_proxy", format!("http://{proxy}")), ("NO_PROXY", except.to_owned())];
        let environment: BTreeMap<_, _> =
            environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let context =
            BuildContext::in_home("/home").with_base_directory("/base").with_environment(environment);
        Transport::new(&NativeSettings::read(&settings, &context).unwrap(), &context).unwrap()
    };
    for (inherit, except, through_proxy) in [
        (true, "", true),
        (true, "elsewhere.test", true),
        (true, "127.0.0.1", false),
        (true, "*", false),
        (false, "", false),
    ] {
        let proxy = keeping();
        read_through(&proxied(inherit, proxy.address(), except)).await;
        assert_eq!(!proxy.requests().is_empty(), through_proxy, "{inherit} {except:?}");
    }
}

#[tokio::test]
async fn the_first_request_builds_the_client() {
    let server = keeping();
    let transport = transport(&server.base_url(), json!({}));
    // A command that only checks a configuration builds none.
    assert!(transport.client.get().is_none());
    read_through(&transport).await;
    assert!(transport.client.get().is_some());
}

#[tokio::test]
async fn no_credential_is_shown() {
    let server = keeping();
    let transport = transport(&server.base_url(), json!({}));
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer canary"))]);
    assert!(!format!("{:?}", transport.guarded(headers.clone())).contains("canary"));
    transport.post(&SHAPE, CallAddress::default(), headers, Bytes::new()).await.unwrap();
    assert!(server.requests()[0].head.contains("authorization: bearer canary"));
    assert!(!format!("{transport:?}").contains("canary"));
}

#[tokio::test]
async fn the_headers_of_the_configuration_win_and_are_not_shown() {
    let server = keeping();
    let transport =
        transport(&server.base_url(), json!({ "headers": { "X-Key": "canary", "user-agent": "own" } }));
    let headers = HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static("dialect"))]);
    assert!(!format!("{transport:?} {:?}", transport.guarded(headers.clone())).contains("canary"));
    transport.post(&SHAPE, CallAddress::default(), headers.clone(), Bytes::new()).await.unwrap();
    transport.get("/models", headers).await.unwrap();
    for request in server.requests() {
        for line in ["x-key: canary", "user-agent: own"] {
            assert!(request.head.lines().any(|found| found == line), "no {line:?} in {}", request.head);
        }
    }
}

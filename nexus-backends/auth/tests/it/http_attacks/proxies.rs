//! Proxies that ask, refuse, die, stall or talk too much.

use std::{
    future::poll_fn,
    io::Write as _,
    net::TcpStream,
    pin::pin,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use nexus_auth::http::{ClientPlan, HttpProblem, Network};
use nexus_core::BuildContext;
use nexus_testkit::sim::RefusedPort;

use super::stage::{BOUND, Server, asked, head_of, plan, read_request, request};
use super::tls;

fn through(proxy: &Server) -> Network {
    Network::default().with_proxy(format!("http://me:p%40ss@{}", proxy.address))
}

/// What a proxy says to CONNECT, and what comes of it.
#[tokio::test]
async fn a_proxy_that_makes_no_tunnel_is_named() {
    let certificate = tls::Certificate::of("server.invalid");
    for answer in [
        "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: basic\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 403 Forbidden\r\n\r\n<html>".to_owned(),
        "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.test/\r\n\r\n".to_owned(),
        "HTTP/1.1 200 O".to_owned(),
        "garbage\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(20_000)),
        String::new(),
        // The tunnel is made, and nothing comes out of it.
        "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
    ] {
        let proxy = Server::closing(answer.clone());
        let network = through(&proxy).with_ca_file(certificate.file.path());
        let server = "https://server.invalid/v1".parse().unwrap();
        let outcome = asked(&plan(&network).build_for(&server).unwrap(), &server).await;
        assert_eq!(outcome.unwrap_err(), HttpProblem::Proxy, "{answer:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_says_nothing_is_given_up_in_time() {
    let certificate = tls::Certificate::of("server.invalid");
    for said in ["", "HTTP/1.1 200 OK\r\n\r\n"] {
        let proxy = Server::start(move |mut stream, _| {
            read_request(&mut stream);
            let _ = stream.write_all(said.as_bytes());
            std::thread::sleep(BOUND);
        });
        let network = through(&proxy).with_ca_file(certificate.file.path());
        let context = BuildContext::in_home("/home").with_base_directory("/");
        let plan = ClientPlan::new(&network, &context, Duration::from_millis(500)).unwrap();
        let server = "https://server.invalid/v1".parse().unwrap();
        let outcome = asked(&plan.build_for(&server).unwrap(), &server).await;
        assert_eq!(outcome.unwrap_err(), HttpProblem::ConnectTimeout, "{said:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_dies_in_mid_answer_has_lost_it_and_the_next_request_has_a_tunnel_of_its_own() {
    let certificate = tls::Certificate::of("localhost");
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let server = certificate.server(move |mut stream| {
        if read_request_of(&mut stream) {
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.flush();
            // Nothing more is asked: it ends with the tunnel.
            read_request_of(&mut stream);
        }
    });
    let heads = Arc::new(Mutex::new(Vec::new()));
    let (kept, target) = (Arc::clone(&heads), server.address);
    // The proxy dies when the client has a part of the answer.
    let (kill, is_killed) = mpsc::channel();
    let is_killed = Mutex::new(is_killed);
    let proxy = Server::start(move |mut client, _| {
        let Some(head) = read_request(&mut client) else { return };
        kept.lock().unwrap().push(head);
        let server = TcpStream::connect(target).unwrap();
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let (mut up, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut up, &mut to));
        let (mut from, mut down) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut down));
        is_killed.lock().unwrap().recv_timeout(BOUND).unwrap();
        for end in [&client, &server] {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    });
    let network = through(&proxy).with_ca_file(certificate.file.path());
    let uri = format!("https://localhost:{}/v1", server.address.port()).parse().unwrap();
    let client = plan(&network).build_for(&uri).unwrap();
    for _ in 0..2 {
        let mut body = pin!(head_of(&client, request(&uri, "{}")).await.unwrap().into_body());
        let piece = poll_fn(|context| body.as_mut().poll_chunk(context)).await;
        assert_eq!(piece.unwrap().unwrap(), b"abc"[..]);
        kill.send(()).unwrap();
        let end = poll_fn(|context| body.as_mut().poll_chunk(context)).await;
        assert_eq!(end.unwrap().unwrap_err().problem, HttpProblem::LostInAnswer);
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 2);
    // "me:p@ss" in Base64, in lower case as everything here.
    assert!(heads[0].contains("proxy-authorization: basic bwu6cebzcw=="), "{heads:?}");
}

#[tokio::test]
async fn what_a_proxy_says_to_a_plain_request_is_an_answer() {
    let proxy = Server::keeping("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 2\r\n\r\nno");
    let server = "http://server.invalid/v1".parse().unwrap();
    let client = plan(&through(&proxy)).build_for(&server).unwrap();
    assert_eq!(asked(&client, &server).await.unwrap(), (407, b"no".to_vec()));
}

#[tokio::test]
async fn nobody_at_the_proxys_address_is_the_proxys_fault() {
    let nobody = RefusedPort::bind().unwrap();
    let network = Network::default().with_proxy(nobody.root_url());
    let server = "http://127.0.0.1:9/v1".parse().unwrap();
    let outcome = asked(&plan(&network).build_for(&server).unwrap(), &server).await;
    assert_eq!(outcome.unwrap_err(), HttpProblem::Proxy);
}

#[tokio::test]
async fn exceptions_are_names_domains_addresses_and_ranges() {
    let proxy = Server::keeping("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nproxy");
    let direct = Server::keeping("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\ndirect");
    let port = direct.address.port();
    for (host, except, is_direct) in [
        ("127.0.0.1", "127.0.0.0/8", true),
        ("127.0.0.1", "10.0.0.0/8, 127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("localhost", "localhost", true),
        ("localhost", "LOCALHOST", true),
        ("localhost", ".localhost", true),
        ("localhost", "host", false),
        ("localhost", "127.0.0.1", false),
    ] {
        let environment =
            [("http_proxy", format!("http://{}", proxy.address)), ("no_proxy", except.to_owned())];
        let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let context = BuildContext::in_home("/home").with_base_directory("/").with_environment(environment);
        let network = Network::default().with_inherited_proxy(true);
        let plan = ClientPlan::new(&network, &context, BOUND).unwrap();
        let server = format!("http://{host}:{port}/v1").parse().unwrap();
        let (_, answer) = asked(&plan.build_for(&server).unwrap(), &server).await.unwrap();
        assert_eq!(answer == b"direct", is_direct, "{host} {except}");
    }
}

fn read_request_of(stream: &mut impl std::io::Read) -> bool {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return false,
        }
    }
    true
}

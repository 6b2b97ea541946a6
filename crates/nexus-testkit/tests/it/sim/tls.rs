//! The simulator behind a certificate of its own authority.

use std::net::TcpStream;
use std::sync::Arc;

use nexus_testkit::sim::{Dialect, Reply, Sim};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{End, messages_body, read_answer};

fn call(sim: &Sim, host: &str) -> std::io::Result<super::client::Answer> {
    let mut roots = RootCertStore::empty();
    let pem = sim.ca_pem().expect("an authority");
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).expect("a host name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let socket = TcpStream::connect(sim.address())?;
    socket.set_read_timeout(Some(super::client::PATIENCE))?;
    let mut stream = StreamOwned::new(client, socket);
    let body = messages_body("hi").to_string();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes())?;
    std::io::Write::write_all(&mut stream, body.as_bytes())?;
    Ok(read_answer(&mut stream))
}

#[test]
fn the_named_host_is_believed_and_another_is_not() {
    let sim = Sim::builder(Dialect::Anthropic, Reply::text("over TLS"))
        .tls("api.anthropic.com")
        .start()
        .expect("a simulator");
    assert!(sim.root_url().starts_with("https://api.anthropic.com:"));
    let answer = call(&sim, "api.anthropic.com").expect("an answer");
    assert_eq!(answer.end, End::Whole);
    assert_eq!(answer.joined("content_block_delta", "/delta/text"), "over TLS");
    assert!(call(&sim, "api.elsewhere.test").is_err());
}

#[test]
fn every_run_has_an_authority_of_its_own() {
    let start = || {
        Sim::builder(Dialect::Anthropic, Reply::empty())
            .tls("api.anthropic.com")
            .start()
            .expect("a simulator")
    };
    assert_ne!(start().ca_pem(), start().ca_pem());
}

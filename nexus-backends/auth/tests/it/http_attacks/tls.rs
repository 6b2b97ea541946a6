//! TLS: ends that are no ends, certificates that are none, and servers that speak something else in it.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
};

use nexus_auth::http::{HttpProblem, Network};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tempfile::NamedTempFile;

use super::stage::{Server, asked, plan};

/// A certificate, and the file with the authority that signed it.
pub(crate) struct Certificate {
    pub(crate) file: NamedTempFile,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

pub(crate) type Stream = StreamOwned<ServerConnection, TcpStream>;

impl Certificate {
    pub(crate) fn of(host: &str) -> Self {
        Self::with(CertificateParams::new([host.to_owned()]).unwrap())
    }

    fn with(mut params: CertificateParams) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(authority.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Self { file, chain: vec![certificate.der().clone()], key }
    }

    /// A server that hands each connection to `serve`.
    pub(crate) fn server(&self, serve: impl Fn(Stream) + Send + Sync + 'static) -> Server {
        self.speaking(&[], serve)
    }

    fn speaking(&self, protocols: &[&str], serve: impl Fn(Stream) + Send + Sync + 'static) -> Server {
        let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let config = Arc::new(config);
        Server::start(move |stream, _| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            serve(StreamOwned::new(connection, stream));
        })
    }

    async fn asked(&self, server: &Server, host: &str) -> Result<(u16, Vec<u8>), HttpProblem> {
        let uri = format!("https://{host}:{}/v1", server.address.port()).parse().unwrap();
        let network = Network::default().with_ca_file(self.file.path());
        asked(&plan(&network).build_for(&uri).unwrap(), &uri).await
    }
}

/// Says `answer` to the first request, and ends the connection with or without a word.
fn saying(answer: &'static str, says_goodbye: bool) -> impl Fn(Stream) + Send + Sync + 'static {
    move |mut stream| {
        if stream.read(&mut [0; 4096]).is_err() {
            return;
        }
        let _ = stream.write_all(answer.as_bytes());
        if says_goodbye {
            stream.conn.send_close_notify();
        }
        let _ = stream.flush();
        super::stage::close(&mut stream.sock);
    }
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_a_word_of_the_server_and_not_with_the_connection() {
    let certificate = Certificate::of("localhost");
    let whole = Ok((200, b"abc".to_vec()));
    for (answer, says_goodbye, outcome) in [
        ("HTTP/1.1 200 OK\r\n\r\nabc", true, whole.clone()),
        // Whoever cuts the connection could end the answer where it suits.
        ("HTTP/1.1 200 OK\r\n\r\nabc", false, Err(HttpProblem::LostInAnswer)),
        ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", false, whole.clone()),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", false, whole),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            true,
            Err(HttpProblem::LostInAnswer),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc", false, Err(HttpProblem::LostInAnswer)),
        ("", false, Err(HttpProblem::LostBeforeAnswer)),
    ] {
        let server = certificate.server(saying(answer, says_goodbye));
        assert_eq!(certificate.asked(&server, "localhost").await, outcome, "{answer:?} {says_goodbye}");
    }
}

#[tokio::test]
async fn what_a_certificate_lacks_is_named() {
    let years = |from, to| {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        params
    };
    let good = || CertificateParams::new(["localhost".to_owned()]).unwrap();
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
    for (certificate, host, problem) in [
        (Certificate::with(years(2001, 2002)), "localhost", HttpProblem::Expired),
        (Certificate::with(years(2901, 2902)), "localhost", HttpProblem::NotYetValid),
        (Certificate::with(good()), "127.0.0.1", HttpProblem::WrongName),
        (Certificate::of("localhost.test"), "localhost", HttpProblem::WrongName),
    ] {
        let server = certificate.server(saying(answer, true));
        assert_eq!(certificate.asked(&server, host).await, Err(problem), "{host}");
    }
    let self_signed = {
        let key = KeyPair::generate().unwrap();
        let certificate = good().self_signed(&key).unwrap();
        let other = Certificate::with(good());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Certificate { file: other.file, chain: vec![certificate.der().clone()], key }
    };
    let server = self_signed.server(saying(answer, true));
    assert_eq!(self_signed.asked(&server, "localhost").await, Err(HttpProblem::UnknownAuthority));
}

#[tokio::test]
async fn an_address_of_either_family_is_a_name() {
    let certificate = Certificate::of("127.0.0.1");
    let server = certificate.server(saying("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", true));
    assert_eq!(certificate.asked(&server, "127.0.0.1").await, Ok((200, b"abc".to_vec())));
}

#[tokio::test]
async fn a_server_of_another_protocol_is_a_handshake_that_failed() {
    let certificate = Certificate::of("localhost");
    let server = certificate.speaking(&["h2"], saying("never", true));
    assert_eq!(certificate.asked(&server, "localhost").await, Err(HttpProblem::Handshake));
}

#[tokio::test]
async fn a_server_that_speaks_tls_where_none_is_meant_cannot_be_read() {
    // The alert "unexpected message", as servers answer a plain request with.
    let server = Server::closing(b"\x15\x03\x01\x00\x02\x02\x0a".to_vec());
    assert_eq!(asked(&server.client(), &server.uri()).await, Err(HttpProblem::UnreadableHead));
}

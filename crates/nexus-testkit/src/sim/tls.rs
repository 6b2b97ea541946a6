//! A certificate for one host name, signed by an authority that exists for this run alone.

use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Certificate and key of a server that poses as `host`.
pub(super) struct Identity {
    pub(super) host: String,
    /// The authority, for the client's trust store.
    pub(super) ca_pem: String,
    pub(super) acceptor: TlsAcceptor,
}

impl Identity {
    pub(super) fn for_host(host: &str) -> io::Result<Self> {
        let mut authority = CertificateParams::default();
        // A path length of 0 allows no further authority below this one.
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority.distinguished_name.push(DnType::CommonName, "nexus-sim, valid nowhere else");
        let authority_key = KeyPair::generate().map_err(io::Error::other)?;
        let ca_pem = authority.self_signed(&authority_key).map_err(io::Error::other)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = CertificateParams::new([host.to_owned()])
            .map_err(io::Error::other)?
            .signed_by(&key, &issuer)
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(io::Error::other)?;
        // The server speaks only HTTP/1.1, and clients would choose HTTP/2 if it were offered.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { host: host.to_owned(), ca_pem, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

//! Construction of the HTTP clients.
//!
//! The clients use HTTP/1.1 only. Each stream has its own connection: an unread stream blocks no other stream, and a
//! lost connection costs one response. HTTP/2 would gain nothing here, and its flow-control windows would limit the
//! bytes that a stream may buffer.
//!
//! TLS is rustls with ring. Each client gets a finished configuration, so this library installs no process-wide
//! default.
//!
//! `rustls-platform-verifier` verifies certificates: by the platform's own rules where they exist (macOS, Windows),
//! elsewhere by the platform's store of authorities. `reqwest` depends on this crate in any case. Unlike with a
//! compiled-in list, authorities that an administrator adds or removes take effect without a new build.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use http::{Uri, uri::Scheme};
use nexus_core::{BuildContext, SettingsError};
use reqwest::{Client, Url, redirect};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use rustls_platform_verifier::Verifier;

use super::connector::Connector;
use super::proxy::Proxies;
use super::server_client::ServerClient;
use super::{Network, problem::HttpError};

/// Time that an idle connection stays open. Source: our own choice, below the minute after which common servers
/// and balancers close theirs.
pub(super) const POOL_IDLE: Duration = Duration::from_secs(50);

/// Settings from which a client is built.
#[derive(Clone)]
pub struct ClientPlan {
    connect_timeout: Duration,
    proxies: Proxies,
    authorities: Vec<CertificateDer<'static>>,
    keeps_connections: bool,
}

impl ClientPlan {
    /// Resolves the proxies and reads the certificate file that `network` names.
    pub fn new(
        network: &Network,
        context: &BuildContext,
        connect_timeout: Duration,
    ) -> Result<Self, SettingsError> {
        let proxies = Proxies::new(network, context)?;
        let authorities = match &network.ca_file {
            Some(path) => {
                read_authorities(&context.base_directory.join(path)).map_err(|reason| SettingsError {
                    path: vec!["network".into(), "ca_file".into()],
                    reason: format!("{}: {reason}", path.display()),
                })?
            }
            None => Vec::new(),
        };
        Ok(Self { connect_timeout, proxies, authorities, keeps_connections: true })
    }

    /// Returns the plan of a client that opens a new connection for each request.
    #[must_use]
    pub fn without_kept_connections(self) -> Self {
        Self { keeps_connections: false, ..self }
    }

    /// Returns the plan of a client that uses no proxy.
    #[must_use]
    pub fn without_proxies(self) -> Self {
        Self { proxies: Proxies::default(), ..self }
    }

    /// Returns true if requests with the scheme of `url` go through a proxy. Ignores the list of exceptions.
    pub fn is_proxied(&self, url: &Url) -> bool {
        self.proxies.is_used_for(url)
    }

    /// Builds a client of one server, for streamed responses. Opens no connection yet.
    pub fn build_for(&self, server: &Uri) -> Result<ServerClient, HttpError> {
        let proxies = self.proxies.matcher();
        let tls = self.tls(server.scheme() == Some(&Scheme::HTTPS) || self.proxies.is_tls())?;
        let connector = Connector::new(tls, self.connect_timeout);
        Ok(ServerClient::new(server, proxies.intercept(server), connector))
    }

    /// Builds a client. `speaks_tls` is true if the client will send requests to a server that uses TLS.
    pub fn build(&self, speaks_tls: bool) -> Result<Client, HttpError> {
        let builder = Client::builder()
            .tls_backend_preconfigured(self.tls(speaks_tls || self.proxies.is_tls())?)
            .http1_only()
            // A redirect could send a token to another server, and a retry could spend it twice.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(if self.keeps_connections { usize::MAX } else { 0 })
            .tcp_nodelay(true)
            .gzip(true)
            .referer(false);
        self.proxies.apply(builder)?.build().map_err(HttpError::client)
    }

    fn tls(&self, is_needed: bool) -> Result<ClientConfig, HttpError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(HttpError::tls)?;
        if !is_needed {
            // This client never performs a TLS handshake, so the platform need not provide any authority.
            return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
        }
        let verifier = Verifier::new_with_extra_roots(self.authorities.iter().cloned(), provider)
            .map_err(HttpError::tls)?;
        let mut config =
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl fmt::Debug for ClientPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientPlan")
            .field("connect_timeout", &self.connect_timeout)
            .field("proxies", &self.proxies)
            .field("authorities", &self.authorities.len())
            .finish()
    }
}

/// Reads the certificates of a PEM file. A file without a certificate is an error.
fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let authorities: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it cannot be read as PEM: {error}"))?;
    if authorities.is_empty() {
        return Err("it contains no certificate in PEM".into());
    }
    // Adding to a store validates a certificate, so that a faulty file is reported with its path.
    let mut store = RootCertStore::empty();
    for authority in &authorities {
        store.add(authority.clone()).map_err(|error| {
            format!(
                "it contains no usable certificate authority: \
            {error}"
            )
        })?;
    }
    Ok(authorities)
}

//! Construction of the HTTP clients.
//!
//! HTTP/1.1 only: each stream has a connection to itself, so an unread stream blocks no other and a lost
//! connection costs one answer. HTTP/2 would multiplex nothing better, and its windows would limit the bytes
//! that a stream may buffer. TLS is rustls with ring, passed to the client as a finished configuration: a
//! library installs nothing for the whole process.
//!
//! `rustls-platform-verifier` verifies certificates: by the platform's own rules if it has any (macOS,
//! Windows), by its store of authorities elsewhere. `reqwest` depends on it in any case. Authorities that an
//! administrator adds or removes count without a new build, unlike a compiled-in list.

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

/// Everything that a client is made from.
#[derive(Clone)]
pub struct ClientPlan {
    connect_timeout: Duration,
    proxies: Proxies,
    authorities: Vec<CertificateDer<'static>>,
    keeps_connections: bool,
}

impl ClientPlan {
    /// Reads what the settings name.
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

    /// A client that makes a connection of its own for each request.
    #[must_use]
    pub fn without_kept_connections(self) -> Self {
        Self { keeps_connections: false, ..self }
    }

    /// A client that goes through no proxy.
    #[must_use]
    pub fn without_proxies(self) -> Self {
        Self { proxies: Proxies::default(), ..self }
    }

    /// Returns true if requests to the server go through a proxy.
    pub fn is_proxied(&self, url: &Url) -> bool {
        self.proxies.is_used_for(url)
    }

    /// Makes a client of one server, for answers that stream. Nothing is connected yet.
    pub fn build_for(&self, server: &Uri) -> Result<ServerClient, HttpError> {
        let proxies = self.proxies.matcher();
        let tls = self.tls(server.scheme() == Some(&Scheme::HTTPS) || self.proxies.is_tls())?;
        let connector = Connector::new(tls, self.connect_timeout);
        Ok(ServerClient::new(server, proxies.intercept(server), connector))
    }

    /// Makes a client. `speaks_tls`: whether a server that it will be sent to does.
    pub fn build(&self, speaks_tls: bool) -> Result<Client, HttpError> {
        let builder = Client::builder()
            .tls_backend_preconfigured(self.tls(speaks_tls || self.proxies.is_tls())?)
            .http1_only()
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
            // No request of this client gets to a handshake, so the platform need not have any authority.
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

/// The certificates in a PEM file, at least one.
fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let authorities: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it cannot be read as PEM: {error}"))?;
    if authorities.is_empty() {
        return Err("it contains no certificate in PEM".into());
    }
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

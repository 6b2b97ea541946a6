//! Opens connections: directly or through a proxy, with TLS if the server uses it.

use std::{
    io,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Uri, uri::Scheme};
use hyper_util::{
    client::{
        legacy::connect::{
            HttpConnector,
            dns::{GaiAddrs, GaiResolver, Name},
            proxy::Tunnel,
        },
        proxy::matcher::Intercept,
    },
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::problem::{BoxError, HttpError, HttpProblem, cause};

/// Silence of a peer before the first keep-alive probe, and pause between two probes. Source of all three: the
/// defaults of `reqwest`.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Unanswered probes that end the connection.
const KEEPALIVE_RETRIES: u32 = 3;
/// Longest time that sent bytes may stay unacknowledged.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// A connection, with or without TLS.
pub(super) type Stream = TokioIo<Box<dyn Io>>;

/// A stream of bytes in both directions.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens connections within a time limit.
pub(super) struct Connector {
    dialer: Dialer,
    timeout: Duration,
}

impl Connector {
    /// Creates a connector. `timeout` covers the whole attempt: name resolution, TCP, the proxy and TLS.
    pub(super) fn new(tls: ClientConfig, timeout: Duration) -> Self {
        let tcp = tcp(Resolver(GaiResolver::new()), timeout);
        Self { dialer: Dialer { tcp, tls: std::sync::Arc::new(tls).into() }, timeout }
    }

    /// Returns a connection for requests to `server`.
    pub(super) async fn connect(&self, server: &Uri, proxy: Option<&Intercept>) -> Result<Stream, HttpError> {
        match tokio::time::timeout(self.timeout, self.dial(server, proxy)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                let is_unresolved = cause::<NameError>(&*error).is_some();
                let problem = HttpProblem::without_connection(&*error, proxy.is_some(), is_unresolved);
                Err(HttpError::new(problem, error))
            }
            Err(elapsed) => Err(HttpError::new(HttpProblem::ConnectTimeout, elapsed)),
        }
    }

    async fn dial(&self, server: &Uri, proxy: Option<&Intercept>) -> Result<Stream, BoxError> {
        let mut dialer = self.dialer.clone();
        let Some(proxy) = proxy else { return dialer.call(server.clone()).await };
        // Without TLS the proxy itself forwards the request, so no tunnel is necessary.
        if server.scheme() != Some(&Scheme::HTTPS) {
            return dialer.call(proxy.uri().clone()).await;
        }
        // TLS passes through a tunnel, so the proxy cannot read it.
        let mut tunnel = Tunnel::new(proxy.uri().clone(), dialer.clone());
        if let Some(authorization) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let through = tunnel.call(server.clone()).await?;
        dialer.secure(server, through.into_inner()).await
    }
}

/// Creates TCP connections to the addresses of `resolver`. The addresses of one family share `timeout` equally, so an
/// address that never answers leaves time for the next one.
fn tcp<R>(resolver: R, timeout: Duration) -> HttpConnector<R> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    // The connector also dials for TLS, whose URIs have another scheme.
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(timeout));
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

/// Opens the TCP and TLS connections to a server or a proxy.
#[derive(Clone)]
struct Dialer {
    tcp: HttpConnector<Resolver>,
    tls: TlsConnector,
}

impl Dialer {
    /// Performs the TLS handshake over an open connection.
    async fn secure(&self, server: &Uri, connection: impl Io + 'static) -> Result<Stream, BoxError> {
        let host = server.host().unwrap_or_default();
        // A URI has brackets around an IPv6 address; a `ServerName` has none.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())?;
        Ok(TokioIo::new(Box::new(self.tls.connect(name, connection).await?)))
    }
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let mut dialer = self.clone();
        Box::pin(async move {
            let tcp = dialer.tcp.call(server.clone()).await?.into_inner();
            if server.scheme() == Some(&Scheme::HTTPS) {
                return dialer.secure(&server, tcp).await;
            }
            Ok(TokioIo::new(Box::new(tcp) as Box<dyn Io>))
        })
    }
}

/// The system's resolver. Its error type lets the caller tell a failed name lookup from a failed connection.
#[derive(Clone)]
struct Resolver(GaiResolver);

#[derive(Debug, thiserror::Error)]
#[error("the name could not be resolved")]
struct NameError(#[source] io::Error);

impl Service<Name> for Resolver {
    type Response = GaiAddrs;
    type Error = NameError;
    type Future = BoxFuture<'static, Result<GaiAddrs, NameError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), NameError>> {
        self.0.poll_ready(context).map_err(NameError)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.0.call(name);
        Box::pin(async move { found.await.map_err(NameError) })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
    use rustls::{RootCertStore, crypto::ring};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_is_gone_is_noticed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap()).parse::<Uri>().unwrap();
        let tls = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let mut tcp = Connector::new(tls, Duration::from_secs(5)).dialer.tcp;
        let connection = tcp.call(server).await.unwrap().into_inner();
        assert!(sockopt::socket_keepalive(&connection).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&connection).unwrap(), KEEPALIVE);
        assert!(sockopt::tcp_nodelay(&connection).unwrap());
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        assert_eq!(sockopt::tcp_user_timeout(&connection).unwrap(), 30_000);
    }

    /// Finds these addresses for every name.
    #[derive(Clone)]
    struct Fixed(Vec<SocketAddr>);

    impl Service<Name> for Fixed {
        type Response = std::vec::IntoIter<SocketAddr>;
        type Error = io::Error;
        type Future = std::future::Ready<Result<Self::Response, io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            std::future::ready(Ok(self.0.clone().into_iter()))
        }
    }

    #[tokio::test]
    async fn an_address_that_never_answers_leaves_time_for_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Its queue is full: what asks for a connection hears nothing.
        let silent = SocketAddr::from(([127, 0, 0, 2], port));
        let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&full, &silent).unwrap();
        listen(&full, 0).unwrap();
        let _queued = TcpStream::connect(silent).unwrap();
        let addresses = Fixed(vec![silent, listener.local_addr().unwrap()]);
        let timeout = Duration::from_secs(2);
        let server = format!("http://server.invalid:{port}").parse().unwrap();
        let connection = tokio::time::timeout(timeout, tcp(addresses, timeout).call(server)).await;
        let connection = connection.expect("there is time for the second").unwrap().into_inner();
        assert_eq!(connection.peer_addr().unwrap(), listener.local_addr().unwrap());
    }
}

//! Host names by which requests address a server.

use std::net::{IpAddr, SocketAddr};

use hyper::{
    header::{HOST, ORIGIN},
    http::request::Parts,
};

use crate::head::only;

/// Address of a server, and the names of its machine. A request under another name may come from a web page that
/// attacks the server by DNS rebinding.
#[derive(Clone, Debug)]
pub struct ServerNames {
    address: SocketAddr,
    names: Vec<String>,
}

/// Reason why a request is not meant for this server, or not sent by one of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignRequest {
    /// The request names another host. A web page does that if its own name was made to resolve to this machine (DNS
    /// rebinding).
    Host,
    /// A web page of another origin sent the request.
    Origin,
}

impl ServerNames {
    /// Creates the names of a server: its address, `localhost`, and `names`.
    pub fn new(address: SocketAddr, names: Vec<String>) -> Self {
        Self { address, names }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Checks the host of a request, and its origin if it has one.
    ///
    /// # Errors
    ///
    /// The host or the origin is not the server's.
    pub fn check(&self, head: &Parts) -> Result<(), ForeignRequest> {
        let host = only(&head.headers, HOST).ok_or(ForeignRequest::Host)?;
        // A request in absolute form has its host in the URI, too.
        let named = head.uri.authority().map_or(host, |authority| authority.as_str());
        if !self.is_own(host) || !self.is_own(named) {
            return Err(ForeignRequest::Host);
        }
        if head.headers.contains_key(ORIGIN) {
            // The server has no web pages, but some clients send the server itself as their origin.
            let origin = only(&head.headers, ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
            if !origin.is_some_and(|origin| self.is_own(origin)) {
                return Err(ForeignRequest::Origin);
            }
        }
        Ok(())
    }

    /// Returns true if a host and port belong to the server. Any IP address is accepted if the server listens on all
    /// addresses, because an IP address cannot be rebound like a name.
    fn is_own(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<SocketAddr>() {
            let listens_there = self.address.ip().is_unspecified() || address.ip() == self.address.ip();
            return address.port() == self.address.port() && listens_there && address.to_string() == host;
        }
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        let is_known = name == "localhost" || self.names.iter().any(|known| known == name);
        is_known && name.parse::<IpAddr>().is_err() && port == self.address.port().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(address: &str, names: &[&str]) -> ServerNames {
        ServerNames::new(address.parse().unwrap(), names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn on_loopback_only_the_own_address_and_localhost_are_the_server() {
        let names = names("127.0.0.1:4000", &[]);
        for host in ["127.0.0.1:4000", "localhost:4000"] {
            assert!(names.is_own(host), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:4001",
            "127.0.0.1:04000",
            "127.0.0.1:+4000",
            "127.0.0.2:4000",
            "0.0.0.0:4000",
            "127.0.0.1.example:4000",
            "[::1]:4000",
            "LOCALHOST:4000",
            "user@localhost:4000",
            "localhost:4000 ",
            "10.0.0.1:4000",
            "rebound.example:4000",
        ] {
            assert!(!names.is_own(host), "{host:?}");
        }
    }

    #[test]
    fn on_all_addresses_an_address_or_a_given_name_is_the_server_and_no_other_name() {
        let names = names("0.0.0.0:4000", &["box.lan"]);
        for host in ["10.0.0.1:4000", "127.0.0.1:4000", "box.lan:4000", "localhost:4000"] {
            assert!(names.is_own(host), "{host}");
        }
        for host in ["rebound.example:4000", "10.0.0.1:4001", "box.lan", "box.lan:4001"] {
            assert!(!names.is_own(host), "{host}");
        }
    }
}

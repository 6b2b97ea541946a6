//! Normalised address of a server, from its URL.

use std::net::IpAddr;

use nexus_core::ServerAddress;
use url::{Host, Url};

/// Name for every address of this machine.
pub(crate) const LOOPBACK: &str = "localhost";

/// Returns the server of a URL. The URL parser already normalises case, IDNA, and decimal, octal and hexadecimal
/// addresses.
pub(crate) fn server_address(url: &str) -> Option<ServerAddress> {
    let url = Url::parse(url.trim()).ok()?;
    let port = url.port_or_known_default()?;
    Some(ServerAddress { host: canonical_host(&url.host()?), port })
}

/// Returns the server of a URL as the name of its vendor, without a default port of HTTP.
pub(crate) fn vendor_of_server(url: &str) -> Option<String> {
    let ServerAddress { host, port } = server_address(url)?;
    Some(match port {
        80 | 443 => host,
        port if host.contains(':') => format!("[{host}]:{port}"),
        port => format!("{host}:{port}"),
    })
}

/// Normalises the name of a vendor if it is the name of a server.
pub(crate) fn vendor_as_named(name: &str) -> String {
    let is_server =
        name == LOOPBACK || name.contains(['.', ':']) && !name.contains(['/', '?', '#', '@', ' ']);
    let server = is_server.then(|| vendor_of_server(&format!("http://{name}"))).flatten();
    server.unwrap_or_else(|| name.to_owned())
}

fn canonical_host(host: &Host<&str>) -> String {
    let address = match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let is_loopback = name == LOOPBACK || name.ends_with(".localhost");
            return if is_loopback { LOOPBACK.to_owned() } else { name };
        }
        Host::Ipv4(address) => IpAddr::V4(*address),
        Host::Ipv6(address) => IpAddr::V6(*address).to_canonical(),
    };
    match address.is_loopback() || address.is_unspecified() {
        true => LOOPBACK.to_owned(),
        false => address.to_string(),
    }
}

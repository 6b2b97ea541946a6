//! Detection of servers on this machine.

use reqwest::Url;

/// Returns true if requests to the URL stay on this machine.
pub fn is_loopback(url: &Url) -> bool {
    // An IPv6 address stands in brackets.
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        // Source: RFC 6761 section 6.3, which keeps this name to the machine itself.
        Err(_) => host == "localhost",
    }
}

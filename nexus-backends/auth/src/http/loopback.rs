//! Detection of servers on this machine.

use reqwest::Url;

/// Returns true if requests to the URL stay on this machine.
pub fn is_loopback(url: &Url) -> bool {
    // A URL has brackets around an IPv6 address.
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        // Source: RFC 6761 section 6.3: `localhost` always resolves to a loopback address.
        Err(_) => host == "localhost",
    }
}

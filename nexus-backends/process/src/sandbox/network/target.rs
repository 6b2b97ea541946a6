//! Server that a program in a sandbox wants to reach.

use std::fmt;
use std::net::IpAddr;

/// Name of this machine's loopback interface.
const THIS_MACHINE: &str = "localhost";
/// Maximum length of a host name and of one of its labels. Source: RFC 1035, section 2.3.4.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Host and port of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RelayTarget {
    pub(super) host: TargetHost,
    pub(super) port: u16,
}

/// Host of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TargetHost {
    /// A folded name.
    Name(String),
    Address(IpAddr),
    /// The loopback interface outside of the sandbox.
    ThisMachine,
}

impl TargetHost {
    /// Parses a host as a request names it, without brackets.
    pub(super) fn named(host: &str) -> Option<Self> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = fold_name(host)?;
        Some(if name == THIS_MACHINE { Self::ThisMachine } else { Self::Name(name) })
    }
}

impl fmt::Display for TargetHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(address) => write!(formatter, "{address}"),
            Self::ThisMachine => formatter.write_str(THIS_MACHINE),
        }
    }
}

impl RelayTarget {
    /// Parses `host:port`, as it stands in a `CONNECT` request, in a URL or in a `Host` header. Without a port it is
    /// `default_port`.
    pub(super) fn of_authority(authority: &str, default_port: Option<u16>) -> Option<Self> {
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                // Only an IPv6 address has brackets.
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, rest)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
            None if port.is_empty() => default_port?,
            _ => return None,
        };
        Some(Self { host: TargetHost::named(host)?, port })
    }
}

impl fmt::Display for RelayTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            TargetHost::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]:{}", self.port),
            host => write!(formatter, "{host}:{}", self.port),
        }
    }
}

/// Folds a host name to lower case, without the dot at its end. `None` if it is not a name.
///
/// A name whose last label looks like a number is refused, because resolvers read such a name as an address.
pub(super) fn fold_name(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty()
            && label.len() <= MAX_LABEL_BYTES
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with(|c: char| c.is_ascii_digit())
        && (last.bytes().all(|byte| byte.is_ascii_digit())
            || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())));
    (name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label) && !is_number).then_some(name)
}

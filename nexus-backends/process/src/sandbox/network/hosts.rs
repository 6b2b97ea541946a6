//! Hosts that a program in a sandbox may reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use thiserror::Error;

use super::addresses;
use super::own_networks::OwnNetworks;
use super::target::{RelayTarget, TargetHost, fold_name};

/// Ports of an entry without a port.
const DEFAULT_PORTS: [u16; 2] = [443, 80];
/// Maximum number of entries. Each run has at least two listeners for each, and a process often has only 1024 descriptors.
const MAX_ENTRIES: usize = 32;
/// Third byte of the addresses `127.0.8.0/24`, which the names of a sandbox are mapped to.
pub(super) const MAPPED: [u8; 3] = [127, 0, 8];

/// One entry of the list of allowed hosts.
///
/// | entry | allows |
/// | --- | --- |
/// | `pypi.org` | that name, at the ports 443 and 80 |
/// | `pypi.org:8443` | that name, at that port alone |
/// | `*.crates.io` | every name below `crates.io`, but not `crates.io` itself |
/// | `localhost:8080` | a server of this machine, on its loopback interface |
/// | `10.0.0.5`, `[2001:db8::1]:8080` | that address |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    pattern: HostPattern,
    port: Option<u16>,
}

/// Hosts that one entry covers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    One(TargetHost),
    /// All names that end with this suffix, which begins with a dot.
    Below(String),
}

/// Fault of an entry of the list of allowed hosts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{entry:?} {reason}")]
pub struct AllowedHostError {
    /// The entry without the parts that can be secret: a user, a password, a path and a query.
    pub entry: String,
    /// Fault and advice.
    pub reason: &'static str,
}

impl FromStr for AllowedHost {
    type Err = AllowedHostError;

    fn from_str(entry: &str) -> Result<Self, AllowedHostError> {
        read(entry).map_err(|reason| AllowedHostError { entry: shown(entry), reason })
    }
}

/// Returns an entry without the parts that can be secret.
fn shown(entry: &str) -> String {
    if !entry.contains(['/', '@', '?', '#']) {
        return entry.to_owned();
    }
    // A password may contain `@`, so only the last one ends it.
    let (user, rest) = entry.rsplit_once('@').map_or(("", entry), |(_, rest)| ("…@", rest));
    let (scheme, rest) = match rest.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphabetic()) => (scheme, rest),
        _ => ("", rest),
    };
    let (host, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // An `@` may also stand in a path or a query.
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*:[]".contains(&byte);
    let host = if host.bytes().all(is_host) { host } else { "…" };
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    format!("{scheme}{user}{host}{}", if tail.is_empty() { "" } else { "/…" })
}

fn read(entry: &str) -> Result<AllowedHost, &'static str> {
    if entry.contains(['/', '@', '?', '#']) {
        return Err("is not a host: leave out the scheme, the user and the path");
    }
    if !entry.is_ascii() {
        return Err("is not ASCII: write the name in its encoded form, which begins with `xn--`");
    }
    // Test for an address first: a colon of an IPv6 address would otherwise begin a port.
    if let Ok(address) = entry.parse::<IpAddr>() {
        return Ok(AllowedHost { pattern: HostPattern::One(usable(address)?), port: None });
    }
    let (host, port) = match entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("has text after the bracket")?)),
        None => match entry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (entry, None),
        },
    };
    let port = match port.map(str::parse) {
        None => None,
        Some(Ok(0) | Err(_)) => return Err("has no valid port: a port is a number from 1 to 65535"),
        Some(Ok(port)) => Some(port),
    };
    let pattern = match host.strip_prefix("*.") {
        Some(below) => {
            let name = fold_name(below).ok_or("has no valid name after `*.`")?;
            if !name.contains('.') {
                return Err("would allow a whole top-level domain: name the domain, as `*.example.com`");
            }
            HostPattern::Below(format!(".{name}"))
        }
        None if host.contains('*') => {
            return Err(
                "has a wildcard that is not supported: name each host, or the names below a domain as `*.example.com`",
            );
        }
        None => HostPattern::One(match host.parse::<IpAddr>() {
            Ok(address) => usable(address)?,
            Err(_) if entry.starts_with('[') => return Err("has no valid IPv6 address in its brackets"),
            Err(_) => TargetHost::named(host).ok_or("is neither a host name nor an address")?,
        }),
    };
    // Resolvers send all names below `localhost` to this machine (RFC 6761), and the list has another form for it.
    if matches!(&pattern, HostPattern::Below(name) if name.ends_with(".localhost"))
        || matches!(&pattern, HostPattern::One(TargetHost::Name(name)) if name.ends_with(".localhost"))
    {
        return Err("is a name of this machine: write `localhost`, with its port");
    }
    Ok(AllowedHost { pattern, port })
}

/// Checks an address that an entry names.
fn usable(address: IpAddr) -> Result<TargetHost, &'static str> {
    let address = address.to_canonical();
    if address.is_unspecified() || address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err("is not the address of one host");
    }
    match address {
        IpAddr::V4(own) if own.octets()[..3] == MAPPED => {
            Err("is an address that sandboxes use for names: let the server listen at 127.0.0.1")
        }
        IpAddr::V6(own) if own.is_unicast_link_local() => {
            Err("is a link-local IPv6 address, which needs an interface: name another address of that host")
        }
        _ => Ok(TargetHost::Address(address)),
    }
}

impl AllowedHost {
    /// Returns the ports of the entry.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.port.map_or_else(|| DEFAULT_PORTS.to_vec(), |port| vec![port])
    }

    /// Returns the host, unless the entry is a wildcard.
    pub(super) fn host(&self) -> Option<&TargetHost> {
        match &self.pattern {
            HostPattern::One(host) => Some(host),
            HostPattern::Below(_) => None,
        }
    }

    fn allows(&self, target: &RelayTarget) -> bool {
        let is_host = match (&self.pattern, &target.host) {
            (HostPattern::One(host), wanted) => host == wanted,
            (HostPattern::Below(suffix), TargetHost::Name(name)) => {
                name.len() > suffix.len() && name.ends_with(suffix.as_str())
            }
            (HostPattern::Below(_), _) => false,
        };
        is_host && self.ports().contains(&target.port)
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pattern, self.port) {
            (HostPattern::One(TargetHost::Address(IpAddr::V6(address))), Some(_)) => {
                write!(formatter, "[{address}]")?;
            }
            (HostPattern::One(host), _) => write!(formatter, "{host}")?,
            (HostPattern::Below(suffix), _) => write!(formatter, "*{suffix}")?,
        }
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

/// List of the hosts that programs in a sandbox may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<AllowedHost>);

impl AllowedHosts {
    /// Parses a list of entries.
    ///
    /// # Errors
    ///
    /// The first entry that is not valid, or the first one beyond 32.
    pub fn parse<'e>(entries: impl IntoIterator<Item = &'e str>) -> Result<Self, AllowedHostError> {
        let mut hosts: Vec<AllowedHost> = Vec::new();
        for entry in entries {
            let host = entry.parse()?;
            // A repeated entry needs no listener of its own, so it does not count.
            if hosts.len() == MAX_ENTRIES && !hosts.contains(&host) {
                let reason = "is one entry too many: a list has at most 32, and a wildcard covers many names";
                return Err(AllowedHostError { entry: entry.to_owned(), reason });
            }
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        Ok(Self(hosts))
    }

    /// Returns true if no host is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries.
    pub fn iter(&self) -> impl Iterator<Item = &AllowedHost> {
        self.0.iter()
    }

    /// Returns true if an entry covers the target.
    pub(super) fn allows(&self, target: &RelayTarget) -> bool {
        self.0.iter().any(|host| host.allows(target))
    }

    /// Returns true if a name may lead to this address: it belongs to the public Internet and not to a network of this machine, or an
    /// entry names it.
    pub(super) fn allows_resolved(&self, address: IpAddr, port: u16, own: &OwnNetworks) -> bool {
        let address = address.to_canonical();
        (addresses::is_public(address) && !own.contains(address))
            || self.allows(&RelayTarget { host: TargetHost::Address(address), port })
    }
}

/// Writes the entries with commas.
impl fmt::Display for AllowedHosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, host) in self.0.iter().enumerate() {
            write!(formatter, "{}{host}", if number > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

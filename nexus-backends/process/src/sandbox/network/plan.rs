//! Addresses at which a sandbox reaches its relay.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::hosts::{AllowedHosts, MAPPED};
use super::target::{RelayTarget, TargetHost};

/// Address of the proxy.
const PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 8, 1)), 3128);
/// Last byte of the address of the first name.
const FIRST_NAME: u8 = 2;
/// Addresses that every loopback interface has.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Listeners of a sandbox, and the server behind each.
#[derive(Clone, Debug)]
pub(super) struct NetworkPlan {
    listeners: BTreeMap<SocketAddr, ListenerPurpose>,
    names: BTreeMap<String, Ipv4Addr>,
}

/// Purpose of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenerPurpose {
    /// An HTTP proxy, whose clients name the server.
    Proxy,
    /// Every connection leads to this server.
    Server(RelayTarget),
}

/// Part of the plan for the program that opens the network.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpeningPlan {
    /// Addresses to add to the loopback interface.
    pub(super) addresses: BTreeSet<IpAddr>,
    pub(super) listeners: Vec<SocketAddr>,
}

impl NetworkPlan {
    pub(super) fn new(hosts: &AllowedHosts) -> Self {
        let mut names: BTreeMap<String, Ipv4Addr> = BTreeMap::new();
        let mut listeners = BTreeMap::from([(PROXY, ListenerPurpose::Proxy)]);
        for host in hosts.iter() {
            // Names below a wildcard are reached through the proxy alone.
            let Some(named) = host.host() else { continue };
            let addresses = match named {
                TargetHost::Address(address) => vec![*address],
                TargetHost::ThisMachine => LOOPBACK.to_vec(),
                TargetHost::Name(name) => {
                    // A list has fewer entries than the network has addresses.
                    let free = FIRST_NAME.saturating_add(u8::try_from(names.len()).unwrap_or(u8::MAX));
                    let [first, second, third] = MAPPED;
                    let address = *names
                        .entry(name.clone())
                        .or_insert_with(|| Ipv4Addr::new(first, second, third, free));
                    vec![IpAddr::V4(address)]
                }
            };
            for (address, port) in
                addresses.iter().flat_map(|address| host.ports().into_iter().map(|port| (*address, port)))
            {
                let target = RelayTarget { host: named.clone(), port };
                // `127.0.0.1` and `localhost` lead to the same server.
                listeners.entry(SocketAddr::new(address, port)).or_insert(ListenerPurpose::Server(target));
            }
        }
        Self { listeners, names }
    }

    /// Returns the part for the program that opens the network.
    pub(super) fn opening(&self) -> OpeningPlan {
        let is_added = |address: &IpAddr| match address {
            IpAddr::V4(address) => !address.is_loopback(),
            IpAddr::V6(address) => !address.is_loopback(),
        };
        let addresses = self.listeners.keys().map(SocketAddr::ip).filter(is_added).collect();
        OpeningPlan { addresses, listeners: self.listeners.keys().copied().collect() }
    }

    /// Returns the addresses without which a program must not start. A machine without IPv6 has no `::1`.
    pub(super) fn required(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.keys().copied().filter(|address| !is_optional(*address))
    }

    /// Returns the purpose of the listener at an address.
    pub(super) fn listener(&self, address: SocketAddr) -> Option<&ListenerPurpose> {
        self.listeners.get(&address)
    }

    /// Returns the lines of `/etc/hosts`.
    pub(super) fn host_lines(&self) -> String {
        self.names.iter().map(|(name, address)| format!("{address} {name}\n")).collect()
    }

    /// Returns the variables that lead programs to the proxy. The loopback interface of the sandbox is reached directly.
    pub(super) fn variables() -> [(&'static str, String); 7] {
        let (proxy, direct) = (format!("http://{PROXY}"), "localhost,127.0.0.1,::1".to_owned());
        [
            ("HTTP_PROXY", proxy.clone()),
            ("http_proxy", proxy.clone()),
            ("HTTPS_PROXY", proxy.clone()),
            ("https_proxy", proxy),
            ("NO_PROXY", direct.clone()),
            ("no_proxy", direct),
            // Node ignores the other variables without this one. Source: Node.js 22, command-line options.
            ("NODE_USE_ENV_PROXY", "1".to_owned()),
        ]
    }
}

/// Returns true if the address may be missing: a machine without IPv6 has no `::1`, and `localhost` then has only its other address.
pub(super) fn is_optional(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_has_its_listeners() {
        let entries = [
            "pypi.org",
            "git.test:22",
            "git.test",
            "*.crates.io",
            "localhost:8080",
            "127.0.0.1:8080",
            "10.0.0.5:80",
        ];
        let plan = NetworkPlan::new(&AllowedHosts::parse(entries).unwrap());
        assert_eq!(plan.host_lines(), "127.0.8.3 git.test\n127.0.8.2 pypi.org\n");
        let opening = plan.opening();
        assert_eq!(opening.addresses, BTreeSet::from([IpAddr::from([10, 0, 0, 5])]));
        let listeners: Vec<String> = opening.listeners.iter().map(ToString::to_string).collect();
        assert_eq!(
            listeners,
            [
                "10.0.0.5:80",
                "127.0.0.1:8080",
                "127.0.8.1:3128",
                "127.0.8.2:80",
                "127.0.8.2:443",
                "127.0.8.3:22",
                "127.0.8.3:80",
                "127.0.8.3:443",
                "[::1]:8080"
            ]
        );
        let text = serde_json::to_string(&opening).unwrap();
        assert_eq!(serde_json::from_str::<OpeningPlan>(&text).unwrap(), opening);
        let server = |address: &str| plan.listener(address.parse().unwrap());
        assert_eq!(server("127.0.8.1:3128"), Some(&ListenerPurpose::Proxy));
        assert_eq!(server("[::1]:8080").map(|one| matches!(one, ListenerPurpose::Server(_))), Some(true));
        assert_eq!(server("127.0.8.9:443"), None);
    }
}

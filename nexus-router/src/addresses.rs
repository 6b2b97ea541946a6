//! Finds vendors whose servers share a network address. Host names are resolved when work starts, never when a
//! configuration is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _},
    time::Duration,
};

use nexus_core::{BackendId, ServerAddress, VendorId, harness::run_blocking};

use crate::{
    config::{Configuration, Distinct},
    router::Router,
};

/// Longest time to resolve all host names. Source: our own bound. A name that resolves later is not compared.
const LOOK_UP: Duration = Duration::from_secs(5);

/// Vendors of one panel with the same address, so that their votes may come from one server.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAddress {
    /// Name of the panel.
    pub panel: String,
    /// Address that the vendors share.
    pub address: SocketAddr,
    /// Vendors with this address, each with its backends there.
    pub vendors: BTreeMap<VendorId, BTreeSet<BackendId>>,
    /// True if the panel says `distinct: address`, so that no work may start with it.
    pub is_refused: bool,
}

impl fmt::Display for SharedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (vendor, backends)) in self.vendors.iter().enumerate() {
            let backends: Vec<&str> = backends.iter().map(BackendId::as_str).collect();
            let and = if number == 0 { "" } else { " and " };
            write!(f, "{and}{vendor} ({})", backends.join(", "))?;
        }
        write!(f, " share the address {}", self.address)
    }
}

impl SharedAddress {
    /// Returns advice about how to resolve the conflict.
    pub fn advice(&self) -> &'static str {
        match self.is_refused {
            true => "name another server in nexus.yaml, or leave `distinct: address` out of the panel",
            false => {
                "if the shared server is intended, write `distinct: vendor` in the panel; to reject it, \
                write `distinct: address`"
            }
        }
    }
}

impl Router {
    /// Returns the vendors of each panel that share an address, by the present addresses of their servers' names. Leaves
    /// out panels with `distinct: vendor`. Also leaves out servers whose name does not resolve, because their turns fail
    /// on their own.
    pub async fn shared_addresses(&self) -> Vec<SharedAddress> {
        let configuration = self.configuration();
        let asked: BTreeSet<ServerAddress> = servers(&configuration).map(|(_, _, server)| server).collect();
        // A conflict needs two backends.
        if asked.len() < 2 && servers(&configuration).count() < 2 {
            return Vec::new();
        }
        let looked_up = run_blocking(move || {
            let resolved = asked.into_iter().map(|server| (server.clone(), resolved(&server)));
            resolved.collect::<BTreeMap<_, _>>()
        });
        let addresses = match tokio::time::timeout(LOOK_UP, looked_up).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(_)) | Err(_) => return Vec::new(),
        };
        shared(&configuration, &addresses)
    }
}

/// Returns the backends of each panel that could run, with the servers that they send requests to. One item per panel and
/// backend.
fn servers(configuration: &Configuration) -> impl Iterator<Item = (&str, &BackendId, ServerAddress)> {
    let panels = configuration.panels.iter().filter(|(_, roster)| roster.distinct != Some(Distinct::Vendor));
    panels.flat_map(|(panel, roster)| {
        let entries = roster.seats.iter().flat_map(|seat| configuration.chain(&seat.binding));
        let runnable = entries.filter(|entry| entry.is_runnable());
        runnable
            .filter_map(|entry| Some((panel.as_str(), &entry.id, entry.backend()?.capabilities().server?)))
    })
}

/// An address that a backend of a panel uses: the panel, the pool (`None` for this machine) and the address.
type SeenAddress<'c> = (&'c str, Option<String>, SocketAddr);

fn shared(
    configuration: &Configuration,
    addresses: &BTreeMap<ServerAddress, BTreeSet<SocketAddr>>,
) -> Vec<SharedAddress> {
    // A loopback address in a pool belongs to another machine.
    let mut found: BTreeMap<SeenAddress<'_>, BTreeMap<VendorId, BTreeSet<BackendId>>> = BTreeMap::new();
    for (panel, id, server) in servers(configuration) {
        let Some(entry) = configuration.backends.get(id) else { continue };
        let Some(vendor) = &entry.vendor else { continue };
        let pool =
            entry.built_from.as_ref().and_then(|built| built.pool.as_ref()).map(|pool| pool.name.clone());
        for address in addresses.get(&server).into_iter().flatten() {
            let vendors = found.entry((panel, pool.clone(), *address)).or_default();
            vendors.entry(vendor.clone()).or_default().insert(id.clone());
        }
    }
    let mut told = BTreeSet::new();
    let shared = found.into_iter().filter(|(_, vendors)| vendors.len() > 1);
    // Two servers can share several addresses. Report them once.
    let shared = shared.filter(|((panel, ..), vendors)| told.insert((*panel, vendors.clone())));
    shared
        .map(|((panel, _, address), vendors)| {
            let distinct = configuration.panels.get(panel).and_then(|roster| roster.distinct);
            SharedAddress {
                panel: panel.to_owned(),
                address,
                vendors,
                is_refused: distinct == Some(Distinct::Address),
            }
        })
        .collect()
}

/// Returns the addresses of a server. All loopback addresses count as one. Blocks.
fn resolved(server: &ServerAddress) -> BTreeSet<SocketAddr> {
    let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let found: Vec<IpAddr> = match server.host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        // `localhost` needs no name service.
        Err(_) if server.host == "localhost" => vec![own],
        Err(_) => {
            let found = (server.host.as_str(), server.port).to_socket_addrs();
            found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
        }
    };
    // An IPv4 address in IPv6 form is the same address.
    let canonical = found.into_iter().map(|address| address.to_canonical());
    let folded = canonical
        .map(|address| if address.is_loopback() || address.is_unspecified() { own } else { address });
    folded.map(|address| SocketAddr::new(address, server.port)).collect()
}

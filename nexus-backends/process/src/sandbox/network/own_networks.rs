//! Networks of this machine's own interfaces. A public address can belong to this machine or to its neighbor.

use std::io;
use std::net::IpAddr;

use super::addresses::translated;

/// Addresses of this machine's interfaces, each with the length of its network's prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnNetworks(Vec<(IpAddr, u8)>);

impl OwnNetworks {
    /// Asks the kernel for the addresses.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    #[cfg(target_os = "linux")]
    pub(super) fn find() -> io::Result<Self> {
        super::netlink::interface_addresses().map(Self)
    }

    /// Returns an error: only Linux has sandboxes.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn find() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns true if the address belongs to this machine or to the network of one of its interfaces. An IPv4 address in an IPv6
    /// address is judged as such.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let address = translated(address);
        self.0.iter().any(|(own, prefix)| match (*own, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                is_within(u128::from(own.to_bits()), u128::from(other.to_bits()), 32, *prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => is_within(own.to_bits(), other.to_bits(), 128, *prefix),
            _ => false,
        })
    }
}

/// Returns true if the first `prefix` of `width` bits are the same. A prefix without bits covers only the address itself.
fn is_within(own: u128, other: u128, width: u8, prefix: u8) -> bool {
    // A prefix of 0 would cover every address, and its shift by the whole width would overflow.
    let prefix = if (1..width).contains(&prefix) { prefix } else { width };
    (own ^ other) >> (width - prefix) == 0
}

#[cfg(test)]
impl<const COUNT: usize> From<[(&str, u8); COUNT]> for OwnNetworks {
    fn from(all: [(&str, u8); COUNT]) -> Self {
        Self(all.into_iter().map(|(address, prefix)| (address.parse().unwrap(), prefix)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_own_networks_are_recognised() {
        let own = OwnNetworks::from([
            ("93.184.216.34", 24),
            ("1.1.1.1", 32),
            ("8.8.8.8", 0),
            ("2606:4700::5", 64),
            ("2620::1", 128),
        ]);
        for (address, expected) in [
            ("93.184.216.34", true),
            ("93.184.216.99", true),
            ("::ffff:93.184.216.99", true),
            ("64:ff9b::5db8:d822", true),
            ("93.184.217.34", false),
            ("1.1.1.1", true),
            ("1.1.1.2", false),
            ("8.8.8.8", true),
            ("8.8.4.4", false),
            ("2606:4700::9", true),
            ("2606:4700:0:1::9", false),
            ("2620::1", true),
            ("2620::2", false),
        ] {
            assert_eq!(own.contains(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_lists_the_loopback_interface() {
        let own = OwnNetworks::find().unwrap();
        assert!(own.contains("127.0.0.1".parse().unwrap()), "{own:?}");
        assert!(!own.contains("203.0.113.77".parse().unwrap()), "{own:?}");
    }
}

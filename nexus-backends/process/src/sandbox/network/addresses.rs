//! Addresses of the public Internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that do not belong to the public Internet: first address and length of the prefix. Source: IANA IPv4 Special-Purpose
/// Address Registry; the cloud metadata service is in `169.254.0.0/16`, and `168.63.129.16` leads to the host of a virtual machine
/// in Azure (Source: Azure documentation, "What is IP address 168.63.129.16?").
const NOT_PUBLIC_V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([168, 63, 129, 16], 32),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];
/// Networks within `2000::/3` that do not belong to the public Internet: first 32 bits and length of the prefix. Teredo and
/// 6to4 (`2002::/16`) contain IPv4 addresses. Source: IANA IPv6 Special-Purpose Address Registry.
const NOT_PUBLIC_V6: [(u32, u32); 4] =
    [(0x2001_0000, 23), (0x2001_0db8, 32), (0x2002_0000, 16), (0x3fff_0000, 20)];
/// First 96 bits of an address that a NAT64 translates to the IPv4 address in its last 32 bits. Source: RFC 6052.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Returns true if the address belongs to the public Internet: it is not private, loopback, link-local, shared, reserved or a
/// multicast group. An IPv4 address in an IPv6 address is judged as such.
pub(super) fn is_public(address: IpAddr) -> bool {
    match translated(address) {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Returns the IPv4 address in an IPv6 address that contains one. Another address stays as it is.
pub(super) fn translated(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if address.segments()[..6] == NAT64 => {
            let [.., third, fourth] = address.segments();
            Ipv4Addr::from_bits(u32::from(third) << 16 | u32::from(fourth)).into()
        }
        address => address,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    let is_in =
        |(network, length): ([u8; 4], u32)| (bits ^ u32::from_be_bytes(network)).leading_zeros() >= length;
    !NOT_PUBLIC_V4.into_iter().any(is_in)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let bits = u32::from(segments[0]) << 16 | u32::from(segments[1]);
    let is_in = |(network, length): (u32, u32)| (bits ^ network).leading_zeros() >= length;
    // All addresses that are assigned to hosts of the Internet are in `2000::/3`.
    bits >> 29 == 1 && !NOT_PUBLIC_V6.into_iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("1.1.1.1", true),
            ("100.63.255.255", true),
            ("172.32.0.1", true),
            ("2606:4700::6810:84e5", true),
            ("64:ff9b::5db8:d822", true),
            ("::ffff:1.1.1.1", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("168.63.129.16", false),
            ("168.63.129.17", true),
            ("172.31.255.255", false),
            ("192.168.1.1", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:10.0.0.1", false),
            ("::10.0.0.1", false),
            ("64:ff9b::a00:1", false),
            ("64:ff9b:1::1", false),
            ("fe80::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("2001::1", false),
            ("2002:a00:1::1", false),
            ("3fff::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}

//! The users who listen on a port of this machine.

#[cfg(target_os = "linux")]
use std::net::IpAddr;
use std::net::SocketAddr;

/// Server on a loopback address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// No server listens.
    None,
    /// The server belongs to this user or to root, or the system does not report its user.
    Usable,
    /// The server belongs to another user, with this number.
    OfOther(u32),
}

/// Returns the server that receives connections to a loopback address.
#[cfg(target_os = "linux")]
pub(super) fn listener(address: SocketAddr) -> Listener {
    let read = |path| std::fs::read_to_string(path).ok();
    let (four, six) = (read("/proc/net/tcp"), read("/proc/net/tcp6"));
    if four.is_none() && six.is_none() {
        return Listener::Usable;
    }
    let users = [(four, false), (six, true)];
    let users = users
        .iter()
        .flat_map(|(table, is_six)| users_of(table.as_deref().unwrap_or_default(), address, *is_six));
    judge(users, rustix::process::geteuid().as_raw())
}

/// Other systems do not report the user of a socket to other programs.
#[cfg(not(target_os = "linux"))]
pub(super) fn listener(_address: SocketAddr) -> Listener {
    Listener::Usable
}

#[cfg(target_os = "linux")]
fn judge(users: impl Iterator<Item = u32>, user: u32) -> Listener {
    let mut found = Listener::None;
    for other in users {
        if other != user && other != 0 {
            return Listener::OfOther(other);
        }
        found = Listener::Usable;
    }
    found
}

/// Returns the users of the sockets in a table of the kernel that receive connections to a loopback address.
///
/// Source: Linux, `Documentation/networking/proc_net_tcp.rst`. The fields are the number, the local address, the remote address, the
/// state, two queues, the timer, the retransmissions and the user. Addresses are hexadecimal, in the byte order of the machine.
#[cfg(target_os = "linux")]
fn users_of(table: &str, of: SocketAddr, is_six: bool) -> Vec<u32> {
    /// State of a listening socket.
    const LISTENS: &str = "0A";
    let user = |line: &str| -> Option<u32> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (address, number) = fields.get(1)?.split_once(':')?;
        let is_port = u16::from_str_radix(number, 16).ok()? == of.port();
        (is_port && *fields.get(3)? == LISTENS && receives(address, of.ip(), is_six))
            .then(|| fields.get(7)?.parse().ok())
            .flatten()
    };
    table.lines().skip(1).filter_map(user).collect()
}

/// Returns true if a socket with this local address receives connections to `to`.
#[cfg(target_os = "linux")]
fn receives(address: &str, to: IpAddr, is_six: bool) -> bool {
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    let bytes: Option<Vec<u8>> = words.collect::<Option<Vec<_>>>().map(|words| words.concat());
    let Some(bytes) = bytes else { return false };
    let is_any = bytes.iter().all(|byte| *byte == 0);
    match to {
        // An address of version 6 may also stand for one of version 4.
        IpAddr::V4(to) if is_six => is_any || bytes == to.to_ipv6_mapped().octets(),
        IpAddr::V4(to) => is_any || bytes == to.octets(),
        IpAddr::V6(to) => is_six && (is_any || bytes == to.octets()),
    }
}

#[cfg(all(test, target_os = "linux", target_endian = "little"))]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const FOUR: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 100 0 0 10 0
   2: 0100007F:1F40 0100007F:2CAA 01 00000000:00000000 00:00000000 00000000  1001        0 3 1 0 100 0 0 10 0
   3: 0500A8C0:04D2 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 4 1 0 100 0 0 10 0
";

    const SIX: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:04D2 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5 1 0 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:22B8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 6 1 0 100 0 0 10 0
   2: 00000000000000000000000001000000:22B9 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 7 1 0 100 0 0 10 0
";

    #[test]
    fn the_user_of_a_server_is_read_from_the_tables_of_the_kernel() {
        // 8000 has a connection and no server, 1234 has one on another address, 8889 one on the loopback address of version 6.
        for (port, expected) in [
            (11434, Listener::Usable),
            (8080, Listener::OfOther(1001)),
            (8000, Listener::None),
            (1234, Listener::Usable),
            (8888, Listener::OfOther(1001)),
            (8889, Listener::None),
        ] {
            let address = (Ipv4Addr::LOCALHOST, port).into();
            let users = [users_of(FOUR, address, false), users_of(SIX, address, true)].concat();
            assert_eq!(judge(users.into_iter(), 1000), expected, "{port}");
        }
        // 8080 and 11434 have servers of version 4 alone, 8888 one on an address of version 4 in the table of version 6.
        for (port, expected) in [
            (8889, Listener::OfOther(1001)),
            (1234, Listener::Usable),
            (8080, Listener::None),
            (11434, Listener::None),
            (8888, Listener::None),
        ] {
            let address = (Ipv6Addr::LOCALHOST, port).into();
            let users = [users_of(FOUR, address, false), users_of(SIX, address, true)].concat();
            assert_eq!(judge(users.into_iter(), 1000), expected, "{port}");
        }
        let address = (Ipv4Addr::LOCALHOST, 1).into();
        assert!(users_of("a table\nof another system\n", address, false).is_empty());
    }
}

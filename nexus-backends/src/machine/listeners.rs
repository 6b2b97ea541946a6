//! The users who listen on a port of this machine.

/// Server on a port of the loopback address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// No server listens.
    None,
    /// The server belongs to this user or to root, or the system does not report its user.
    Usable,
    /// The server belongs to another user, with this number.
    OfOther(u32),
}

/// Returns the server that receives connections to `127.0.0.1:port`.
#[cfg(target_os = "linux")]
pub(super) fn listener(port: u16) -> Listener {
    let read = |path| std::fs::read_to_string(path).ok();
    let (four, six) = (read("/proc/net/tcp"), read("/proc/net/tcp6"));
    if four.is_none() && six.is_none() {
        return Listener::Usable;
    }
    let users = [(four, false), (six, true)];
    let users = users
        .iter()
        .flat_map(|(table, is_six)| users_of(table.as_deref().unwrap_or_default(), port, *is_six));
    judge(users, rustix::process::geteuid().as_raw())
}

/// Other systems do not report the user of a socket to other programs.
#[cfg(not(target_os = "linux"))]
pub(super) fn listener(_port: u16) -> Listener {
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

/// Returns the users of the sockets in a table of the kernel that receive connections to `127.0.0.1:port`.
///
/// Source: Linux, `Documentation/networking/proc_net_tcp.rst`. The fields are the number, the local address, the remote address, the
/// state, two queues, the timer, the retransmissions and the user. Addresses are hexadecimal, in the byte order of the machine.
#[cfg(target_os = "linux")]
fn users_of(table: &str, port: u16, is_six: bool) -> Vec<u32> {
    /// State of a listening socket.
    const LISTENS: &str = "0A";
    let user = |line: &str| -> Option<u32> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (address, number) = fields.get(1)?.split_once(':')?;
        let is_port = u16::from_str_radix(number, 16).ok()? == port;
        (is_port && *fields.get(3)? == LISTENS && receives_loopback(address, is_six))
            .then(|| fields.get(7)?.parse().ok())
            .flatten()
    };
    table.lines().skip(1).filter_map(user).collect()
}

/// Returns true if a socket with this local address receives connections to 127.0.0.1.
#[cfg(target_os = "linux")]
fn receives_loopback(address: &str, is_six: bool) -> bool {
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    let bytes: Option<Vec<u8>> = words.collect::<Option<Vec<_>>>().map(|words| words.concat());
    let Some(bytes) = bytes else { return false };
    // An address of version 6 may also stand for one of version 4.
    let four = match is_six {
        true => bytes.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]),
        false => Some(bytes.as_slice()),
    };
    bytes.iter().all(|byte| *byte == 0) || four == Some(&[127, 0, 0, 1])
}

#[cfg(all(test, target_os = "linux", target_endian = "little"))]
mod tests {
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
            let users = [users_of(FOUR, port, false), users_of(SIX, port, true)].concat();
            assert_eq!(judge(users.into_iter(), 1000), expected, "{port}");
        }
        assert!(users_of("a table\nof another system\n", 1, false).is_empty());
    }
}

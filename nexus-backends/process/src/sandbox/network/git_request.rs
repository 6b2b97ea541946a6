//! First packet of the `git://` protocol, which has no line break and names its server. Source: Git, `gitprotocol-pack(5)`, Git
//! Transport; `gitprotocol-common(5)`, pkt-line format.

use super::target::RelayTarget;

/// Programs that a client can ask for.
const SERVICES: [&[u8]; 3] = [b"git-upload-pack ", b"git-receive-pack ", b"git-upload-archive "];
/// Size of the length at the beginning, in hexadecimal digits.
const LENGTH_BYTES: usize = 4;
/// Port of `git:` URLs. Source: Git, `gitprotocol-pack(5)`.
const GIT_PORT: u16 = 9418;

/// Result of reading the beginning of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GitRequest {
    /// The protocol is another one.
    Other,
    /// The packet is not complete.
    Incomplete,
    /// The server that the packet names. `None` if it names none, or more than one.
    Complete(Option<RelayTarget>),
}

/// Reads the beginning of a connection.
pub(super) fn read(bytes: &[u8]) -> GitRequest {
    let Some((digits, content)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return GitRequest::Other };
    let length = std::str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let Some(length) = length.and_then(|length| length.checked_sub(LENGTH_BYTES)) else {
        return GitRequest::Other;
    };
    if !SERVICES.iter().any(|service| content.starts_with(service)) {
        return GitRequest::Other;
    }
    let Some(packet) = content.get(..length) else { return GitRequest::Incomplete };
    // A server of another protocol could read a line with these bytes in another way.
    let is_plain =
        !packet.contains(&b'\n') && !packet.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"));
    // Git's server reads the host from the first argument after the path, in any case. Further arguments follow an empty one, and
    // none of them may name another host.
    let mut parts = packet.split(|byte| *byte == 0).skip(1);
    let host = parts.next().and_then(|part| named_host(part)).filter(|_| is_plain);
    let has_another = parts.any(|part| named_host(part).is_some());
    GitRequest::Complete(host.filter(|_| !has_another).and_then(|host| {
        std::str::from_utf8(host).ok().and_then(|host| RelayTarget::of_authority(host, Some(GIT_PORT)))
    }))
}

/// Returns the host in an argument; `None` for another argument.
fn named_host(argument: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"host=";
    let (name, host) = argument.split_at_checked(NAME.len())?;
    name.eq_ignore_ascii_case(NAME).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_packet_is_its_host() {
        let packet = |content: &str| format!("{:04x}{content}", content.len() + LENGTH_BYTES).into_bytes();
        for (content, expected) in [
            ("git-upload-pack /x.git\0host=a.test\0", Some("a.test:9418")),
            ("git-upload-pack /x.git\0host=a.test:77\0\0version=2\0", Some("a.test:77")),
            ("git-upload-pack /x.git\0host=a.test\0host=b.test\0", None),
            ("git-upload-pack /x.git\0HOST=a.test\0", Some("a.test:9418")),
            ("git-upload-pack /x.git\0HOST=b.test\0\0host=a.test\0", None),
            ("git-upload-pack /x.git\0\0host=a.test\0", None),
            ("git-upload-pack /x.git\0", None),
            ("git-upload-pack /\nHost: b.test\n\n\0host=a.test\0", None),
            ("git-upload-pack / HTTP/1.1\0host=a.test\0", None),
        ] {
            let bytes = packet(content);
            let named = expected.map(|text| RelayTarget::of_authority(text, None).unwrap());
            assert_eq!(read(&bytes), GitRequest::Complete(named), "{content:?}");
            assert_eq!(read(&bytes[..bytes.len() - 1]), GitRequest::Incomplete, "{content:?}");
        }
        for other in
            [&b"00"[..], b"0000", b"0003git-upload-pack ", b"zzzzgit-upload-pack /x\0", b"0010GET / HTTP"]
        {
            assert_eq!(read(other), GitRequest::Other, "{other:?}");
        }
    }
}

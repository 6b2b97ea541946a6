//! Interfaces of a network namespace, by netlink: changes of the loopback interface, and the list of addresses.
//!
//! Source: `rtnetlink(7)`; Linux, `linux/rtnetlink.h`, `linux/if_addr.h`, `linux/netlink.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

// Source: `linux/rtnetlink.h`.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESSES: u16 = 22;
const ADDRESS: u16 = 1;
const LOCAL_ADDRESS: u16 = 2;
// Source: `linux/netlink.h`: NLM_F_REQUEST and NLM_F_ACK, NLMSG_ERROR.
const REQUEST_WITH_ACK: u16 = 5;
const ERROR: u16 = 2;
// Source: `linux/netlink.h`: NLM_F_REQUEST and NLM_F_DUMP, NLMSG_DONE.
const REQUEST_ALL: u16 = 0x301;
const DONE: u16 = 3;
/// Index of the loopback interface in every network namespace. Source: Linux, `LOOPBACK_IFINDEX`.
const LOOPBACK: u32 = 1;
/// `IFF_UP`.
const UP: u32 = 1;
/// `IFA_F_NODAD`: an IPv6 address can be used at once.
const WITHOUT_DETECTION: u8 = 2;
/// `RT_SCOPE_HOST`.
const SCOPE_HOST: u8 = 254;
/// Size of the header of a message.
const HEADER_BYTES: usize = 16;
/// Size of `ifaddrmsg`, which precedes the attributes of an address, and of an attribute's header.
const ADDRESS_BYTES: usize = 8;
const ATTRIBUTE_BYTES: usize = 4;
/// Size of the buffer for a list. The kernel sends at most this much at once. Source: `netlink(7)`; Linux, `netlink_dump`.
const LIST_BYTES: usize = 32 << 10;

/// Connection to the kernel.
#[derive(Debug)]
pub(super) struct LoopbackSetup(OwnedFd);

impl LoopbackSetup {
    /// Connects to the kernel.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub(super) fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        Ok(Self(socket_with(family, kind, SocketFlags::CLOEXEC, None)?))
    }

    /// Starts the interface, which gets `127.0.0.1/8` and `::1`.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub(super) fn start(&self) -> io::Result<()> {
        // The family and the type of the interface are unspecified.
        let content = [&[0; 4][..], &LOOPBACK.to_ne_bytes(), &UP.to_ne_bytes(), &UP.to_ne_bytes()].concat();
        self.request(NEW_LINK, &content)
    }

    /// Adds an address, so that a server can listen at it.
    ///
    /// # Errors
    ///
    /// An error of the kernel.
    pub(super) fn add(&self, address: IpAddr) -> io::Result<()> {
        let (family, bytes) = match address {
            IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
            IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
        };
        let family = u8::try_from(family.as_raw()).map_err(io::Error::other)?;
        // An address has at most 16 bytes.
        let size = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut content = vec![family, bytes.len() as u8 * 8, WITHOUT_DETECTION, SCOPE_HOST];
        content.extend(LOOPBACK.to_ne_bytes());
        for attribute in [LOCAL_ADDRESS, ADDRESS] {
            content.extend((size + 4).to_ne_bytes());
            content.extend(attribute.to_ne_bytes());
            content.extend(&bytes);
        }
        self.request(NEW_ADDRESS, &content)
    }

    /// Sends one request, and reads the kernel's answer.
    fn request(&self, kind: u16, content: &[u8]) -> io::Result<()> {
        send(&self.0, kind, REQUEST_WITH_ACK, content)?;
        let mut answer = [0_u8; 1024];
        let (_, size) = recv(&self.0, &mut answer, RecvFlags::empty())?;
        let answer = answer.get(..size).unwrap_or_default();
        let is_error = answer.get(4..6) == Some(&ERROR.to_ne_bytes()[..]);
        let code = answer.get(HEADER_BYTES..HEADER_BYTES + 4).and_then(|code| code.try_into().ok());
        match code.map(i32::from_ne_bytes) {
            // An error of 0 is an acknowledgement.
            Some(0) if is_error => Ok(()),
            Some(code) if is_error => Err(io::Error::from_raw_os_error(-code)),
            _ => Err(io::Error::other("the kernel sent an unknown answer")),
        }
    }
}

/// Returns the addresses of all interfaces in this process's network namespace, each with the length of its prefix.
///
/// # Errors
///
/// An error of the kernel.
pub(super) fn interface_addresses() -> io::Result<Vec<(IpAddr, u8)>> {
    let LoopbackSetup(socket) = LoopbackSetup::open()?;
    // A zero family selects all families.
    send(&socket, GET_ADDRESSES, REQUEST_ALL, &[0; ADDRESS_BYTES])?;
    let (mut found, mut buffer) = (Vec::new(), vec![0_u8; LIST_BYTES]);
    loop {
        let (_, size) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = buffer.get(..size).unwrap_or_default();
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some((kind, content)) = take_message(&mut rest) {
            match kind {
                DONE => return Ok(found),
                ERROR => return Err(io::Error::other("the kernel refused to list the addresses")),
                NEW_ADDRESS => found.extend(address_of(content)),
                _ => {}
            }
        }
    }
}

/// Sends one message to the kernel.
fn send(socket: &OwnedFd, kind: u16, flags: u16, content: &[u8]) -> io::Result<()> {
    let size = u32::try_from(HEADER_BYTES + content.len()).map_err(io::Error::other)?;
    let mut message = Vec::from(size.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // The sequence number and the sender's port, which the kernel assigns.
    message.extend([0; 8]);
    message.extend(content);
    sendto(socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    Ok(())
}

/// Takes the first message. Returns its kind and its content.
fn take_message<'b>(bytes: &mut &'b [u8]) -> Option<(u16, &'b [u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let size = usize::try_from(u32::from_ne_bytes(*size)).ok()?;
    let content = bytes.get(HEADER_BYTES..size)?;
    let (kind, _) = rest.split_first_chunk::<2>()?;
    *bytes = bytes.get(size.next_multiple_of(4)..).unwrap_or_default();
    Some((u16::from_ne_bytes(*kind), content))
}

/// Returns the address of an interface and the length of its prefix. On a link with a peer, only the local address is the
/// interface's own. Source: Linux, `linux/if_addr.h`.
fn address_of(content: &[u8]) -> Option<(IpAddr, u8)> {
    let prefix = *content.get(1)?;
    let (mut attributes, mut found) = (content.get(ADDRESS_BYTES..)?, None);
    while let Some((head, _)) = attributes.split_first_chunk::<ATTRIBUTE_BYTES>() {
        let size = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let Some(value) = attributes.get(ATTRIBUTE_BYTES..size) else { break };
        let kind = u16::from_ne_bytes([head[2], head[3]]);
        if kind == LOCAL_ADDRESS || kind == ADDRESS && found.is_none() {
            let v4 = || <[u8; 4]>::try_from(value).ok().map(|bytes| IpAddr::from(Ipv4Addr::from(bytes)));
            let v6 = || <[u8; 16]>::try_from(value).ok().map(|bytes| IpAddr::from(Ipv6Addr::from(bytes)));
            found = v4().or_else(v6);
        }
        attributes = attributes.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    found.map(|address| (address, prefix))
}

//! The filter of system calls: what no namespace keeps in.
//!
//! Keyrings are the session's, which a program inherits over every namespace. Sockets of some families (`AF_VSOCK`, which
//! leads out of a virtual machine) belong to no network namespace. Another architecture's calls have other numbers, so there are none.

/// One instruction of classic BPF. Source: `linux/filter.h`, `struct sock_filter`.
type Instruction = (u16, u8, u8, u32);

// Source: `linux/bpf_common.h`.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
#[cfg(target_arch = "x86_64")]
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
// Source: `linux/seccomp.h`, `struct seccomp_data`, and SECCOMP_RET_*.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;
/// No such call.
const ENOSYS: u32 = 38;
/// No such family of addresses.
const EAFNOSUPPORT: u32 = 97;
/// `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK`.
const FAMILIES: [u32; 4] = [1, 2, 10, 16];

/// The numbers of this machine: its architecture (`linux/audit.h`), `socket`, and the calls that are refused: `add_key`,
/// `request_key`, `keyctl` (`asm/unistd_64.h`; `asm-generic/unistd.h`).
#[cfg(target_arch = "x86_64")]
const NATIVE: Option<(u32, u32, [u32; 3])> = Some((0xc000_003e, 41, [248, 249, 250]));
#[cfg(target_arch = "aarch64")]
const NATIVE: Option<(u32, u32, [u32; 3])> = Some((0xc000_00b7, 198, [217, 218, 219]));
#[cfg(target_arch = "riscv64")]
const NATIVE: Option<(u32, u32, [u32; 3])> = Some((0xc000_00f3, 198, [217, 218, 219]));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const NATIVE: Option<(u32, u32, [u32; 3])> = None;

/// The filter as bubblewrap takes it (`--seccomp`); `None` on an architecture whose numbers are not known here.
pub(super) fn filter() -> Option<Vec<u8>> {
    let (architecture, socket, refused) = NATIVE?;
    let answer = |errno: u32| (RETURN, 0, 0, ERROR | errno);
    let mut program: Vec<Instruction> = vec![
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, architecture),
        answer(ENOSYS),
        (LOAD, 0, 0, NUMBER),
    ];
    // The calls of x32 have the same architecture and a bit in their numbers.
    #[cfg(target_arch = "x86_64")]
    program.extend([(JUMP_IF_AT_LEAST, 0, 1, 0x4000_0000), answer(ENOSYS)]);
    for number in refused {
        program.extend([(JUMP_IF_EQUAL, 0, 1, number), answer(ENOSYS)]);
    }
    program.extend([(JUMP_IF_EQUAL, 1, 0, socket), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, FIRST_ARGUMENT)]);
    for family in FAMILIES {
        program.extend([(JUMP_IF_EQUAL, 0, 1, family), (RETURN, 0, 0, ALLOW)]);
    }
    program.push(answer(EAFNOSUPPORT));
    let bytes = |(code, is_true, is_false, operand): Instruction| {
        let mut bytes = Vec::from(code.to_ne_bytes());
        bytes.extend([is_true, is_false]);
        bytes.extend(operand.to_ne_bytes());
        bytes
    };
    Some(program.into_iter().flat_map(bytes).collect())
}

//! System call filter, for everything that no namespace contains.
//!
//! Keyrings belong to the session, which a program inherits across all namespaces. Sockets of some families belong to
//! no network namespace, such as `AF_VSOCK`, which connects a virtual machine to its host. `io_uring` creates sockets
//! that no system call filter sees. `bpf` and `perf_event_open` run programs in the kernel, on machines that allow it
//! to every user.
//!
//! A file in a writable tree outlives the run, and its owner is this program's user. With a set-user-id bit it would
//! give that user's rights, even root's, to any user who runs it outside.
//!
//! System calls of another architecture have other numbers, so all of them are rejected.

/// One instruction of classic BPF. Source: `linux/filter.h`, `struct sock_filter`.
type Instruction = (u16, u8, u8, u32);

// Source: `linux/bpf_common.h`.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
#[cfg(target_arch = "x86_64")]
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
// Source: `linux/seccomp.h`, `struct seccomp_data`, and SECCOMP_RET_*.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;
/// Error "operation not permitted".
const EPERM: u32 = 1;
/// Error "no such system call".
const ENOSYS: u32 = 38;
/// Error "not supported", with which file systems reject an operation. Programs continue without it.
const EOPNOTSUPP: u32 = 95;
/// Number of `fallocate`, which allocates disk space faster than the watch can see. Source: `asm/unistd_64.h`;
/// `asm-generic/unistd.h`.
const FALLOCATE: u32 = if cfg!(target_arch = "x86_64") { 285 } else { 47 };
/// Error "no such address family".
const EAFNOSUPPORT: u32 = 97;
/// Allowed address families: `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK`.
const FAMILIES: [u32; 4] = [1, 2, 10, 16];

/// Numbers of this machine: its architecture (`linux/audit.h`), `socket`, and the rejected calls `add_key`,
/// `request_key`, `keyctl`, `bpf`, `perf_event_open` (`asm/unistd_64.h`; `asm-generic/unistd.h`).
#[cfg(target_arch = "x86_64")]
const NATIVE: Option<(u32, u32, [u32; 5])> = Some((0xc000_003e, 41, [248, 249, 250, 321, 298]));
#[cfg(target_arch = "aarch64")]
const NATIVE: Option<(u32, u32, [u32; 5])> = Some((0xc000_00b7, 198, [217, 218, 219, 280, 241]));
#[cfg(target_arch = "riscv64")]
const NATIVE: Option<(u32, u32, [u32; 5])> = Some((0xc000_00f3, 198, [217, 218, 219, 280, 241]));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const NATIVE: Option<(u32, u32, [u32; 5])> = None;

/// `io_uring_setup`, `io_uring_enter`, `io_uring_register`, which have the same numbers on all architectures.
/// Programs work without them, as in many containers.
const IO_URING: [u32; 3] = [425, 426, 427];

/// Mode bits set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// `O_CREAT` and `O_TMPFILE`: without either of them, `open` ignores its mode. Source: `asm-generic/fcntl.h`.
const CREATES: u32 = 0o100 | 0o20_000_000;
/// Number of `openat2`. Its mode is behind a pointer, which no filter sees, so the call is rejected. Programs work
/// without it, as on Linux before 5.6.
const OPENAT2: u32 = 437;
/// Calls that set the mode of a file: `chmod`, `fchmod`, `fchmodat`, `fchmodat2`, `mknod`, `mknodat`, `creat`, `open`,
/// `openat`, as far as the architecture has them. Each has the number of its flags argument, if the flags decide
/// whether the mode counts, and the number of its mode argument.
#[cfg(target_arch = "x86_64")]
const GIVE_MODE: [(u32, Option<u32>, u32); 9] = [
    (90, None, 1),
    (91, None, 1),
    (268, None, 2),
    (452, None, 2),
    (133, None, 1),
    (259, None, 2),
    (85, None, 1),
    (2, Some(1), 2),
    (257, Some(2), 3),
];
#[cfg(not(target_arch = "x86_64"))]
const GIVE_MODE: [(u32, Option<u32>, u32); 5] =
    [(52, None, 1), (53, None, 2), (452, None, 2), (33, None, 2), (56, Some(2), 3)];

/// Offset of the lower half of an argument.
const fn argument(number: u32) -> u32 {
    ARGUMENTS + 8 * number
}

/// Returns the filter in bubblewrap's format (`--seccomp`); `None` on an architecture whose numbers are not known here.
pub(super) fn filter() -> Option<Vec<u8>> {
    let (architecture, socket, refused) = NATIVE?;
    let answer = |errno: u32| (RETURN, 0, 0, ERROR | errno);
    let mut program: Vec<Instruction> = vec![
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, architecture),
        answer(ENOSYS),
        (LOAD, 0, 0, NUMBER),
    ];
    // Calls of x32 have the same architecture, and an additional bit in their numbers.
    #[cfg(target_arch = "x86_64")]
    program.extend([(JUMP_IF_AT_LEAST, 0, 1, 0x4000_0000), answer(ENOSYS)]);
    for number in refused.into_iter().chain(IO_URING).chain([OPENAT2]) {
        program.extend([(JUMP_IF_EQUAL, 0, 1, number), answer(ENOSYS)]);
    }
    program.extend([(JUMP_IF_EQUAL, 0, 1, FALLOCATE), answer(EOPNOTSUPP)]);
    for (number, flags, mode) in GIVE_MODE {
        let look = flags.map(|flags| [(LOAD, 0, 0, argument(flags)), (JUMP_IF_ANY_BIT, 0, 3, CREATES)]);
        program.push((JUMP_IF_EQUAL, 0, if look.is_some() { 6 } else { 4 }, number));
        program.extend(look.into_iter().flatten());
        program.extend([(LOAD, 0, 0, argument(mode)), (JUMP_IF_ANY_BIT, 0, 1, SET_ID)]);
        program.extend([answer(EPERM), (RETURN, 0, 0, ALLOW)]);
    }
    program.extend([(JUMP_IF_EQUAL, 1, 0, socket), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, argument(0))]);
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

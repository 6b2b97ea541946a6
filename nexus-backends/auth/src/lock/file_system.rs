//! Whether a file system keeps its word about locks.

use std::fs::File;

/// Magic numbers of file systems on which the kernel itself keeps the locks, so that they hold for everybody who
/// can see the files. Network file systems pass locks on to a server, to nobody, or to this machine alone,
/// depending on how they are mounted; the ones in user space do as they like. What is not listed is not trusted.
/// Source: `statfs(2)` and `linux/magic.h`.
#[cfg(target_os = "linux")]
const KEPT_BY_THE_KERNEL: [u32; 14] = [
    0x0000_ef53, // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlayfs
    0x3153_464a, // jfs
    0x5265_4973, // reiserfs
    0x0000_3434, // nilfs2
    0x7366_746e, // ntfs3
    0x2011_bab0, // exfat
];

/// Whether locks hold on the file system of `folder`, for everybody who can see it.
#[cfg(target_os = "linux")]
pub(super) fn keeps_locks(folder: &File) -> bool {
    // The field's type differs between architectures; the number is of 32 bits on all of them.
    #[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    rustix::fs::fstatfs(folder).is_ok_and(|found| KEPT_BY_THE_KERNEL.contains(&(found.f_type as u32)))
}

/// Elsewhere nothing is known.
#[cfg(not(target_os = "linux"))]
pub(super) fn keeps_locks(_folder: &File) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_trusted_and_what_has_no_files_of_ours_is_not() {
        assert!(keeps_locks(&File::open(std::env::temp_dir()).unwrap()));
        assert!(!keeps_locks(&File::open("/proc").unwrap()));
    }
}

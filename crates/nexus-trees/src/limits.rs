//! Size limits of a tree.

/// Size limits of a tree: they bound the bytes that an agent can make the host read, hash and store.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// Files, links and others in a folder, including ignored ones. A million.
    pub files: usize,
    /// Folders in folders. 128.
    pub depth: usize,
    /// Bytes of one file. 1 GiB.
    pub file_bytes: u64,
    /// Bytes of all files that are taken, and of a bundle that is read. 16 GiB.
    pub total_bytes: u64,
    /// Bytes of a patch. 256 MiB.
    pub patch_bytes: u64,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            files: 1_000_000,
            depth: 128,
            file_bytes: 1 << 30,
            total_bytes: 16 << 30,
            patch_bytes: 256 << 20,
        }
    }
}

//! Size limits of a tree.

/// Size limits of a tree: they bound the bytes that an agent can make the host read, hash and store.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// Maximum number of files, links and other entries in a folder, including ignored ones. A million.
    pub files: usize,
    /// Maximum depth of nested folders. 128.
    pub depth: usize,
    /// Maximum size of one file, in bytes. 1 GiB.
    pub file_bytes: u64,
    /// Maximum total size of the recorded files, and of a bundle that is read, in bytes. 16 GiB.
    pub total_bytes: u64,
    /// Maximum size of a patch, in bytes. 256 MiB.
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

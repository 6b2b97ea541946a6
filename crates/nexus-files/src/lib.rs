//! Private files of Nexus, and the few text formats that every crate writes.
//!
//! A *private* file or folder is readable and writable by its owner alone. Functions that open a file reject links, pipes, sockets and
//! devices with [`InvalidData`](std::io::ErrorKind::InvalidData), because a link leads elsewhere, and opening a pipe blocks. The
//! exceptions, reading a secret and locking a folder, follow links.
//!
//! - [`read_bounded`], [`replace`], [`create_once`] and [`make_private_folder`] read and write whole files.
//! - [`FileLock`] is the operating system's lock on a file or folder. The system releases it when its process dies.
//! - [`SecretFile`] is a secret that is created once.
//! - `JsonLinesLog` (feature `json-lines`) is an append-only log, and [`append_line`] its rule for torn lines.
//! - `Journal` (feature `journal`) is the log of changes in a home.
//! - `HomeIndex` (feature `journal`) has the fields of each piece of work that lists show, verified against its files.
//! - [`FolderSize`] is the size of a folder on the disk, and [`ReadableSize`] shows a size.
//! - [`FileStamp`] is a file's state without its content, for an index.
//! - [`read_text`] reads texts of people and other programs, and recognises UTF-16.
//! - [`FileFault`] classifies a failed operation by what the caller can do about it.
//! - [`counted`] and [`shell_word`] format words of messages.
//! - [`hex`] formats bytes, `rfc3339` (feature `rfc3339`) formats and parses times.
//!
//! ```
//! use nexus_files::FileLock;
//!
//! let folder = tempfile::tempdir()?;
//! let settings = folder.path().join("settings.json");
//! let lock_path = folder.path().join("settings.lock");
//!
//! let lock = FileLock::try_lock(&lock_path)?.expect("no other process runs");
//! nexus_files::replace(&settings, b"{}")?;
//! drop(lock);
//!
//! assert_eq!(nexus_files::read_bounded(&settings, 1024)?.as_deref(), Some(&b"{}"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```

mod append;
mod fault;
mod hex;
#[cfg(feature = "journal")]
mod home_index;
#[cfg(feature = "journal")]
mod journal;
#[cfg(feature = "json-lines")]
mod json_lines;
mod lock;
mod open;
#[cfg(feature = "rfc3339")]
pub mod rfc3339;
mod secret_file;
mod size;
mod stamp;
mod text;
mod whole;
mod words;

pub use append::append_line;
pub use fault::FileFault;
pub use hex::hex;
#[cfg(feature = "journal")]
pub use home_index::{HomeIndex, IndexEntry, IndexedWork, WorkFiles};
#[cfg(feature = "journal")]
pub use journal::{Journal, JournalEntry, JournalKind, JournalRead};
#[cfg(feature = "json-lines")]
pub use json_lines::{JsonLines, JsonLinesLog, TornLine};
pub use lock::{FileLock, lacks_locks};
pub use open::{create_private_folder, is_same_file, make_private_folder, open_regular};
pub use secret_file::{SecretFile, SecretFileError};
pub use size::{FolderSize, ReadableSize};
pub use stamp::FileStamp;
pub use text::{UTF_16, is_utf_16, read_text, text_of, without_byte_order_mark};
pub use whole::{
    create_once, random_name, read_bounded, remove_unfinished, replace, sync_folder, unfinished,
};
pub use words::{counted, shell_word, shortened};

//! The database file: owner-only, of a known version, and still at its path.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::fault::Fault;
use crate::error::{BrokerError, BrokerErrorKind};

/// Longest time for which another process may lock the file. Source: a transaction takes milliseconds; a busy
/// disk, seconds.
const BUSY_TIME: Duration = Duration::from_secs(30);
/// Pause before another attempt to open a file that another process has locked.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Number of compiled statements that each connection caches. There are fewer statements.
const STATEMENTS: usize = 64;
/// Marks a file as a broker's database: "nxbr".
const APPLICATION: i32 = 0x6e78_6272;
/// The version of [`SCHEMA`].
const VERSION: i32 = 1;

const SCHEMA: &str = "
    CREATE TABLE message (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        queue TEXT NOT NULL,
        priority INTEGER NOT NULL,
        state INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        receipt TEXT,
        taken_at INTEGER,
        lease_until INTEGER,
        made_at INTEGER NOT NULL,
        expires_at INTEGER,
        ended_at INTEGER
    ) STRICT;
    CREATE INDEX message_waiting ON message (queue, priority DESC, number) WHERE state = 0;
    CREATE INDEX message_taken ON message (queue, lease_until) WHERE state = 1;
    CREATE INDEX message_expiring ON message (expires_at) WHERE state = 0 AND expires_at IS NOT NULL;
    CREATE INDEX message_ended ON message (ended_at) WHERE state >= 2;
    CREATE TABLE body (number INTEGER PRIMARY KEY, envelope TEXT NOT NULL) STRICT;
    CREATE TABLE queue (name TEXT PRIMARY KEY, open INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE log (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        event INTEGER NOT NULL,
        at INTEGER NOT NULL,
        message INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX log_message ON log (message);
    CREATE TABLE document (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        revision INTEGER NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (kind, key)
    ) STRICT;
    CREATE TABLE revision (last INTEGER NOT NULL) STRICT;
    INSERT INTO revision VALUES (0);
";

const SET_ASIDE_INDEX: &str =
    "CREATE INDEX IF NOT EXISTS message_set_aside ON message (number) WHERE state = -1";

/// Identity of the open file, compared with the file at its path.
#[derive(Debug)]
pub(super) struct OpenedFile {
    path: PathBuf,
    #[cfg(unix)]
    is: Vec<(PathBuf, (u64, u64))>,
}

impl OpenedFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the database file or its write-ahead log was removed or replaced. Anything written to an open file without a
    /// name is lost.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        #[cfg(unix)]
        for (path, is) in &self.is {
            if identity(path).ok().as_ref() != Some(is) {
                return Err(BrokerError::new(
                    BrokerErrorKind::Damaged,
                    format!("{}: the file was removed or replaced while it was open", path.display()),
                    "restore the file, then restart the broker",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Opens the file, and creates it and its folder if they do not exist.
pub(super) fn open(path: &Path) -> Result<(Connection, OpenedFile), BrokerError> {
    let path = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
    make(&path).map_err(|error| unusable(&path, &error))?;
    let began = Instant::now();
    loop {
        match connect(&path) {
            // While another process creates the file, SQLite reports "busy" at once in some cases, so wait here.
            Err(fault) if fault.is_busy() && began.elapsed() < BUSY_TIME => std::thread::sleep(BUSY_PAUSE),
            connected => return connected.map_err(|fault| fault.at(&path)),
        }
    }
}

fn unusable(path: &Path, error: &io::Error) -> BrokerError {
    BrokerError {
        message: format!("{}: the file cannot be created or opened ({error})", path.display()),
        advice: "name one in a folder that this user may write to".to_owned(),
        ..BrokerError::unusable(path, error)
    }
}

/// Creates the file as owner-only. SQLite gives the files beside it the same mode.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    let mut folder = DirBuilder::new();
    let mut file = OpenOptions::new();
    folder.recursive(true);
    file.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        folder.mode(0o700);
        file.mode(0o600);
    }
    if let Some(parent) = path.parent() {
        folder.create(parent)?;
    }
    match file.open(path) {
        Ok(made) => {
            made.sync_all()?;
            // Flush the folder, so that the name of the file survives a power cut, too.
            #[cfg(unix)]
            if let Some(parent) = path.parent() {
                fs::File::open(parent)?.sync_all()?;
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => keep_private(path),
        Err(error) => Err(error),
    }
}

/// Makes a file owner-only: a person may have copied it here with wider rights.
fn keep_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))?;
        }
    }
    Ok(())
}

fn connect(path: &Path) -> Result<(Connection, OpenedFile), Fault> {
    // Without the flag CREATE, SQLite never creates the file with a wider mode. `SqliteStore` locks the connection
    // itself.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIME)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Read both values in one transaction: another process may be about to create the tables.
    check_version(path, &*connection.unchecked_transaction()?)?;
    // The pragma returns the mode that is in effect. It is not "wal" on a file system without shared memory.
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(BrokerError::new(
            BrokerErrorKind::Failed,
            format!(
                "{}: the file system cannot share a file in memory (journal_mode {mode})",
                path.display()
            ),
            "name a file on a local disk",
        )
        .into());
    }
    // Each commit is on the disk before it returns.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    connection.pragma_update(None, "trusted_schema", "OFF")?;
    // After a burst of writes, SQLite truncates the log to this size.
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    // Lock before the second check, so that only one process creates the tables.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the tables meanwhile.
    if check_version(path, &transaction)? == 0 {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    // Add the index to files from before it existed. It does not change their version.
    transaction.execute_batch(SET_ASIDE_INDEX)?;
    transaction.commit()?;
    #[cfg(unix)]
    let is = {
        let mut beside = path.as_os_str().to_owned();
        beside.push("-wal");
        let known = |path: PathBuf| Some((path.clone(), identity(&path).ok()?));
        [path.to_owned(), beside.into()].into_iter().filter_map(known).collect()
    };
    let place = OpenedFile {
        path: path.to_owned(),
        #[cfg(unix)]
        is,
    };
    Ok((connection, place))
}

/// Checks the version of a file. Returns 0 for an empty file. Fails for a version that this program does not know.
fn check_version(path: &Path, connection: &Connection) -> Result<i32, Fault> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let version = number("user_version")?;
    let application = number("application_id")?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let damaged = |what: String, instead: &str| {
        BrokerError::new(BrokerErrorKind::Damaged, format!("{}: {what}", path.display()), instead)
    };
    match (application, version, tables) {
        (0, 0, 0) => Ok(0),
        (APPLICATION, VERSION, _) => Ok(VERSION),
        (APPLICATION, newer, _) if newer > VERSION => Err(damaged(
            format!(
                "a newer version of Nexus created the file (schema {newer}; this version supports \
                {VERSION})"
            ),
            "use that version, or name another file",
        )
        .into()),
        _ => Err(damaged("the file belongs to another program".to_owned(), "name another file").into()),
    }
}

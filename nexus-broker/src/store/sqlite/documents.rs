//! Documents in the file. Each function is part of a transaction.

use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::Value;

use super::fault::Fault;
use crate::store::{DocumentKind, ExpectedRevision, StoredDocument, check};

fn read(place: &str, key: String, revision: i64, value: &str) -> Result<StoredDocument, Fault> {
    let parsed: Result<Value, _> = serde_json::from_str(value);
    let value = parsed.map_err(|error| check::unreadable(place, &format!("the document {key}"), &error))?;
    Ok(StoredDocument { key, revision: revision.unsigned_abs(), value })
}

pub(super) fn one(
    transaction: &Transaction<'_>,
    place: &str,
    kind: DocumentKind,
    key: &str,
) -> Result<Option<StoredDocument>, Fault> {
    let found = transaction.query_row(
        "SELECT revision, value FROM document WHERE kind = ?1 AND key = ?2",
        params![check::kind_name(kind), key],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
    );
    let Some((revision, value)) = found.optional()? else { return Ok(None) };
    read(place, key.to_owned(), revision, &value).map(Some)
}

pub(super) fn all(
    transaction: &Transaction<'_>,
    place: &str,
    kind: DocumentKind,
) -> Result<Vec<StoredDocument>, Fault> {
    let mut statement =
        transaction.prepare("SELECT key, revision, value FROM document WHERE kind = ?1 ORDER BY key")?;
    let mut rows = statement.query([check::kind_name(kind)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(place, row.get(0)?, row.get(1)?, &row.get::<_, String>(2)?)?);
    }
    Ok(found)
}

pub(super) fn write(
    transaction: &Transaction<'_>,
    kind: DocumentKind,
    key: &str,
    expected: ExpectedRevision,
    value: &str,
) -> Result<u64, Fault> {
    check_expected(transaction, kind, key, expected)?;
    let next = "UPDATE revision SET last = last + 1 RETURNING last";
    let revision: i64 = transaction.query_row(next, [], |row| row.get(0))?;
    transaction.execute(
        "INSERT OR REPLACE INTO document (kind, key, revision, value) VALUES (?1, ?2, ?3, ?4)",
        params![check::kind_name(kind), key, revision, value],
    )?;
    Ok(revision.unsigned_abs())
}

pub(super) fn delete(
    transaction: &Transaction<'_>,
    kind: DocumentKind,
    key: &str,
    expected: ExpectedRevision,
) -> Result<(), Fault> {
    check_expected(transaction, kind, key, expected)?;
    transaction
        .execute("DELETE FROM document WHERE kind = ?1 AND key = ?2", params![check::kind_name(kind), key])?;
    Ok(())
}

fn check_expected(
    transaction: &Transaction<'_>,
    kind: DocumentKind,
    key: &str,
    expected: ExpectedRevision,
) -> Result<(), Fault> {
    let found = transaction.query_row(
        "SELECT revision FROM document WHERE kind = ?1 AND key = ?2",
        params![check::kind_name(kind), key],
        |row| row.get::<_, i64>(0),
    );
    let found = found.optional()?.map(i64::unsigned_abs);
    let is_expected = match expected {
        ExpectedRevision::Absent => found.is_none(),
        ExpectedRevision::Revision(revision) => found == Some(revision),
        ExpectedRevision::Anything => true,
    };
    if is_expected { Ok(()) } else { Err(check::not_as_expected(kind, key).into()) }
}

//! Documents in the file. Each function is part of a transaction.

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::{fault::Fault, queues::QueueTransaction};
use crate::store::{DocumentKind, ExpectedRevision, StoredDocument, check};

pub(super) fn one(
    work: &QueueTransaction<'_>,
    kind: DocumentKind,
    key: &str,
) -> Result<Option<StoredDocument>, Fault> {
    let found = "SELECT revision, CAST(value AS BLOB) FROM document WHERE kind = ?1 AND key = ?2";
    let values = params![check::kind_name(kind), key];
    let found = work
        .transaction
        .prepare_cached(found)?
        .query_row(values, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
    let Some((revision, json)) = found.optional()? else { return Ok(None) };
    let revision = revision.unsigned_abs();
    Ok(Some(check::stored_document(work.place, kind, key.to_owned(), revision, &json, work.told)))
}

pub(super) fn all(work: &QueueTransaction<'_>, kind: DocumentKind) -> Result<Vec<StoredDocument>, Fault> {
    let mut statement = work.transaction.prepare_cached(
        "SELECT key, revision, CAST(value AS BLOB) FROM document WHERE kind = ?1 ORDER BY key",
    )?;
    let mut rows = statement.query([check::kind_name(kind)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (revision, json): (i64, Vec<u8>) = (row.get(1)?, row.get(2)?);
        let revision = revision.unsigned_abs();
        found.push(check::stored_document(work.place, kind, row.get(0)?, revision, &json, work.told));
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
    let revision: i64 = transaction.prepare_cached(next)?.query_row([], |row| row.get(0))?;
    let written = "INSERT OR REPLACE INTO document (kind, key, revision, value) VALUES (?1, ?2, ?3, ?4)";
    let values = params![check::kind_name(kind), key, revision, value];
    transaction.prepare_cached(written)?.execute(values)?;
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
        .prepare_cached("DELETE FROM document WHERE kind = ?1 AND key = ?2")?
        .execute(params![check::kind_name(kind), key])?;
    Ok(())
}

fn check_expected(
    transaction: &Transaction<'_>,
    kind: DocumentKind,
    key: &str,
    expected: ExpectedRevision,
) -> Result<(), Fault> {
    let found = transaction
        .prepare_cached("SELECT revision FROM document WHERE kind = ?1 AND key = ?2")?
        .query_row(params![check::kind_name(kind), key], |row| row.get::<_, i64>(0));
    let found = found.optional()?.map(i64::unsigned_abs);
    let is_expected = match expected {
        ExpectedRevision::Absent => found.is_none(),
        ExpectedRevision::Revision(revision) => found == Some(revision),
        ExpectedRevision::Anything => true,
    };
    if is_expected { Ok(()) } else { Err(check::not_as_expected(kind, key).into()) }
}

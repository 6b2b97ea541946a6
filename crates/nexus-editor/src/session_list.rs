//! Stored sessions, in pages.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use agent_client_protocol_schema::v1::{ListSessionsRequest, ListSessionsResponse, SessionInfo};
use nexus_conversations::{ConversationError, ConversationSummary, Conversations};

use crate::{record::SessionRecords, setup::is_unknown};

/// Maximum number of sessions in a page. Source: our own bound.
const PAGE: usize = 50;
/// Last time whose year has four digits, in milliseconds since 1970-01-01 00:00 UTC.
const LAST_MOMENT_MS: u64 = 253_402_300_799_999;

/// Returns a page of the stored sessions, last changed first. Removes a record whose conversation another program deleted.
/// Blocks.
///
/// # Errors
///
/// The store cannot be read.
pub(crate) fn list(
    conversations: &Conversations,
    records: &SessionRecords,
    request: &ListSessionsRequest,
) -> Result<ListSessionsResponse, ConversationError> {
    // Read the records before the conversations: a session that is stored meanwhile then has a conversation.
    let recorded = records.names();
    let known = conversations.list()?;
    let mut summaries: HashMap<String, ConversationSummary> = known
        .conversations
        .into_iter()
        .map(|found| (found.name.as_str().to_ascii_lowercase(), found))
        .collect();
    let mut found: Vec<ConversationSummary> = Vec::new();
    for name in recorded {
        // Record files have lowercase names, but names of conversations may have capitals.
        match summaries.remove(&name.as_str().to_ascii_lowercase()) {
            Some(summary) => found.push(summary),
            // Remove the record only if the conversation is missing: an unreadable conversation retains it.
            None if conversations.summary(&name).is_err_and(|error| is_unknown(&error)) => {
                records.remove(&name);
            }
            None => {}
        }
    }
    found.sort_by(|one, other| place(one).cmp(&place(other)));
    let mut sessions = Vec::new();
    let mut next_cursor = None;
    let mut last = None;
    for summary in &found {
        let (_, name) = place(summary);
        if request.cursor.as_ref().is_some_and(|cursor| !is_after(summary, cursor)) {
            continue;
        }
        // Read records only until the page is full, because each is a file.
        let Some(record) = records.read(&summary.name) else { continue };
        if request.cwd.as_ref().is_some_and(|cwd| !is_same(cwd, &record.cwd)) {
            continue;
        }
        // Another session exists, so this page needs a cursor.
        if sessions.len() == PAGE {
            next_cursor = last;
            break;
        }
        last = Some(format!("{}-{name}", summary.updated_at_ms));
        let info = SessionInfo::new(name.to_owned(), record.cwd)
            .title(record.title)
            .updated_at(moment(summary.updated_at_ms));
        sessions.push(info);
    }
    Ok(ListSessionsResponse::new(sessions).next_cursor(next_cursor))
}

/// Returns the sort key of a session.
fn place(summary: &ConversationSummary) -> (std::cmp::Reverse<u64>, &str) {
    (std::cmp::Reverse(summary.updated_at_ms), summary.name.as_str())
}

/// Returns true if a session comes after the session that a cursor names. Nothing comes after an unknown
/// cursor.
fn is_after(summary: &ConversationSummary, cursor: &str) -> bool {
    let Some((moment, name)) = cursor.split_once('-') else { return false };
    let Ok(moment) = moment.parse::<u64>() else { return false };
    place(summary) > (std::cmp::Reverse(moment), name)
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.components().eq(other.components())
}

fn moment(ms: u64) -> Option<String> {
    // RFC 3339 cannot express later times.
    (ms <= LAST_MOMENT_MS).then(|| nexus_files::rfc3339::millis(UNIX_EPOCH + Duration::from_millis(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_others_do() {
        assert_eq!(moment(0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(moment(LAST_MOMENT_MS).as_deref(), Some("9999-12-31T23:59:59.999Z"));
        assert_eq!(moment(u64::MAX), None);
    }
}

//! Providers by name: a row of data for each service, from which an entry of `nexus.yaml` is completed.
//!
//! | module | contents |
//! | --- | --- |
//! | `table.json` | the rows of Nexus |
//! | `row` | one row: its members and their rules |
//! | `complete` | from an entry with `provider` to the settings of a kind |
//! | `section` | the rows of a file, and the interface to the router |

mod complete;
mod row;
mod section;

use std::{collections::BTreeMap, sync::OnceLock};

pub(crate) use section::ProviderRows;

use self::row::ProviderRow;
use crate::server_address::server_address;

/// Rows by the provider's name.
type Rows = BTreeMap<String, ProviderRow>;

/// The rows of Nexus. A test parses the file, so it is never unreadable at run time.
fn table() -> &'static Rows {
    static TABLE: OnceLock<Rows> = OnceLock::new();
    TABLE.get_or_init(|| serde_json::from_str(include_str!("table.json")).unwrap_or_default())
}

/// Returns a row of Nexus.
pub(super) fn row(name: &str) -> Option<&'static ProviderRow> {
    table().get(name)
}

/// Returns the name under which a panel counts the vendor of a server, if the server's host is not that name. The host may be
/// one that depends on an entry, such as `some-resource.openai.azure.com`.
pub(super) fn vendor_of(host: &str) -> Option<&'static str> {
    let rows = table().values();
    let mut named = rows.filter_map(|row| Some((row, row.vendor.as_deref()?)));
    named.find(|(row, _)| row.is_host(host)).map(|(_, vendor)| vendor)
}

/// Returns true if a row has this name for its vendor.
pub(super) fn is_vendor(name: &str) -> bool {
    table().values().any(|row| row.vendor.as_deref() == Some(name))
}

/// Owner of a key, found by the key's prefix.
#[derive(Debug)]
pub(super) struct KeyOwner {
    pub(super) title: &'static str,
    pub(super) host: String,
}

/// Returns the provider whose keys begin like `token`. Source: keys as each provider's console shows them.
pub(super) fn key_owner(token: &str) -> Option<KeyOwner> {
    let mut rows = table().values();
    let row = rows.find(|row| row.key_prefix.as_deref().is_some_and(|prefix| token.starts_with(prefix)))?;
    Some(KeyOwner { title: row.title.as_deref().unwrap_or_default(), host: row.host()? })
}

/// Returns true if keys for this host are known by their prefix.
pub(super) fn has_known_keys(host: &str) -> bool {
    table().values().any(|row| row.key_prefix.is_some() && row.host().as_deref() == Some(host))
}

impl ProviderRow {
    /// Returns the host of the server; `None` if it depends on the entry.
    fn host(&self) -> Option<String> {
        if self.base_url.contains('{') {
            return None;
        }
        server_address(&self.base_url).map(|address| address.host)
    }

    /// Returns true if the server has this host, with any value of the parameter in it.
    fn is_host(&self, host: &str) -> bool {
        let Some(written) = self.base_url.split_once("://").and_then(|(_, rest)| rest.split('/').next())
        else {
            return false;
        };
        match written.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?.1))) {
            Some((start, end)) => {
                let value = host.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
                value.is_some_and(|value| !value.is_empty() && !value.contains('.'))
            }
            None => self.host().as_deref() == Some(host),
        }
    }
}

#[cfg(test)]
mod tests;

//! Logins that several machines share. One worker owns each login, and lends its access tokens to the listed machines.
//!
//! | module | content |
//! | --- | --- |
//! | `shared` | the source that asks the owner, and caches the lent token in memory |
//! | `question` | one question to the owner, until it is answered |
//! | `provider` | the owner's side |
//! | `failure` | errors of credentials in the form in which they are sent |

mod failure;
mod provider;
mod question;
mod shared;

pub(crate) use provider::TokenProvider;

use std::{collections::BTreeMap, sync::Arc};

use nexus_core::{CredentialSource, SharedLogins};
use sha2::{Digest as _, Sha256};

use self::shared::SharedLogin;
use crate::{fleet::Fleet, login_owner::LoginOwner, sealing_key::FleetKey};

impl Fleet {
    /// Returns the logins that other machines own and lend. Leaves out a login whose owner has the key of this
    /// machine: that is this home's own login.
    pub fn shared_logins(&self) -> SharedLogins {
        let settings = self.settings();
        // An unreadable key identifies no owner; the request for a token reports the error.
        let own = settings.key_file.as_deref().and_then(|file| FleetKey::read(file).ok().flatten());
        let is_anothers = |owner: &LoginOwner| own.as_ref().is_none_or(|own| own.public() != owner.key);
        let others = settings.login_owner.iter().filter(|(_, owner)| is_anothers(owner));
        others
            .map(|(login, owner)| {
                let source = SharedLogin::new(self.clone(), login.clone(), owner.clone());
                (login.clone(), Arc::new(source) as Arc<dyn CredentialSource>)
            })
            .collect::<BTreeMap<_, _>>()
    }
}

/// Returns a hash that identifies a token without revealing it.
fn fingerprint(token: &str) -> String {
    nexus_files::hex(Sha256::digest(token.as_bytes()))
}

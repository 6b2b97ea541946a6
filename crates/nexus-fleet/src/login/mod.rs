//! Logins that several machines share: one worker keeps each, and lends its access tokens to the machines that are listed.
//!
//! | module | holds |
//! | --- | --- |
//! | `shared` | the source that asks the owner, and keeps what it was lent in memory |
//! | `question` | one question to the owner, until it is answered |
//! | `provider` | the owner's side |
//! | `failure` | errors of credentials, as they cross the wire |

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
    /// What lends the logins that other machines own, by the word of each. One whose owner has the key of this machine is left
    /// out: the login of this home is the one that is shared.
    pub fn shared_logins(&self) -> SharedLogins {
        let settings = self.settings();
        // One that cannot be read is no owner's, and is told of when a token is asked for.
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

/// What names a token without showing it.
fn fingerprint(token: &str) -> String {
    nexus_files::hex(Sha256::digest(token.as_bytes()))
}

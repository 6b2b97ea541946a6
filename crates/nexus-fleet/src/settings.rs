//! The section `fleet` of `nexus.yaml`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use nexus_core::{BuildContext, SettingsError, ToolAccess, variable_name_fault};
use nexus_nats::NatsCredentials;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    login_owner::LoginOwner,
    protocol::{Priority, token_fault},
};

/// The file with the key pair of a machine, in the home of Nexus.
const KEY_FILE: &str = "fleet.key";

/// Default number of turns that a caller may have waiting in one pool.
const MAX_WAITING: u32 = 1_000;

/// Default size of the largest bundle, in bytes.
const MAX_WORKSPACE_BYTES: u64 = 256 << 20;

/// The section `fleet`: where the servers are, who this caller is, and what a worker on this machine takes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FleetSettings {
    /// URLs of NATS servers, such as `nats://10.0.0.5:4222`; `tls://` where the connection must be encrypted. The
    /// program connects to one of them, and finds the other servers of its cluster.
    pub servers: Vec<String>,
    /// Name of this machine. It is part of the NATS subjects, so the permissions of an account may require a certain
    /// name. Default: `nexus`.
    pub name: Option<String>,
    /// Credentials of this machine at the servers. Default: none.
    pub credentials: Option<NatsCredentials>,
    /// PEM file of certificate authorities to trust as well.
    pub ca_file: Option<PathBuf>,
    /// Priority of this caller's turns. Default: `normal`.
    pub priority: Priority,
    /// Turns of this caller that may wait in one queue at once. Default: 1,000. It applies to queues that this program
    /// creates.
    pub max_waiting: Option<u32>,
    /// Number of servers that store a copy of each stream that this program creates: 1, 3 or 5. Default: 1.
    pub replicas: Option<usize>,
    /// Account of each backend with its vendor. Backends of one account share its holds and its `max_turns_at_once`, on
    /// all machines. Default: an account with the name of the backend.
    pub accounts: BTreeMap<String, String>,
    /// Logins that several machines share, by their names in `nexus login`: the owner of each, and the machines that
    /// may get its access tokens. Default: each machine has its own logins.
    pub login_owner: BTreeMap<String, LoginOwner>,
    /// The file with the key pair of this machine, which `nexus fleet key` creates. Default: `fleet.key` in the home of
    /// Nexus.
    pub key_file: Option<PathBuf>,
    /// Access of workers to the files of a working directory. Default: `shared`.
    pub workspace: WorkspaceMode,
    /// Maximum size of a bundle that this program sends or accepts for `workspace: git`, in bytes. The files in it may
    /// have 16 times as many. Default: 268,435,456 (256 MiB). A worker with 0 accepts no such turn.
    pub max_workspace_bytes: Option<u64>,
    /// Private folder for the files of turns with `workspace: git`, at callers and workers. Default: `fleet` in the home of Nexus.
    pub workspaces: Option<PathBuf>,
    /// Limits of a worker on this machine.
    pub worker: WorkerSettings,
}

/// Access of workers to the files of a working directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceMode {
    /// Workers open the directory at the same path: the machines share a file system.
    #[default]
    Shared,
    /// Committed files travel to the worker, and changes of the turn come back as a commit on the branch that
    /// is checked out.
    Git,
}

/// Limits of a worker. A request beyond them is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerSettings {
    /// The worker's name in its pool. Default: the name of the machine.
    pub name: Option<String>,
    /// Maximum number of turns at once. Default: 4.
    pub turns: Option<usize>,
    /// Absolute paths of folders below which working directories and extra roots may lie. Default: none, so that each turn works
    /// in an empty private folder.
    pub folders: Vec<PathBuf>,
    /// The widest access level. Default: `scoped-only`.
    #[schemars(with = "Option<AccessName>")]
    pub access: Option<ToolAccess>,
    /// The backends that are offered, also while one cannot start. Default: all that can.
    pub backends: Option<Vec<String>>,
    /// Names of variables of the worker's environment that requests may name. Default: none.
    pub environment: Vec<String>,
}

/// The names of [`ToolAccess`], for the schema.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "it is a schema")]
enum AccessName {
    ScopedOnly,
    ReadOnly,
    WorkspaceWrite,
    Unrestricted,
}

impl FleetSettings {
    /// Reads the section.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the place.
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let read: Self = SettingsError::reading(value)?;
        for (index, name) in read.worker.environment.iter().enumerate() {
            if let Some(reason) = variable_name_fault(name) {
                let path = ["worker", "environment"]
                    .map(str::to_owned)
                    .into_iter()
                    .chain([index.to_string()])
                    .collect();
                return Err(SettingsError { path, reason: reason.to_owned() });
            }
        }
        if read.servers.is_empty() {
            return Err(SettingsError::new(
                "servers",
                "name at least one server, such as nats://127.0.0.1:4222",
            ));
        }
        for (index, server) in read.servers.iter().enumerate() {
            let reason = match server.parse::<async_nats::ServerAddr>() {
                Ok(address) if address.has_user_pass() || address.username().is_some() => {
                    // Do not repeat the URL: errors and logs would show the password.
                    "contains a user or a password: name them under `credentials`".to_owned()
                }
                Ok(address) if address.host().is_empty() => "names no host".to_owned(),
                Ok(_) => continue,
                Err(error) => format!("is not a URL of a server: {error}"),
            };
            let path = vec!["servers".to_owned(), index.to_string()];
            return Err(SettingsError { path, reason });
        }
        for (path, name) in [(vec!["name"], &read.name), (vec!["worker", "name"], &read.worker.name)] {
            if let Some(fault) = name.as_deref().and_then(token_fault) {
                let path = path.into_iter().map(str::to_owned).collect();
                return Err(SettingsError { path, reason: format!("cannot be used in a subject: {fault}") });
            }
        }
        if let Some(folder) = read.worker.folders.iter().position(|folder| !folder.is_absolute()) {
            let path = vec!["worker".to_owned(), "folders".to_owned(), folder.to_string()];
            return Err(SettingsError { path, reason: "is not absolute: write a full path".to_owned() });
        }
        if read.worker.turns == Some(0) {
            let path = vec!["worker".to_owned(), "turns".to_owned()];
            return Err(SettingsError { path, reason: "a worker must run at least one turn".to_owned() });
        }
        for (login, owner) in &read.login_owner {
            owner.check().map_err(|mut error| {
                error.path.splice(0..0, ["login_owner".to_owned(), login.clone()]);
                error
            })?;
        }
        if let Some(replicas) = read.replicas
            && !matches!(replicas, 1 | 3 | 5)
        {
            return Err(SettingsError::new("replicas", "1, 3 or 5"));
        }
        Ok(read)
    }

    /// Returns the name of this caller. It is one token of the NATS subjects that this caller uses.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("nexus")
    }

    pub(crate) fn max_waiting(&self) -> u32 {
        self.max_waiting.unwrap_or(MAX_WAITING)
    }

    pub(crate) fn replicas(&self) -> usize {
        self.replicas.unwrap_or(1)
    }

    /// Returns the maximum size of a bundle, in bytes.
    pub(crate) fn max_workspace_bytes(&self) -> u64 {
        self.max_workspace_bytes.unwrap_or(MAX_WORKSPACE_BYTES)
    }

    /// Returns the folder of the turns' files.
    pub(crate) fn workspaces(&self) -> PathBuf {
        self.workspaces.clone().unwrap_or_else(|| default_workspaces(&BuildContext::from_process().home))
    }

    /// Makes relative paths relative to the folder of the configuration, and fills in the default paths in the home.
    pub(crate) fn placed_in(mut self, context: &BuildContext) -> Self {
        let folder = &context.base_directory;
        self.key_file.get_or_insert_with(|| context.home.join(KEY_FILE));
        self.workspaces.get_or_insert_with(|| default_workspaces(&context.home));
        let place = |path: &mut PathBuf| *path = folder.join(&*path);
        match &mut self.credentials {
            Some(NatsCredentials::File(file) | NatsCredentials::NkeyFile(file)) => place(file),
            Some(NatsCredentials::Password { file, .. }) => place(file),
            None => {}
        }
        self.ca_file.iter_mut().for_each(place);
        self.key_file.iter_mut().for_each(place);
        self.login_owner.values_mut().filter_map(|owner| owner.ca_file.as_mut()).for_each(place);
        self.workspaces.iter_mut().for_each(place);
        self
    }
}

fn default_workspaces(home: &Path) -> PathBuf {
    home.join("fleet")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_in_the_url_of_a_server_is_refused_and_not_repeated() {
        for server in ["nats://alice:canary-7d@127.0.0.1:4222", "nats://canary-7d@127.0.0.1"] {
            let error = FleetSettings::read(&json!({ "servers": ["nats://127.0.0.1", server] })).unwrap_err();
            assert_eq!(error.path, ["servers", "1"]);
            assert!(error.reason.contains("credentials") && !error.reason.contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_key_in_place_of_a_variable_s_name_is_refused_and_not_repeated() {
        for key in ["canary-7d", "sk-canary0123456789abcdef", "ghp_canary0123456789abcdef", ""] {
            let section = json!({ "servers": ["nats://a"], "worker": { "environment": ["LANG", key] } });
            let error = FleetSettings::read(&section).unwrap_err();
            assert_eq!(error.path, ["worker", "environment", "1"]);
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
    }

    /// A public key.
    const PUBLIC: &str = "XBUJMZHVOPQ2SK5VD3TY4VNBPVU2YFGRLK6EFPEPSMVDUYEBSROWZCEA";

    /// A section that shares a login, with these keys changed.
    fn shared(changed: Value) -> Value {
        let mut owner = json!({ "pool": "p", "worker": "w", "key": PUBLIC, "shared_with": [PUBLIC] });
        let (Some(owner_keys), Value::Object(changed)) = (owner.as_object_mut(), changed) else {
            panic!("objects")
        };
        owner_keys.extend(changed);
        json!({ "servers": ["nats://a"], "login_owner": { "codex": owner } })
    }

    #[test]
    fn a_seed_in_place_of_a_public_key_is_refused_and_not_repeated() {
        let seed = "SXAKIYZX2POLIHZ5W5YZEWVTH24NLEUETBW3TKIVYRSS3GNHFXO5D4JJZM";
        for section in [shared(json!({ "key": seed })), shared(json!({ "shared_with": [seed] }))] {
            let error = FleetSettings::read(&section).unwrap_err();
            assert!(error.reason.contains("secret half") && !error.to_string().contains(seed), "{error}");
        }
    }

    #[test]
    fn files_have_their_place() {
        let context = BuildContext::in_home("/home").with_base_directory("/config");
        let read = |section: Value| FleetSettings::read(&section).unwrap().placed_in(&context);
        let settings = read(shared(json!({ "ca_file": "a.pem" })));
        assert_eq!(settings.key_file.as_deref(), Some("/home/fleet.key".as_ref()));
        assert_eq!(settings.login_owner["codex"].ca_file.as_deref(), Some("/config/a.pem".as_ref()));
        let named = read(json!({ "servers": ["nats://a"], "key_file": "k" }));
        assert_eq!(named.key_file.as_deref(), Some("/config/k".as_ref()));
    }

    #[test]
    fn files_that_travel_are_in_the_home_of_nexus_unless_the_section_says_where() {
        let context = BuildContext::in_home("/home").with_base_directory("/config");
        let read = |section: Value| FleetSettings::read(&section).unwrap().placed_in(&context);
        let settings = read(json!({ "servers": ["nats://a"] }));
        assert_eq!(
            (settings.workspace, settings.max_workspace_bytes()),
            (WorkspaceMode::Shared, 268_435_456)
        );
        assert_eq!(settings.workspaces(), Path::new("/home/fleet"));
        let settings = read(json!({ "servers": ["nats://a"], "workspace": "git", "workspaces": "here" }));
        assert_eq!(settings.workspace, WorkspaceMode::Git);
        assert_eq!(settings.workspaces(), Path::new("/config/here"));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (section, path) in [
            (json!({}), vec!["servers"]),
            (json!({ "servers": ["nats://"] }), vec!["servers", "0"]),
            (json!({ "servers": ["nats://a"], "name": "a.b" }), vec!["name"]),
            (json!({ "servers": ["nats://a"], "worker": { "name": "*" } }), vec!["worker", "name"]),
            (
                json!({ "servers": ["nats://a"], "worker": { "folders": ["a"] } }),
                vec!["worker", "folders", "0"],
            ),
            (json!({ "servers": ["nats://a"], "worker": { "turns": 0 } }), vec!["worker", "turns"]),
            (json!({ "servers": ["nats://a"], "replicas": 2 }), vec!["replicas"]),
            (json!({ "servers": ["nats://a"], "no_such_key": 1 }), vec!["no_such_key"]),
            (shared(json!({ "pool": "a.b" })), vec!["login_owner", "codex", "pool"]),
            (shared(json!({ "worker": "" })), vec!["login_owner", "codex", "worker"]),
            (shared(json!({ "key": "X" })), vec!["login_owner", "codex", "key"]),
            (
                shared(json!({ "shared_with": [PUBLIC, "y"] })),
                vec!["login_owner", "codex", "shared_with", "1"],
            ),
            (shared(json!({ "shared_with": PUBLIC })), vec!["login_owner", "codex", "shared_with"]),
            (shared(json!({ "seed": "x" })), vec!["login_owner", "codex", "seed"]),
            (
                json!({ "servers": ["nats://a"], "login_owner": { "codex": { "pool": "p" } } }),
                vec!["login_owner", "codex"],
            ),
        ] {
            let error = FleetSettings::read(&section).unwrap_err();
            assert!(error.path == path || error.reason.contains(path[0]), "{section}: {error:?}");
        }
    }
}

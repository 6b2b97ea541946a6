//! One entry of the section `mcp_servers`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use http::{
    HeaderName,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use nexus_auth::http::Network;
use nexus_core::{SettingsError, looks_like_key, variable_name_fault};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::settings::value::SettingValue;
use crate::{
    host_list::HostList,
    settings::{CredentialSetting, check_web_url},
};

/// Headers that the protocol itself sets.
const PROTOCOL_HEADERS: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];
/// Longest time of a call that an entry may set. Source: our own choice.
const LONGEST_CALL: Duration = Duration::from_secs(24 * 3600);

/// An entry as it is written. Either `command` or `url` is there.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["command"] }, { "required": ["url"] }]))]
struct WrittenEntry {
    /// The program with its arguments, such as [npx, -y, \"@modelcontextprotocol/server-filesystem\", .].
    #[schemars(length(min = 1))]
    command: Option<Vec<String>>,
    /// Variables of the program, by name.
    environment: BTreeMap<String, SettingValue>,
    /// Hosts that the program may reach, such as registry.npmjs.org. Default: none.
    hosts: Option<HostList>,
    /// Further files and folders that the program needs, shown read-only in the sandbox. Default: the packages or the Python environment
    /// of the program, and the tool chains of the user.
    program_folders: Vec<PathBuf>,
    /// Address of the server.
    url: Option<String>,
    /// Credential that each request sends as a bearer token.
    credential: Option<CredentialSetting>,
    /// Headers of each request, by name.
    headers: BTreeMap<String, SettingValue>,
    network: Option<Network>,
    /// The tools that turns get, by their names at the server. Default: all.
    tools: Option<BTreeSet<String>>,
    /// Approval of each call. Default: always.
    approval: ServerApproval,
    /// Reject turns while the server does not run. Default: false.
    required: bool,
    /// Longest time of a call without an answer or progress, such as 10m. Default: 10m.
    timeout: Option<String>,
}

/// Approval of the calls of a server's tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ServerApproval {
    /// A person approves each call.
    #[default]
    Always,
    /// Calls need no approval.
    Never,
}

/// A checked entry.
#[derive(Clone, Debug)]
pub(super) struct ServerEntry {
    pub(super) reach: ServerReach,
    pub(super) tools: Option<BTreeSet<String>>,
    pub(super) is_approved: bool,
    pub(super) is_required: bool,
    pub(super) call_within: Option<Duration>,
}

// The schema is that of the written form.
impl JsonSchema for ServerEntry {
    fn inline_schema() -> bool {
        WrittenEntry::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        WrittenEntry::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        WrittenEntry::json_schema(generator)
    }
}

/// Way to reach a server.
#[derive(Clone, Debug)]
pub(super) enum ServerReach {
    Program(ProgramSettings),
    Http(Box<AddressSettings>),
}

/// Settings of a program.
#[derive(Clone, Debug)]
pub(super) struct ProgramSettings {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, SettingValue>,
    pub(super) hosts: HostList,
    pub(super) program_folders: Vec<PathBuf>,
}

/// Settings of a server over HTTP.
#[derive(Clone, Debug)]
pub(super) struct AddressSettings {
    pub(super) url: Url,
    pub(super) headers: Vec<(HeaderName, SettingValue)>,
    pub(super) credential: Option<CredentialSetting>,
    pub(super) network: Network,
}

impl fmt::Display for ServerReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The arguments are shown by `nexus trust`; here the program is enough.
            Self::Program(program) => f.write_str(&program.program),
            // A query may have a key.
            Self::Http(address) => {
                let mut url = address.url.clone();
                url.set_query(None);
                url.set_fragment(None);
                f.write_str(url.as_str())
            }
        }
    }
}

impl ServerEntry {
    /// Reads an entry.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], whose path leads into the entry.
    pub(super) fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut written: WrittenEntry = SettingsError::reading(value)?;
        let call_within = written.timeout.as_deref().map(duration).transpose()?;
        let (tools, is_required) = (written.tools.take(), written.required);
        let is_approved = written.approval == ServerApproval::Never;
        if tools.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(SettingsError::new("tools", "names no tool: leave it out to offer all of them"));
        }
        let reach = match (written.command.take(), written.url.take()) {
            (Some(command), None) => ServerReach::Program(written.program(command)?),
            (None, Some(url)) => ServerReach::Http(Box::new(written.address(&url)?)),
            (Some(_), Some(_)) => {
                return Err(SettingsError::new(
                    "url",
                    "belongs to a server over HTTP: remove it or `command`",
                ));
            }
            (None, None) => {
                let reason = "name the program with `command`, or the address with `url`".to_owned();
                return Err(SettingsError { path: Vec::new(), reason });
            }
        };
        Ok(Self { reach, tools, is_approved, is_required, call_within })
    }
}

impl WrittenEntry {
    fn program(self, command: Vec<String>) -> Result<ProgramSettings, SettingsError> {
        self.refuse(
            "belongs to a server with a `url`",
            [
                ("credential", self.credential.is_some()),
                ("headers", !self.headers.is_empty()),
                ("network", self.network.is_some()),
            ],
        )?;
        if command.iter().any(|word| looks_like_key(word)) {
            let reason = "contains a text that looks like a key, and is not shown: every process of the machine can \
                read the arguments of a program; use `environment`";
            return Err(SettingsError::new("command", reason));
        }
        if command.iter().any(|word| word.contains('\0')) {
            return Err(SettingsError::new("command", "contains a NUL character"));
        }
        let mut words = command.into_iter();
        let Some(program) = words.next().filter(|program| !program.trim().is_empty()) else {
            return Err(SettingsError::new("command", "names no program"));
        };
        for (name, value) in &self.environment {
            let path = ["environment", name];
            if let Some(fault) = variable_name_fault(name) {
                return Err(SettingsError::new("environment", fault));
            }
            value.check(&path)?;
        }
        let hosts = self.hosts.unwrap_or_default();
        hosts.check("hosts")?;
        Ok(ProgramSettings {
            program,
            arguments: words.collect(),
            environment: self.environment,
            hosts,
            program_folders: self.program_folders,
        })
    }

    fn address(self, url: &str) -> Result<AddressSettings, SettingsError> {
        self.refuse(
            "belongs to a server with a `command`",
            [
                ("environment", !self.environment.is_empty()),
                ("hosts", self.hosts.is_some()),
                ("program_folders", !self.program_folders.is_empty()),
            ],
        )?;
        check_web_url("url", Some(url))?;
        // The error of the parser does not repeat the address, which may have a key.
        let url = Url::parse(url).map_err(|error| SettingsError::new("url", error.to_string()))?;
        if let Some((name, _)) = url.query_pairs().find(|(_, value)| looks_like_key(value)) {
            let reason = format!("its parameter {name:?} looks like a key: name a `credential`");
            return Err(SettingsError::new("url", reason));
        }
        let mut headers = Vec::new();
        for (name, value) in self.headers {
            let path = ["headers", name.as_str()];
            let wrong = |reason: &str| {
                let path = path.iter().map(|key| (*key).to_owned()).collect();
                Err(SettingsError { path, reason: reason.to_owned() })
            };
            value.check(&path)?;
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                return wrong("this is not a valid header name");
            };
            if header == CONTENT_TYPE || PROTOCOL_HEADERS.contains(&header.as_str()) {
                return wrong("the protocol sets this header: remove it");
            }
            if header == AUTHORIZATION
                && (self.credential.is_some() || matches!(value, SettingValue::Text(_)))
            {
                return wrong("name the token under `credential`");
            }
            headers.push((header, value));
        }
        let network = self.network.unwrap_or_default();
        Ok(AddressSettings { url, headers, credential: self.credential, network })
    }

    /// Rejects keys that belong to the other kind of server: a program or a URL.
    fn refuse<const N: usize>(&self, reason: &str, keys: [(&str, bool); N]) -> Result<(), SettingsError> {
        match keys.into_iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) => Err(SettingsError::new(key, reason)),
            None => Ok(()),
        }
    }
}

fn duration(text: &str) -> Result<Duration, SettingsError> {
    match humantime::parse_duration(text.trim()) {
        Ok(duration) if duration > Duration::ZERO && duration <= LONGEST_CALL => Ok(duration),
        _ => Err(SettingsError::new("timeout", "must be a duration such as 10m or 30s, of at most 24 hours")),
    }
}

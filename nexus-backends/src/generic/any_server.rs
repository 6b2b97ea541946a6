//! Parts of the kinds for any server of a wire: its vendor, its keys, and advice on its errors.

use std::sync::Arc;

use http::StatusCode;
use nexus_core::{CostReport, Effort, ErrorKind, SettingsError, VendorId, harness::Failure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::providers::{self, KeyOwner};
use crate::auth::Credential;
use crate::native::bearer;
use crate::native::outcome::ErrorReply;
use crate::native::settings::NativeSettings;
use crate::native::wires::AnswerFormat;
use crate::server_address::{server_address, vendor_as_named, vendor_of_server};
use crate::settings::Billing;

/// Prefix of API keys at most vendors.
const KEY_PREFIX: &str = "sk-";

/// Prefix of the access tokens of a Claude plan. Source: observed.
const PLAN_PREFIX: &str = "sk-ant-oat";

/// Returns the setting `vendor`, otherwise the host of `base_url`, with its port unless that is a default. Both are
/// normalised.
pub(super) fn vendor(kind: &str, settings: &Map<String, Value>) -> VendorId {
    let text = |key: &str| settings.get(key).and_then(Value::as_str);
    if let Some(vendor) = text("vendor") {
        return known_vendor(&vendor_as_named(vendor));
    }
    let Some(server) = text("base_url").and_then(vendor_of_server) else {
        return VendorId::from(kind);
    };
    known_vendor(&server)
}

/// Returns the vendor of a server or of a name. A panel counts a vendor once, although an entry may name either.
fn known_vendor(name: &str) -> VendorId {
    VendorId::from(providers::vendor_of(name).unwrap_or(name))
}

/// Returns the vendor's name in traces. An unknown host gets the name of the vendor whose API it speaks, because the
/// name tells a reader of the trace which attributes to expect. Source: OpenTelemetry's conventions for generative AI,
/// attribute `gen_ai.provider.name`.
pub(super) fn provider(setting: Option<&str>, vendor: &VendorId) -> String {
    let known = Some(vendor.as_str()).filter(|vendor| providers::is_vendor(vendor));
    match setting.or(known) {
        Some("xai") => "x_ai",
        Some("google") => "gcp.gemini",
        Some("azure") => "azure.ai.openai",
        Some("aws") => "aws.bedrock",
        Some(vendor) => vendor,
        None => "openai",
    }
    .to_owned()
}

/// Returns true if a base URL ends with the version of an API, such as `v1`. Vendors document both forms of an address.
pub(super) fn ends_with_version(base_url: &str) -> bool {
    is_version(base_url.trim().trim_end_matches('/').rsplit('/').next().unwrap_or_default())
}

/// Returns true for a segment of a path that names the version of an API: `v1`, `v1beta`, `v1alpha2`, and with an addition
/// `v1.0` and `v1-openai`. A word such as `v2ray` is none.
pub(super) fn is_version(segment: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let Some(rest) = segment.strip_prefix('v').filter(|rest| rest.starts_with(is_digit)) else {
        return false;
    };
    let rest = rest.trim_start_matches(is_digit);
    let rest = rest.strip_prefix("alpha").or_else(|| rest.strip_prefix("beta")).unwrap_or(rest);
    let rest = rest.trim_start_matches(is_digit);
    !rest.starts_with(char::is_alphanumeric)
}

/// Returns the host of the server; empty without a valid `base_url`.
pub(super) fn host(settings: &NativeSettings) -> String {
    let address = settings.base_url.as_deref().and_then(server_address);
    address.map(|address| address.host).unwrap_or_default()
}

/// Rejects a credential that cannot be sent, that would be billed otherwise than configured, or that belongs to another
/// vendor than `host`. So no vendor gets the key of another one.
pub(super) fn check_key(
    billing: Option<Billing>,
    host: &str,
    credential: &Credential,
) -> Result<(), Failure> {
    let token = credential.token.expose();
    if token.starts_with(PLAN_PREFIX) {
        let reason = "the credential is the token of a Claude plan, which is reached through Claude Code alone: use \
             `kind: claude-cli`, or set `credential` to an API key";
        return Err(Failure::new(ErrorKind::Forbidden, reason));
    }
    if let Some(KeyOwner { title, host: own_host }) = providers::key_owner(token)
        && host != own_host
        // An unknown host may be a gateway that takes keys of other vendors.
        && providers::has_known_keys(host)
    {
        let reason = format!(
            "the credential is a key of {title}, but `base_url` leads to {host}: set `credential` or `base_url`"
        );
        return Err(Failure::new(ErrorKind::Unauthenticated, reason));
    }
    bearer::check(billing, KEY_PREFIX, credential)
}

/// Returns the failure of an error that a wrong `kind`, `base_url` or `model` causes, with advice. The shared table
/// already advises about a page of HTML.
pub(super) fn misplaced(error: &ErrorReply<'_>, kind: &str) -> Option<Failure> {
    let status = error.status?;
    let others = ["responses", "chat", "messages", "gemini"].into_iter().filter(|other| *other != kind);
    let others = others.collect::<Vec<_>>().join("` or `");
    let shared = error.shared_outcome();
    let words = error.body.words();
    // Servers answer a path of an API that they do not speak with one of these.
    let has_nothing = matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
    match shared.kind {
        ErrorKind::Unauthenticated => Some(Failure::new(
            shared.kind,
            match error.advice() {
                Some(advice) => format!("{words} ({advice})"),
                None => format!("{words} (check `credential` of this backend in nexus.yaml)"),
            },
        )),
        ErrorKind::ModelUnavailable => Some(Failure::new(
            shared.kind,
            format!("{words} (set `model` for this backend in nexus.yaml to a model of this server)"),
        )),
        ErrorKind::InvalidRequest if has_nothing => Some(Failure::new(
            shared.kind,
            format!(
                "{words} (the server does not speak `kind: {kind}` at this path: check `base_url` in nexus.yaml, or \
                 set `kind` to `{others}`)"
            ),
        )),
        _ => None,
    }
}

/// Reports of the server on the cost of an answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cost {
    #[default]
    Never,
    Reported,
}

impl Cost {
    pub(super) fn report(self) -> CostReport {
        match self {
            Self::Never => CostReport::Never,
            Self::Reported => CostReport::Reported,
        }
    }
}

/// Recipient of an answer's schema.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StructuredOutput {
    #[default]
    Native,
    Tool,
    Instructed,
}

impl StructuredOutput {
    pub(super) fn format(self) -> AnswerFormat {
        match self {
            Self::Native => AnswerFormat::Native,
            Self::Tool => AnswerFormat::Tool,
            Self::Instructed => AnswerFormat::Instructed,
        }
    }
}

/// Returns the schema of the effort levels, under the names of the configuration.
pub(super) fn effort_steps(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "array", "items": { "enum": Effort::ALL.map(Effort::as_str) } })
}

/// Members that a request always has, which the setting `body` must not contain.
const RESERVED_MEMBERS: [&str; 5] = ["model", "messages", "stream", "tools", "system"];

/// Rejects a setting `body` with members that Nexus writes itself.
pub(super) fn check_body(members: &Map<String, Value>) -> Result<(), SettingsError> {
    check_members(members, &["body"], &RESERVED_MEMBERS)
}

/// Rejects members at `place` of the settings that Nexus writes itself, in any spelling.
pub(super) fn check_members(
    members: &Map<String, Value>,
    place: &[&str],
    own: &[&str],
) -> Result<(), SettingsError> {
    let is_own = |name: &&String| own.iter().any(|own| in_camel_case(own) == in_camel_case(name));
    let Some(name) = members.keys().find(is_own) else {
        return Ok(());
    };
    let path = place.iter().map(|key| (*key).to_owned()).chain([name.clone()]).collect();
    let reason = "Nexus writes this member of a request itself: remove it".to_owned();
    Err(SettingsError { path, reason })
}

/// Returns the name of a member in camel case. Servers of some APIs take a name in this form and with underscores.
/// Source: the JSON mapping of protocol buffers.
pub(super) fn in_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// Returns the setting `body` as JSON, if it has members.
pub(super) fn body(members: &Map<String, Value>) -> Option<Arc<str>> {
    (!members.is_empty()).then(|| Value::Object(members.clone()).to_string().into())
}

#[cfg(test)]
mod tests {
    use nexus_core::Secret;

    use super::*;

    #[test]
    fn no_vendor_gets_the_key_of_another_one() {
        let check = |host, token: &str| check_key(None, host, &Credential::new(Secret::new(token)));
        for (host, token) in [
            ("api.openai.com", "sk-ant-api03-canary"),
            ("api.anthropic.com", "sk-or-v1-canary"),
            ("openrouter.ai", "sk-proj-canary"),
        ] {
            let failure = check(host, token).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Unauthenticated);
            let words = failure.message.unwrap();
            assert!(words.contains("`credential`") && !words.contains("canary"), "{words}");
        }
        for (host, token) in [
            ("api.anthropic.com", "sk-ant-api03-x"),
            ("localhost", "sk-ant-api03-x"),
            ("gateway.test", "sk-or-v1-x"),
            ("api.openai.com", "sk-x"),
        ] {
            assert!(check(host, token).is_ok(), "{host} {token}");
        }
    }

    #[test]
    fn a_trace_has_the_name_that_the_conventions_give_the_vendor() {
        let of_address = |url: &str| {
            let settings = Map::from_iter([("base_url".to_owned(), Value::from(url))]);
            provider(None, &vendor("chat", &settings))
        };
        for (url, name) in [
            ("https://api.x.ai/v1", "x_ai"),
            ("https://generativelanguage.googleapis.com/v1beta/openai", "gcp.gemini"),
            ("https://mine.openai.azure.com/openai/v1", "azure.ai.openai"),
            ("https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1", "aws.bedrock"),
            ("https://gateway.test/v1", "openai"),
        ] {
            assert_eq!(of_address(url), name, "{url}");
        }
        assert_eq!(provider(Some("azure"), &VendorId::from("azure")), "azure.ai.openai");
    }

    #[test]
    fn a_token_of_a_plan_is_sent_nowhere() {
        let token = Credential::new(Secret::new("sk-ant-oat01-canary"));
        for host in ["api.anthropic.com", "localhost"] {
            let failure = check_key(None, host, &token).unwrap_err();
            let words = failure.message.unwrap();
            assert!(words.contains("Claude Code alone") && !words.contains("canary"), "{words}");
        }
    }

    #[test]
    fn only_a_version_is_taken_for_one() {
        for segment in ["v1", "v1beta", "v1alpha", "v1beta1", "v10", "v1.0", "v1-openai"] {
            assert!(is_version(segment), "{segment}");
        }
        for segment in ["", "v", "1", "vx", "v2ray", "v1betas", "v1gamma", "version1"] {
            assert!(!is_version(segment), "{segment}");
        }
    }

    #[test]
    fn a_member_that_every_request_has_is_not_set() {
        let members = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        assert_eq!(check_body(&members(r#"{"model":"x"}"#)).unwrap_err().path, ["body", "model"]);
        assert_eq!(body(&members("{}")), None);
        let more = members(r#"{"a":{"b":1}}"#);
        check_body(&more).unwrap();
        assert_eq!(&*body(&more).unwrap(), r#"{"a":{"b":1}}"#);
    }
}

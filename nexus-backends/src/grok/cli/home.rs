//! Private home of one run: Grok's own folder (`GROK_HOME`), and a `HOME` for turns without tools.
//!
//! **Credential.** The file `auth.json` contains the credential, without anything that could refresh it. The CLI reads
//! the file into memory when it starts. A hook, which the CLI runs before it sends the prompt, removes the file, and
//! stops the prompt if it cannot. So no tool of the model can read the credential, and no process has it in a variable.
//!
//! A running CLI never gets another credential: the turn ends before its token. The configuration pins how the account
//! is billed, so the CLI does not start with the other way of signing in. The token of the caller's tools is in a
//! `config.toml`, which the hook replaces by one without the token; see [`mcp_config`].
//!
//! **Disabled**: telemetry, summaries, and reading the files of other programs in the user's home.
//!
//! Source: observed with grok 1.0.41.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_core::{PromptBlock, Secret};
use serde_json::{Value, json};

use super::mcp_config;
use super::translate::grok_home;
use crate::auth::{Credential, Lease};
use crate::cli::caller_tools::CallerTools;
use crate::cli::settings::Billing;
use nexus_process::private_home::PrivateHome;

/// File of the prompt in the home. Its extension tells the CLI that it contains content blocks.
const PROMPT_FILE: &str = "prompt.json";
/// Folder in the home that serves as `HOME`.
const USER_HOME: &str = "user";
/// Key of a subscription's credential in `auth.json`: the issuer and the client.
const PLAN_ENTRY: &str = "https://auth.x.ai::b1a00492-073a-47ea-816f-4c329264a828";
const ISSUER: &str = "https://auth.x.ai";
const CLIENT: &str = "b1a00492-073a-47ea-816f-4c329264a828";
/// Key of an API key's credential in `auth.json`.
const METERED_ENTRY: &str = "xai::api_key";
/// Account name if none is known. Without a name the CLI would request one and write the file again.
const UNNAMED_ACCOUNT: &str = "nexus";

/// Configuration without the way of signing in.
///
/// The model `void` receives the call that gives a session its title. The agent's shell inherits the CLI's variables
/// except the CLI's own settings. They contain only what the turn may see.
pub(in crate::grok) const CONFIG: &str = r#"
[cli]
auto_update = false
[features]
telemetry = false
feedback = false
turn_summary = false
title_refresh = false
session_recap = false
session_search = false
codebase_indexing = false
remote_fetch = false
managed_config = false
campaigns = false
ask_user_question = false
image_gen = false
video_gen = false
voice_mode = false
[telemetry]
trace_upload = false
[managed_mcps]
enabled = false
gateway_tools_enabled = false
[subagents]
enabled = false
[workflows]
enabled = false
[marketplace]
sources = []
[models]
session_summary = "void"
max_retries = 3
[model.void]
model = "void"
base_url = "http://127.0.0.1:1/v1"
api_key = "unused"
api_backend = "responses"
hidden = true
[shell_environment_policy]
inherit = "all"
exclude = ["GROK_*", "XAI_*"]
"#;

/// Hook command that removes the lent credential before the prompt is sent. Exit code 2 stops the prompt.
const FORGET: &str = r#"rm -f -- "$GROK_HOME/auth.json" && [ ! -e "$GROK_HOME/auth.json" ] || exit 2"#;

/// Hook command that replaces the configuration by the one without the token.
const FORGET_TOKEN: &str = r#"; mv -f -- "$GROK_HOME/config.quiet" "$GROK_HOME/config.toml" || exit 2"#;

/// Time limit of the hook before a prompt, in seconds. The CLI ignores a hook that takes longer.
const HOOK_SECONDS: u64 = 90;

/// Variables that disable features of the CLI, and stop it from reading the user's home.
pub(in crate::grok) const SWITCHES: [(&str, &str); 18] = [
    ("GROK_TURN_SUMMARY", "0"),
    ("GROK_TITLE_REFRESH", "0"),
    ("GROK_DISABLE_AUTOUPDATER", "1"),
    ("GROK_MEMORY", "0"),
    ("GROK_TELEMETRY_ENABLED", "0"),
    // The CLI cuts a longer result, and writes the rest to a file. Its default is 20,000.
    ("GROK_MAX_MCP_OUTPUT_BYTES", "16777216"),
    // Otherwise the CLI submits a failed turn up to four times, which takes at least 46 seconds. Each submission is
    // retried according to `max_retries` anyway.
    ("GROK_TURN_TRANSIENT_RETRY", "0"),
    // By default the CLI rejects a credential in its last 300 seconds. A turn may be shorter than that.
    ("GROK_AUTH_EARLY_INVALIDATION_SECS", "0"),
    ("GROK_CLAUDE_MCPS_ENABLED", "0"),
    ("GROK_CLAUDE_HOOKS_ENABLED", "0"),
    ("GROK_CLAUDE_SKILLS_ENABLED", "0"),
    ("GROK_CLAUDE_RULES_ENABLED", "0"),
    ("GROK_CLAUDE_AGENTS_ENABLED", "0"),
    ("GROK_CURSOR_MCPS_ENABLED", "0"),
    ("GROK_CURSOR_HOOKS_ENABLED", "0"),
    ("GROK_CURSOR_SKILLS_ENABLED", "0"),
    ("GROK_CURSOR_RULES_ENABLED", "0"),
    ("GROK_CURSOR_AGENTS_ENABLED", "0"),
];

/// Returns the host of the vendor's server. Source: with the configuration of a run, grok 1.0.41 resolves no other.
pub(super) fn host(billing: Billing) -> &'static str {
    match billing {
        Billing::Plan => "cli-chat-proxy.grok.com",
        Billing::Metered => "api.x.ai",
    }
}

/// Parameters that each process of a turn writes again.
#[derive(Debug)]
pub(super) struct ProcessParameters<'a> {
    pub(super) billing: Billing,
    /// The caller's tools, if there are any.
    pub(super) tools: Option<&'a CallerTools>,
    /// Time limit of the turn.
    pub(super) deadline: Option<Duration>,
    /// Id of the session.
    pub(super) session: &'a str,
    /// Length in bytes of the part of the session's event log that is older than the process.
    pub(super) known_event_bytes: u64,
}

/// Writes the configuration, and the hook that removes the credentials before a prompt.
pub(super) fn furnish(home: &PrivateHome, setup: &ProcessParameters<'_>) -> io::Result<()> {
    let method = match setup.billing {
        Billing::Plan => "oidc",
        Billing::Metered => "api_key",
    };
    let quiet = format!("{CONFIG}[auth]\npreferred_method = \"{method}\"\n");
    let rewrite = |name: &str, text: &str| {
        forget(&home.path().join(name))?;
        home.write(name, text)
    };
    let mut before_a_prompt = FORGET.to_owned();
    match setup.tools {
        Some(tools) => {
            let entry = Secret::new(format!("{quiet}{}", mcp_config::entry(tools, setup.deadline)));
            rewrite("grok/config.toml", entry.expose())?;
            rewrite("grok/config.quiet", &quiet)?;
            before_a_prompt += FORGET_TOKEN;
            before_a_prompt += &mcp_config::waiting(setup.session, setup.known_event_bytes);
        }
        None => drop(rewrite("grok/config.toml", &quiet)?),
    }
    let hook =
        json!([{ "hooks": [{ "type": "command", "command": before_a_prompt, "timeout": HOOK_SECONDS }] }]);
    rewrite("grok/hooks/forget.json", &json!({ "hooks": { "UserPromptSubmit": hook } }).to_string())?;
    Ok(())
}

/// Creates the folders of a new home.
pub(super) fn make_folders(home: &PrivateHome) -> io::Result<()> {
    home.folder("grok")?;
    home.folder(USER_HOME)?;
    Ok(())
}

/// Returns the `HOME` of a turn without tools of the harness.
pub(super) fn user_home(home: &PrivateHome) -> PathBuf {
    home.path().join(USER_HOME)
}

/// Writes the system text as an agent file, which the CLI adds to its own system text.
pub(super) fn write_system(home: &PrivateHome, system: &str) -> io::Result<PathBuf> {
    home.write("agent.md", format!("---\nname: nexus\ndescription: The agent of this turn\n---\n{system}\n"))
}

/// Writes the prompt as content blocks. Only these arrive unchanged: the CLI trims a prompt from a plain file or
/// standard input, and interprets `/compact` in it as a command.
pub(super) fn write_prompt(home: &PrivateHome, blocks: &[PromptBlock]) -> io::Result<PathBuf> {
    let file = home.path().join(PROMPT_FILE);
    forget(&file)?;
    home.write(PROMPT_FILE, content(blocks).to_string())
}

fn content(blocks: &[PromptBlock]) -> Value {
    let mut content: Vec<Value> = blocks.iter().filter_map(content_block).collect();
    let is_like_a_command =
        matches!(blocks.first(), Some(PromptBlock::Text { text }) if text.trim_start().starts_with('/'));
    if is_like_a_command {
        // The empty first text keeps a prompt that starts with a slash from being a command. The CLI puts a blank
        // between two blocks.
        content.insert(0, json!({ "type": "text", "text": "" }));
    }
    Value::Array(content)
}

fn content_block(block: &PromptBlock) -> Option<Value> {
    match block {
        PromptBlock::Text { text } => Some(json!({ "type": "text", "text": text })),
        PromptBlock::Image { media_type, data } => {
            Some(json!({ "type": "image", "mimeType": media_type, "data": data }))
        }
        _ => None,
    }
}

/// Returns the path at which the CLI looks for its credential.
pub(super) fn credential_file(home: &PrivateHome) -> PathBuf {
    grok_folder(home).join("auth.json")
}

/// Writes the lent credential into the file.
pub(super) fn lend(lease: &mut Lease, file: &Path, billing: Billing) -> io::Result<()> {
    let now = SystemTime::now();
    // The CLI gets the last moment of use as the token's expiry, in whole seconds.
    let text = entry(lease.credential(), lease.last_use(now), billing, now).to_string();
    lease.put(file, &Secret::new(text))
}

/// Excludes a folder from searches that begin above it. Rules restrict only the path of a search, not its results. A
/// missing folder needs no file.
pub(super) fn hide_from_searches(folder: &Path) -> io::Result<()> {
    use std::{fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _};

    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(".ignore"));
    match made {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Removes a file of the previous process, if it exists.
fn forget(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn entry(credential: &Credential, end: Option<SystemTime>, billing: Billing, now: SystemTime) -> Value {
    let account = credential.account.as_deref().unwrap_or(UNNAMED_ACCOUNT);
    let mut entry = json!({
        "key": credential.token.expose(),
        "create_time": timestamp(now),
        "user_id": account,
        "email": null,
    });
    let (name, more) = match billing {
        Billing::Plan => {
            (PLAN_ENTRY, json!({ "auth_mode": "oidc", "oidc_issuer": ISSUER, "oidc_client_id": CLIENT }))
        }
        Billing::Metered => (METERED_ENTRY, json!({ "auth_mode": "api_key" })),
    };
    if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
        entry.extend(more);
        if let Some(end) = end {
            entry.insert("expires_at".into(), Value::String(timestamp(end)));
        }
    }
    json!({ name: entry })
}

/// Returns a time as RFC 3339, in UTC, in whole seconds.
fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Calendar arithmetic in eras of 400 years that begin on the first of March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the path of the CLI's own folder in the home.
pub(super) fn grok_folder(home: &PrivateHome) -> PathBuf {
    grok_home(home.path())
}

/// Returns the length of a session's file in bytes; 0 if it does not exist.
pub(super) fn length_in(session: Option<&Path>, file: &str) -> u64 {
    session.map_or(0, |session| std::fs::metadata(session.join(file)).map_or(0, |file| file.len()))
}

#[cfg(test)]
mod tests {
    use std::{process::Command, sync::Arc};

    use nexus_core::{ParticipantScope, Session, Tool, Toolbox};

    use super::*;
    use nexus_process::run_registry::RunEntry;

    #[test]
    fn times_are_written_as_the_vendor_reads_them() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_795_230_912), "2026-11-21T03:15:12Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
    }

    #[test]
    fn a_prompt_that_looks_like_a_command_is_none() {
        let first = |text: &str| content(&[PromptBlock::text(text)])[0]["text"].clone();
        for text in ["/compact", " \n/compact now", "/"] {
            assert_eq!(first(text), "", "{text:?}");
        }
        for text in ["a/b", "\n -x", ""] {
            assert_eq!(first(text), text);
        }
    }

    #[test]
    fn an_entry_can_renew_nothing() {
        let credential = Credential::new(Secret::new("canary")).with_expiry(UNIX_EPOCH).with_account("me");
        for billing in [Billing::Plan, Billing::Metered] {
            let text = entry(&credential, Some(UNIX_EPOCH), billing, UNIX_EPOCH).to_string();
            assert!(text.contains("canary") && text.contains("\"me\""), "{text}");
            assert!(!text.contains("refresh_token"), "{text}");
        }
    }

    #[test]
    fn before_a_prompt_the_token_of_the_tools_is_in_no_file_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let home = RunEntry::begin(folder.path()).unwrap().home().unwrap();
        make_folders(&home).unwrap();
        let tools = Toolbox::new().with(Tool::without_arguments("noon", "Says when.", || async { "12:00" }));
        let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
        let tools = CallerTools::new(Arc::clone(&session), "http://127.0.0.1:1/mcp".into());
        let setup = ProcessParameters {
            billing: Billing::Plan,
            tools: Some(&tools),
            deadline: None,
            session: "s",
            known_event_bytes: 0,
        };
        furnish(&home, &setup).unwrap();
        let grok = grok_folder(&home);
        let has_token = |name: &str| {
            let text = std::fs::read_to_string(grok.join(name)).unwrap();
            text.contains(session.token().expose())
        };
        assert!(has_token("config.toml"));

        let record = grok.join("sessions/%2Fw/s");
        std::fs::create_dir_all(&record).unwrap();
        let ready = r#"{"type":"mcp_server_connected","server_name":"nexus"}
{"type":"mcp_init_completed"}
"#;
        std::fs::write(record.join("events.jsonl"), ready).unwrap();
        let hooks = std::fs::read_to_string(grok.join("hooks/forget.json")).unwrap();
        let hooks: Value = serde_json::from_str(&hooks).unwrap();
        let hook = hooks["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"].as_str().unwrap();
        assert!(!hook.contains(session.token().expose()));
        let ended = Command::new("sh").args(["-c", hook]).env("GROK_HOME", &grok).status().unwrap();
        assert_eq!(ended.code(), Some(0));
        assert!(!has_token("config.toml") && !grok.join("config.quiet").exists());
    }
}

//! The private home of one run: Grok's own folder (`GROK_HOME`), and a `HOME` for turns without tools.
//!
//! **Credential.** It is written to an `auth.json` without anything that could refresh it. The CLI reads it into
//! memory when it starts; a hook that it runs before the prompt is sent removes the file, and stops the
//! prompt if it cannot. So no tool of the model ever finds it, whatever it may read, and no variable of any
//! process holds it. No running CLI is given another: the turn ends before its token. How the account is billed is
//! pinned: with the other way of signing in, the CLI does not start. The token of the caller's tools goes the same way,
//! in a `config.toml` that the hook replaces by one without it; see [`mcp_config`].
//!
//! **Switched off**: telemetry, summaries, and reading what other programs left in the user's home.
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

/// The prompt's file, in the home. By the end of its name the CLI knows that content blocks are in it.
const PROMPT_FILE: &str = "prompt.json";
/// A folder in the home.
const USER_HOME: &str = "user";
/// Names the issuer and client that a subscription's entry stands under.
const PLAN_ENTRY: &str = "https://auth.x.ai::b1a00492-073a-47ea-816f-4c329264a828";
const ISSUER: &str = "https://auth.x.ai";
const CLIENT: &str = "b1a00492-073a-47ea-816f-4c329264a828";
/// Names the entry of an API key.
const METERED_ENTRY: &str = "xai::api_key";
/// Account name where none is known: without one, the CLI would ask for it and write the file again.
const UNNAMED_ACCOUNT: &str = "nexus";

/// Everything but the way of signing in.
///
/// The model `void` swallows the call that gives a session its title. The agent's shell gets the CLI's
/// variables, which hold nothing but what the turn is meant to see, without the CLI's own.
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

/// Removes the lent credential before the prompt is sent. Exit code 2 stops the prompt.
const FORGET: &str = r#"rm -f -- "$GROK_HOME/auth.json" && [ ! -e "$GROK_HOME/auth.json" ] || exit 2"#;

/// Puts the configuration without a token in its place.
const FORGET_TOKEN: &str = r#"; mv -f -- "$GROK_HOME/config.quiet" "$GROK_HOME/config.toml" || exit 2"#;

/// Longest time of the hook before a prompt, in seconds. The CLI ignores a hook that takes longer.
const HOOK_SECONDS: u64 = 90;

/// Variables that the CLI gets besides its folder: what it must not do, or read in the user's home.
pub(in crate::grok) const SWITCHES: [(&str, &str); 18] = [
    ("GROK_TURN_SUMMARY", "0"),
    ("GROK_TITLE_REFRESH", "0"),
    ("GROK_DISABLE_AUTOUPDATER", "1"),
    ("GROK_MEMORY", "0"),
    ("GROK_TELEMETRY_ENABLED", "0"),
    // A longer result is cut, and a file holds the rest. The CLI's default is 20,000.
    ("GROK_MAX_MCP_OUTPUT_BYTES", "16777216"),
    // Without this the CLI submits a failed turn up to four times, 46 seconds at the least; each submission
    // is retried as `max_retries` says anyway.
    ("GROK_TURN_TRANSIENT_RETRY", "0"),
    // Credentials that live no longer than the turn are used to their end.
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

/// Parameters that are written again for each process of a turn.
#[derive(Debug)]
pub(super) struct ProcessParameters<'a> {
    pub(super) billing: Billing,
    /// The caller's tools, if there are any.
    pub(super) tools: Option<&'a CallerTools>,
    /// Longest time of the turn.
    pub(super) deadline: Option<Duration>,
    /// The session's id.
    pub(super) session: &'a str,
    /// Bytes of the session's record of events that are older than the process.
    pub(super) known_event_bytes: u64,
}

/// Writes the configuration, and the hook that makes the CLI's folder fit for a prompt.
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

/// Makes the folders of a new home.
pub(super) fn make_folders(home: &PrivateHome) -> io::Result<()> {
    home.folder("grok")?;
    home.folder(USER_HOME)?;
    Ok(())
}

/// The `HOME` of a turn without tools of the harness.
pub(super) fn user_home(home: &PrivateHome) -> PathBuf {
    home.path().join(USER_HOME)
}

/// Writes the system text as an agent file, which the CLI adds to its own.
pub(super) fn write_system(home: &PrivateHome, system: &str) -> io::Result<PathBuf> {
    home.write("agent.md", format!("---\nname: nexus\ndescription: The agent of this turn\n---\n{system}\n"))
}

/// Writes the prompt as content blocks, which alone arrive to the letter: a prompt from a plain file or from
/// standard input is trimmed, and `/compact` is a command even so.
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
        // A text without a slash at its start is not a command. The CLI puts a blank between two blocks.
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

/// Path at which the CLI looks for its credential.
pub(super) fn credential_file(home: &PrivateHome) -> PathBuf {
    grok_folder(home).join("auth.json")
}

/// Puts what is lent into the file.
pub(super) fn lend(lease: &mut Lease, file: &Path, billing: Billing) -> io::Result<()> {
    let now = SystemTime::now();
    // The CLI gets the turn's end as the token's, in whole seconds.
    let text = entry(lease.credential(), lease.last_use(now), billing, now).to_string();
    lease.put(file, &Secret::new(text))
}

/// Keeps searches that begin above a folder out of it: rules name what a search is given, not what it finds. A folder
/// that does not exist needs nothing.
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

/// Removes a file that may be there from the process before.
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

/// A time as RFC 3339 has it, in UTC, in whole seconds.
fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The calendar of four hundred years, counted from a first of March.
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

/// Path of the CLI's own folder in the home.
pub(super) fn grok_folder(home: &PrivateHome) -> PathBuf {
    grok_home(home.path())
}

/// Reads how long a file of a session is that may be there already, in bytes.
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

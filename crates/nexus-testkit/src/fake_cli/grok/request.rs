//! The program's task: its arguments, and the files that they and `GROK_HOME` name.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nexus_core::PromptBlock;
use serde_json::Value;

use crate::fake_cli::notes::Given;

/// System text of the vendor's program.
const SYSTEM: &str = "You are Grok 4.6 released by xAI.";
/// The models that the program knows, and the efforts that each takes.
const MODELS: [(&str, &[&str]); 2] =
    [("grok-4.6", &["xhigh", "high", "medium", "low"]), ("grok-4.5", &["high", "medium", "low"])];

/// A tool of the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    /// Name of the tool in filters.
    pub(super) id: &'static str,
    /// Name of the tool for the model.
    pub(super) wire: &'static str,
    /// Kind of the tool in the output.
    pub(super) kind: &'static str,
}

const fn tool(id: &'static str, wire: &'static str, kind: &'static str) -> Tool {
    Tool { id, wire, kind }
}

/// The tools of the harness.
const TOOLS: [Tool; 10] = [
    tool("run_terminal_cmd", "run_terminal_command", "execute"),
    tool("read_file", "read_file", "read"),
    tool("search_replace", "search_replace", "edit"),
    tool("list_dir", "list_dir", "list"),
    tool("grep", "grep", "search"),
    tool("todo_write", "todo_write", "think"),
    tool("search_tool", "search_tool", "search_tool"),
    tool("use_tool", "use_tool", "use_tool"),
    tool("web_search", "web_search", "search"),
    tool("write", "write", "write"),
];
/// Tools that every list of tools contains, even if it does not name them.
const ALWAYS_KEPT: [&str; 2] = ["search_tool", "use_tool"];

impl Tool {
    /// The tool that the model calls `name`.
    pub(super) fn by_wire(name: &str) -> Option<Self> {
        TOOLS.into_iter().find(|tool| tool.wire == name)
    }
}

/// The program's task.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) prompt: String,
    pub(super) images: usize,
    pub(super) system: String,
    pub(super) model: String,
    pub(super) effort: String,
    pub(super) directory: String,
    pub(super) session: String,
    /// The folder of the session, if it is an old one.
    pub(super) session_folder: Option<PathBuf>,
    pub(super) tools: Vec<Tool>,
    pub(super) max_turns: Option<u32>,
    pub(super) grok_home: PathBuf,
}

impl Request {
    /// Reads what was given; an error is the program's sentence.
    pub(super) fn read(given: &Given) -> Result<Self, String> {
        let grok_home = PathBuf::from(given.variable("GROK_HOME").unwrap_or_default());
        check_login(&grok_home, given)?;
        let model = given.value_of("--model").unwrap_or(MODELS[0].0).to_owned();
        let Some((_, efforts)) = MODELS.iter().find(|(name, _)| *name == model) else {
            return Err(format!(
                "Couldn't set model '{model}': Invalid params: \"unknown model id\". \
                 Run 'grok models' to see available models."
            ));
        };
        let effort = given.value_of("--reasoning-effort").unwrap_or("high").to_owned();
        if !efforts.contains(&effort.as_str()) {
            let offered = efforts.join(", ");
            return Err(format!(
                "--effort/--reasoning-effort: unknown effort level '{effort}'; use one of: {offered}"
            ));
        }
        let (prompt, images) = read_prompt(given)?;
        let directory =
            given.value_of("--cwd").map_or_else(|| given.directory.display().to_string(), str::to_owned);
        let (session, session_folder) = match given.value_of("--resume") {
            Some(id) => (id.to_owned(), Some(find_session(&grok_home, id)?)),
            None => (given.value_of("--session-id").unwrap_or("new").to_owned(), None),
        };
        Ok(Self {
            prompt,
            images,
            system: read_system(given),
            model,
            effort,
            directory,
            session,
            session_folder,
            tools: offered_tools(given),
            max_turns: given.value_of("--max-turns").and_then(|number| number.parse().ok()),
            grok_home,
        })
    }

    /// Runs the hooks that run before the prompt is sent. Exit code 2 of a hook stops the prompt.
    pub(super) fn hooks_let_the_prompt_through(&self) -> bool {
        let files = fs::read_dir(self.grok_home.join("hooks")).into_iter().flatten().flatten();
        for file in files {
            let hooks = fs::read_to_string(file.path()).unwrap_or_default();
            let hooks: Value = serde_json::from_str(&hooks).unwrap_or_default();
            let Some(command) =
                hooks.pointer("/hooks/UserPromptSubmit/0/hooks/0/command").and_then(Value::as_str)
            else {
                continue;
            };
            let status = Command::new("sh")
                .args(["-c", command])
                // The hook of a Grok backend reads files, and no input.
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if status.is_ok_and(|status| status.code() == Some(2)) {
                return false;
            }
        }
        true
    }
}

/// Reads the login as the program does: an entry of the kind that the configuration pins.
fn check_login(grok_home: &Path, given: &Given) -> Result<(), String> {
    // A missing file means the default, as in the real program.
    let config = fs::read_to_string(grok_home.join("config.toml")).unwrap_or_default();
    let wanted = if config.contains("preferred_method = \"api_key\"") { "api_key" } else { "oidc" };
    let login = fs::read_to_string(grok_home.join("auth.json")).unwrap_or_default();
    let login: Value = serde_json::from_str(&login).unwrap_or_default();
    let entries = login.as_object().into_iter().flatten();
    let has_entry = entries.into_iter().any(|(_, entry)| {
        entry.get("auth_mode").and_then(Value::as_str) == Some(wanted)
            && entry.get("key").and_then(Value::as_str).is_some_and(|key| !key.is_empty())
    });
    let has_key = wanted == "api_key" && given.variable("XAI_API_KEY").is_some();
    if has_entry || has_key {
        return Ok(());
    }
    Err("Not signed in. To authenticate without a browser, run:\n  grok login --device-code\n\nAlternatively, set \
         the XAI_API_KEY environment variable or run `grok login` on a machine with a browser."
        .to_owned())
}

/// The text and the number of pictures of the prompt, which is a file of content blocks.
fn read_prompt(given: &Given) -> Result<(String, usize), String> {
    let path = given.value_of("--prompt-file").ok_or("Provide a prompt.")?;
    let text = fs::read_to_string(path).map_err(|error| format!("Couldn't read {path}: {error}"))?;
    if !path.ends_with(".json") {
        return Ok((text.trim().to_owned(), 0));
    }
    let blocks: Vec<Value> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
    // The program drops a picture of less than 512 pixels, and informs only its model. Source: observed with Grok 1.0.41.
    let is_image = |block: &&Value| {
        let data = block.get("data").and_then(Value::as_str).unwrap_or_default().to_owned();
        let size = PromptBlock::Image { media_type: String::new(), data }.image_size();
        let is_dropped = size.is_some_and(|(width, height)| width.saturating_mul(height) < 512);
        block.get("type").and_then(Value::as_str) == Some("image") && !is_dropped
    };
    Ok((texts.collect::<Vec<_>>().join(" "), blocks.iter().filter(is_image).count()))
}

/// The program's own words, and those of the agent file.
fn read_system(given: &Given) -> String {
    let file = given.value_of("--agent").and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let body =
        // The head of an agent file has settings. Only the body reaches the model.
        file.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).map_or("", |(_, body)| body);
    format!("{SYSTEM}\n\n{}", body.trim())
}

fn find_session(grok_home: &Path, id: &str) -> Result<PathBuf, String> {
    let directories = fs::read_dir(grok_home.join("sessions")).into_iter().flatten().flatten();
    let mut folders = directories.map(|directory| directory.path().join(id));
    folders.find(|folder| folder.is_dir()).ok_or_else(|| format!("Couldn't load session {id}"))
}

/// Returns the tools that the filters allow. An empty or unknown list allows all, as in the real program.
fn offered_tools(given: &Given) -> Vec<Tool> {
    let names = |flag: &str| -> Option<Vec<String>> {
        given.value_of(flag).map(|list| list.split(',').map(str::to_owned).collect())
    };
    let has = |list: &[String], tool: &Tool| list.iter().any(|name| name == tool.id);
    let allowed =
        names("--tools").filter(|list| list.iter().all(|name| TOOLS.iter().any(|tool| tool.id == name)));
    let denied = names("--disallowed-tools").unwrap_or_default();
    let is_kept = |tool: &Tool| {
        let is_allowed =
            allowed.as_ref().is_none_or(|list| has(list, tool) || ALWAYS_KEPT.contains(&tool.id));
        is_allowed && !has(&denied, tool)
    };
    TOOLS.into_iter().filter(is_kept).collect()
}

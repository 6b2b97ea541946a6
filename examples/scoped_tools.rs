//! One toolbox and one scope, on three vendors by one line of YAML. The model also tries what it was not given: a
//! folder that it must not touch, a path outside, a tool out of scope. None of it reaches a tool.
//!
//!     cargo run --example scoped_tools
//!     cargo run --example scoped_tools -- --real

mod stage;

use std::{fs, path::Path, sync::Arc, time::Duration};

use nexus::{
    Brief, Decision, Effects, Limits, ParticipantScope, ScopedFiles, Session, Tool, ToolFault, Toolbox,
    TurnHost, TurnRequest, scope::DecisionOutcome,
};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use stage::{AnyError, Cast, Stage, show_turn_with};

const COMMON: &str = "\
groups: { anthropic: [claude-cli], openai: [codex-cli], xai: [grok-cli] }
backends:
  codex-cli: { billing: plan, credential: { env: OPENAI_TOKEN } }
  grok-cli:  { billing: plan, credential: { env: XAI_TOKEN } }
models: { strong: { anthropic: opus, openai: gpt-5.5, xai: grok-4.6 } }
types:
";

const LINES: [&str; 3] = [
    "  clerk: { tier: execution, phase: file, group: anthropic, model: strong }\n",
    "  clerk: { tier: execution, phase: file, group: openai,    model: strong }\n",
    "  clerk: { tier: execution, phase: file, group: xai,       model: strong }\n",
];

/// Prompt for a real model, which follows no script.
const TASK: &str = "Read letters/monday.txt and letters/private/diary.txt, write a one-line summary of what you \
                    could read to drafts/summary.txt, and hand it in. If something is refused, go on without it.";

/// A file that is read.
#[derive(Deserialize, JsonSchema)]
struct ReadLetter {
    /// Path of the letter, relative to the archive.
    path: String,
}

/// A file that is written.
#[derive(Deserialize, JsonSchema)]
struct WriteDraft {
    /// Path of the draft, relative to the archive.
    path: String,
    /// What is to be in it.
    text: String,
}

/// What the clerk hands in.
#[derive(Deserialize, JsonSchema)]
struct HandIn {
    /// One line.
    summary: String,
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let about = "Offers one toolbox to three vendors, and holds each to the same scope.";
    let stage = Stage::open(about, Cast::all(part()))?;
    let mut logs: Vec<Vec<Decision>> = Vec::new();
    for (round, line) in LINES.iter().enumerate() {
        println!("--- {}", line.trim());
        let router = stage.router(&format!("{COMMON}{line}"))?;
        let archive = archive(&stage.workspace(&format!("archive-{round}"))?)?;

        // The tools and paths of the agent. The scope contains nothing else.
        let brief = Brief::new(&archive)
            .tool("read_*".parse()?)
            .tool("write_draft".parse()?)
            .tool("hand_in".parse()?)
            .reading("letters")
            .writing("drafts")
            .do_not_touch("letters/private".parse()?);
        let scope = ParticipantScope::assemble(&brief, None, None)?;
        let tools = toolbox(scope.files());
        let session = Session::mint("clerk", scope, Arc::new(tools));

        let request = TurnRequest::new(TASK)
            .with_limits(Limits::new().with_deadline(Duration::from_secs(300)).with_tool_calls(8));
        let host = TurnHost::new().with_session(Arc::clone(&session));
        let result = show_turn_with(&router, "clerk", request, host).await?;

        println!("\nDecided by the session, by {}:", result.provenance.backend);
        for decision in session.decisions() {
            show(&decision);
        }
        println!(
            "On disk: {:?}\n",
            fs::read_to_string(archive.join("drafts/summary.txt")).unwrap_or_default()
        );
        logs.push(session.decisions());
    }
    let is_same = logs.windows(2).all(|pair| pair[0] == pair[1]);
    println!("The three decision logs are {}.", if is_same { "the same" } else { "not the same" });
    Ok(())
}

/// Creates all tools. The scope does not allow `burn_letter`.
fn toolbox(files: ScopedFiles) -> Toolbox {
    let writing = files.clone();
    Toolbox::new()
        .with(
            Tool::new("read_letter", "Reads a letter.", move |ReadLetter { path }| {
                let files = files.clone();
                async move { Ok::<_, ToolFault>(files.read_to_string(&path)?) }
            })
            .reading("/path")
            .read_only(),
        )
        .with(
            Tool::new("write_draft", "Writes a draft.", move |WriteDraft { path, text }| {
                let files = writing.clone();
                async move {
                    files.write(&path, &text)?;
                    Ok::<_, ToolFault>("Written.")
                }
            })
            .writing("/path")
            .with_effects(Effects::Wrote),
        )
        .with(
            Tool::new("burn_letter", "Burns a letter.", |ReadLetter { path }| async move {
                println!("!!! {path} burns");
            })
            .writing("/path")
            .with_effects(Effects::Wrote),
        )
        .with(
            Tool::new(
                "hand_in",
                "Hands the summary in. Call it once, at the end.",
                |HandIn { summary }| async move { format!("Received: {summary}") },
            )
            .with_effects(Effects::None)
            .terminal(),
        )
}

fn show(decision: &Decision) {
    let (mark, reason) = match &decision.outcome {
        DecisionOutcome::Allowed => ("allowed", String::new()),
        DecisionOutcome::Denied(denial) => ("DENIED ", format!("\n           {denial}")),
    };
    println!("  {mark}  {} {}{reason}", decision.tool, decision.arguments);
}

/// Creates a folder with files that the agent may read, and one that it must not touch.
fn archive(folder: &Path) -> Result<std::path::PathBuf, AnyError> {
    fs::create_dir_all(folder.join("letters/private"))?;
    fs::create_dir(folder.join("drafts"))?;
    fs::write(folder.join("letters/monday.txt"), "The herons are back at the weir.\n")?;
    fs::write(folder.join("letters/private/diary.txt"), "Nobody's business.\n")?;
    Ok(folder.canonicalize()?)
}

/// What the simulated models say and do.
fn part() -> Scenario {
    let call = |tool: &str, arguments: Value| ToolCall::mcp("nexus", tool, arguments);
    let pace = Duration::from_millis(15);
    Scenario::new([
        Reply::text("First the letter.\n")
            .and_call(call("read_letter", json!({ "path": "letters/monday.txt" })))
            .paced(4, pace),
        Reply::text("Then the diary.\n")
            .and_call(call("read_letter", json!({ "path": "letters/private/diary.txt" })))
            .paced(4, pace),
        Reply::text("Not for me. Another way in, perhaps?\n")
            .and_call(call(
                "write_draft",
                json!({ "path": "drafts/../letters/private/diary.txt", "text": "gone" }),
            ))
            .paced(4, pace),
        Reply::text("No. And if it were burnt?\n")
            .and_call(call("burn_letter", json!({ "path": "letters/monday.txt" })))
            .paced(4, pace),
        Reply::text("There is no such tool. My draft, then.\n")
            .and_call(call(
                "write_draft",
                json!({ "path": "drafts/summary.txt", "text": "The herons are back." }),
            ))
            .paced(4, pace),
        Reply::call(call("hand_in", json!({ "summary": "The herons are back." }))).paced(4, pace),
        // Some programs call the model once more before they are stopped.
        Reply::text("Is there anything else?").paced(4, pace),
    ])
}

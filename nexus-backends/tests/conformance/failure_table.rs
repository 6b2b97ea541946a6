//! The table of failures. `docs/reference/failures.md` shows every backend's column: by default the columns that ran are compared
//! with it, with `NEXUS_TEST_DEEP=1` all of it, and `NEXUS_WRITE_FAILURES=1` runs every column and writes it anew.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use libtest_mimic::{Failed, Trial};
use nexus_backends::{
    claude::cli::ClaudeCli,
    codex::{ChatgptSubToken, CodexSubToken, cli::CodexCli},
    generic::{ChatCompletions, GeminiApi, MessagesApi, Responses},
    grok::{GrokSubToken, cli::GrokCli},
};
use nexus_core::BackendKind;
use nexus_testkit::{
    conformance::{
        DelegatedSubject, NativeSubject, Subject, Timing,
        failure_table::{Observed, complaints, observe, page},
    },
    effort,
    fake_cli::Vendor,
    real,
    sim::{Dialect, Model},
};
use serde_json::json;

const WRITE: &str = "NEXUS_WRITE_FAILURES";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/failures.md");

/// The variables that name real programs, and their columns.
const REAL: [(&str, &str); 3] =
    [("NEXUS_REAL_CLAUDE", "claude-cli"), ("NEXUS_REAL_CODEX", "codex-cli"), ("NEXUS_REAL_GROK", "grok-cli")];

/// Columns that are tried by default.
const DEFAULT: [&str; 6] = ["claude-cli", "acp", "responses", "chat", "messages", "gemini"];

/// Every column of the page, in its order.
const COLUMNS: [&str; 11] = [
    "claude-cli",
    "codex-cli",
    "grok-cli",
    "acp",
    "codex-sub-token",
    "chatgpt-sub-token",
    "grok-sub-token",
    "responses",
    "chat",
    "messages",
    "gemini",
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test(
        "failure_table::every_failure_ends_as_the_table_says_and_the_page_shows_it",
        || every_column().map_err(Failed::from),
    )];
    for (variable, column) in REAL {
        for (number, executable) in (1..).zip(real::programs(variable)) {
            let name = format!("failure_table::{column}_{number}_ends_as_the_table_says");
            trials.push(Trial::test(name, move || {
                let subject = delegated(column, Some(&executable));
                let found = complaints(column, &blocking(&*subject, column));
                if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
            }));
        }
    }
    trials
}

fn every_column() -> Result<(), String> {
    let is_written = std::env::var_os(WRITE).is_some();
    let is_whole = is_written || effort::is_deep();
    let column = |name: &'static str| {
        let is_program = name.ends_with("-cli") || name == "acp";
        let subject = if is_program { delegated(name, None) } else { native(name) };
        (name, blocking(&*subject, name))
    };
    // Most rows wait for something.
    let columns: Vec<(&str, Observed)> = std::thread::scope(|scope| {
        let names = COLUMNS.into_iter().filter(|name| is_whole || DEFAULT.contains(name));
        let running: Vec<_> = names.map(|name| scope.spawn(move || column(name))).collect();
        running.into_iter().map(|column| column.join().expect("no column panics")).collect()
    });
    let found: Vec<_> = columns.iter().flat_map(|(name, observed)| complaints(name, observed)).collect();
    if !found.is_empty() {
        return Err(found.join("\n"));
    }
    let page = page(&columns);
    if std::env::args().any(|argument| argument == "--nocapture") {
        println!("{page}");
    }
    if is_written {
        return std::fs::write(PAGE, page).map_err(|error| format!("{PAGE}: {error}"));
    }
    let written = std::fs::read_to_string(PAGE).map_err(|error| format!("{PAGE}: {error}"))?;
    let (ran, shown) = (cells(&page), cells(&written));
    let is_shown = match is_whole {
        true => written == page,
        false => ran.len() == columns.len() && ran.iter().all(|(name, cells)| shown.get(name) == Some(cells)),
    };
    if is_shown {
        return Ok(());
    }
    Err(format!("{PAGE} is not what ran: set {WRITE}=1 and look at git diff\n{page}"))
}

/// The cells of a page by column: what happens, and how it ends, with the note that is numbered there.
fn cells(page: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let notes: BTreeMap<&str, &str> = page.lines().filter_map(|line| line.split_once(". ")).collect();
    let with_note = |cell: &str| {
        let numbered = cell.strip_suffix(')').and_then(|cell| cell.rsplit_once(" ("));
        match numbered.and_then(|(cell, number)| Some((cell, notes.get(number)?))) {
            Some((cell, note)) => format!("{cell} ({note})"),
            None => cell.to_owned(),
        }
    };
    let mut rows =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")).map(|line| {
            let cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned());
            cells.collect::<Vec<String>>()
        });
    let names = rows.next().unwrap_or_default();
    let mut columns = BTreeMap::<String, Vec<(String, String)>>::new();
    for row in rows {
        for (name, cell) in names.iter().zip(&row).skip(1) {
            columns.entry(name.clone()).or_default().push((row[0].clone(), with_note(cell)));
        }
    }
    columns
}

fn blocking(subject: &dyn Subject, column: &str) -> Observed {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(observe(subject, column))
}

fn delegated(column: &str, executable: Option<&Path>) -> Box<dyn Subject> {
    // A real program may wait two minutes after a rate limit, and say nothing of it.
    let timing = Timing { bound: Duration::from_secs(240), ..Timing::default() };
    let subject = |kind, vendor, dialect| match executable {
        Some(executable) => DelegatedSubject::real(column, kind, executable, dialect).with_timing(timing),
        None => DelegatedSubject::fake(column, kind, vendor),
    };
    Box::new(match column {
        "claude-cli" => subject(Arc::new(ClaudeCli), Vendor::Claude, Dialect::Anthropic)
            .with_model("claude-sonnet-5")
            .with_setting("billing", json!("plan")),
        "codex-cli" => subject(Arc::new(CodexCli), Vendor::Codex, Dialect::Responses).with_model("gpt-5.5"),
        "acp" => subject(acp_kind(), Vendor::CodexAcp, Dialect::Responses)
            .with_model("gpt-5.5")
            .with_setting("agent", json!("codex-acp")),
        _ => subject(Arc::new(GrokCli), Vendor::Grok, Dialect::Xai).with_model("grok-4.6"),
    })
}

fn acp_kind() -> Arc<dyn BackendKind> {
    nexus_backends::registry().kind("acp").cloned().expect("every build of these tests has it")
}

fn native(column: &str) -> Box<dyn Subject> {
    Box::new(match column {
        "codex-sub-token" => NativeSubject::new(column, Arc::new(CodexSubToken), Dialect::Responses)
            .with_model("gpt-5.5")
            .with_catalogue([Model::new("gpt-5.5")]),
        "chatgpt-sub-token" => NativeSubject::new(column, Arc::new(ChatgptSubToken), Dialect::Responses)
            .with_model("gpt-6.1-sol")
            .with_catalogue([Model::new("gpt-6.1-sol").public_plan()]),
        "grok-sub-token" => NativeSubject::new(column, Arc::new(GrokSubToken), Dialect::Xai)
            .with_model("grok-4.6")
            .with_catalogue([Model::new("grok-4.6")]),
        "chat" => NativeSubject::new(column, Arc::new(ChatCompletions), Dialect::Chat)
            .with_setting("model", json!("simulated")),
        "messages" => NativeSubject::new(column, Arc::new(MessagesApi), Dialect::Anthropic)
            .with_setting("model", json!("simulated")),
        "gemini" => NativeSubject::new(column, Arc::new(GeminiApi), Dialect::Gemini)
            .with_setting("model", json!("simulated")),
        _ => NativeSubject::new(column, Arc::new(Responses), Dialect::Responses)
            .with_setting("model", json!("simulated")),
    })
}

//! What a person is shown of debates.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use nexus_debates::{
    DebateListRequest, DebateResultRequest, DebateStatusRequest, DebateView, Debates, synthesis,
};

use crate::{
    command_error::CommandError,
    interrupt::{self, Interrupts},
    output::{broken, is_broken, printable, printable_lines, say, say_json},
};

/// How often the files are looked at.
const PAUSE: Duration = Duration::from_millis(300);

/// `cross examining, round 2`.
pub(super) fn status(view: &DebateView) -> String {
    let round = view.round.map(|round| format!(", round {round}")).unwrap_or_default();
    format!("{}{round}", view.status.replace('_', " "))
}

/// Where a debate is.
pub(super) fn view(view: &DebateView) -> String {
    let mut lines = vec![format!("{} is {}", view.debate_id, status(view))];
    for claim in &view.claims {
        let outcome = claim.outcome.map_or("not yet", |outcome| outcome.in_words());
        lines.push(format!("  {}: {} ({})", claim.id, outcome, printable(&claim.text)));
    }
    for panelist in &view.panelists {
        let absent = panelist.absent.iter().map(|absent| format!("\n      absent, {}", printable(absent)));
        lines.push(format!("  {}{}", panelist.name, absent.collect::<String>()));
    }
    lines.join("\n")
}

pub(super) async fn record(debates: &Debates, id: &str, json: bool) -> Result<(), CommandError> {
    if json {
        let mut offset = Some(0);
        while let Some(at) = offset {
            let page = debates.result(DebateResultRequest { debate_id: id.to_owned(), offset: at }).await?;
            offset = page.next_offset;
            say_json(&page);
        }
        return Ok(());
    }
    let debate = debates.store().open(id)?;
    let data = debate.snapshot()?.data;
    let record = synthesis(&data.question, &debate.proceedings(&data)?);
    match std::io::stdout().is_terminal() {
        // A terminal is not to obey what agents wrote, so that it is not shown byte for byte.
        true => say(printable_lines(record.trim_end())),
        false => say(record.trim_end()),
    }
    Ok(())
}

pub(super) async fn list(
    debates: &Debates,
    mut request: DebateListRequest,
    json: bool,
) -> Result<(), CommandError> {
    loop {
        let page = debates.list(request.clone()).await?;
        for row in &page.debates {
            match json {
                true => say_json(row),
                false => say(format_args!(
                    "{}  {}  {}  {}",
                    row.debate_id,
                    row.created_at,
                    row.status.replace('_', " "),
                    printable(&row.question)
                )),
            }
        }
        for unreadable in page.unreadable.iter().filter(|_| request.offset == 0) {
            super::note(&super::for_a_person(unreadable));
        }
        match page.next_offset {
            Some(next) => request.offset = next,
            None => return Ok(()),
        }
    }
}

/// Says what happens in a debate, as its files have it, whoever runs it.
pub(super) async fn watch(debates: &Debates, id: &str) -> Result<ExitCode, CommandError> {
    let debate = debates.store().open(id)?;
    let mut interrupts = Interrupts::listen().map_err(CommandError::failed)?;
    let (mut known, mut last) = (0, String::new());
    loop {
        let request = DebateStatusRequest { debate_id: id.to_owned(), wait_s: Some(0) };
        let view = debates.status(request).await?;
        let line = format!("{}  {}", view.debate_id, status(&view));
        if line != last {
            say(&line);
            last = line;
        }
        let events = debate.events()?.events;
        for event in events.iter().skip(known) {
            let about = ["stage", "agent", "panelist", "reason", "vendor", "failure", "status", "task_id"];
            let said = about.iter().filter_map(|name| {
                let value = event.data.get(name)?.as_str()?;
                Some(format!("{name} {}", printable(value)))
            });
            let time = nexus_files::rfc3339::seconds(event.time);
            say(format_args!(
                "{time}  {}  {}",
                event.kind.replace('_', " "),
                said.collect::<Vec<_>>().join(", ")
            ));
        }
        known = events.len();
        let is_over = matches!(view.status.as_str(), "done" | "cancelled") && !view.running;
        if is_over || is_broken() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = broken() => return Ok(ExitCode::SUCCESS),
            listened = interrupts.next() => {
                listened.map_err(CommandError::failed)?;
                return Ok(interrupt::exit_code());
            }
        }
    }
}

//! Text of debates for people.

use nexus_debates::{DebateResultRequest, DebateRow, DebateStatusWord, DebateView, Debates, synthesis};

use crate::{
    command_error::CommandError,
    output::{AnswerWriter, printable, say, say_json},
    show::shown,
    spoken_time::age,
    terminal::fitted,
};

/// `cross examining, round 2`.
pub(super) fn status(view: &DebateView) -> String {
    let round = view.round.map(|round| format!(", round {round}")).unwrap_or_default();
    format!("{}{round}", view.status.spoken())
}

/// Describes the state of a debate.
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

/// Names the commands that follow a stage.
pub(super) fn next(view: &DebateView) -> String {
    let id = &view.debate_id;
    match view.status {
        DebateStatusWord::Done => format!(
            "read every argument and the arbiter's interpretation with `nexus debate show {id}`, or write a page with `nexus \
             debate report {id} -o debate.html`"
        ),
        DebateStatusWord::Cancelled => format!("`nexus debate show {id}` prints the arguments so far"),
        _ => format!("continue with `nexus debate advance {id}`, or to the end with `--all`"),
    }
}

/// Describes a debate in one line.
pub(super) fn row(row: &DebateRow) -> String {
    let (id, status) = (&row.debate_id, row.status.spoken());
    let age = age(&row.created_at);
    let question = row.question.lines().next().unwrap_or_default();
    fitted(&printable(&format!("{id}  {status:<9}  {age:>4}  {question}")))
}

pub(super) async fn record(out: AnswerWriter, debates: &Debates, id: &str) -> Result<(), CommandError> {
    if !out.is_json() {
        let debate = debates.store().open(id)?;
        let data = debate.snapshot()?.data;
        say(shown(synthesis(&data.question, &debate.proceedings(&data)?).trim_end()));
        return Ok(());
    }
    let request = |offset| DebateResultRequest { debate_id: id.to_owned(), offset };
    let mut result = debates.result(request(0)).await?;
    while let Some(offset) = result.next_offset {
        let page = debates.result(request(offset)).await?;
        result.record.push_str(&page.record);
        result.next_offset = page.next_offset;
    }
    say_json(&result);
    Ok(())
}

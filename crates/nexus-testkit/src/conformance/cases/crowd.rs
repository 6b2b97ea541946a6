//! Many turns at once, on one backend.

use futures::future::join_all;

use crate::{
    conformance::{
        finding::{Verdict, same_text},
        trial::Trial,
    },
    sim::{Reply, Scenario},
};

/// Turns at once.
const TURNS: usize = 8;

pub(crate) async fn turns_at_once_do_not_see_each_other(trial: &Trial<'_>) -> Verdict {
    // Long answers overlap in time, so a mix-up of the turns would show.
    let answer = |turn: usize| format!("The answer to question {turn} is {}. ", turn * 111).repeat(40);
    let script = (0..TURNS).fold(Scenario::text("Nobody's answer."), |script, turn| {
        // The comma ends the number, so that question 1 is not found in question 10.
        script.when_prompt(format!("question {turn},"), [Reply::text(answer(turn))])
    });
    let staged = trial.stage(script).await?;
    let turns =
        (0..TURNS).map(|turn| staged.run(staged.request(format!("This is question {turn}, answer it."))));
    for (turn, observed) in join_all(turns).await.into_iter().enumerate() {
        same_text("each turn has its own answer", &observed?.result()?.text, &answer(turn))?;
    }
    Ok(())
}

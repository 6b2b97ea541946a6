//! Contents of the request to the model: the exact prompt, the instructions, the model, the effort, the picture.

use nexus_core::{Effort, PromptBlock, TurnEvent};

use super::SMALL_PNG;
use crate::{
    conformance::{
        finding::{Finding, Verdict, ensure, same, same_text, short},
        trial::{Staged, Trial},
    },
    model_call::ModelCall,
    sim::{Scenario, long_text},
};

/// Size of a long prompt: a mebibyte, less the room for text that a backend may add.
const LONG_PROMPT_BYTES: usize = (1 << 20) - 4096;

pub(crate) async fn a_prompt_of_a_mebibyte_arrives_whole(trial: &Trial<'_>) -> Verdict {
    arrives(trial, &long_text(LONG_PROMPT_BYTES)).await
}

pub(crate) async fn a_prompt_with_a_slash_is_no_command(trial: &Trial<'_>) -> Verdict {
    for prompt in ["/help", "/compact now", "/etc/hosts is a file", "/"] {
        arrives(trial, prompt).await?;
    }
    Ok(())
}

pub(crate) async fn a_prompt_with_a_dash_is_no_option(trial: &Trial<'_>) -> Verdict {
    for prompt in ["-x", "--version", "--", "-"] {
        arrives(trial, prompt).await?;
    }
    Ok(())
}

pub(crate) async fn a_prompt_with_an_at_sign_reads_no_file(trial: &Trial<'_>) -> Verdict {
    let secret = trial.canary("file");
    let file = trial.workspace().join("notes.txt");
    std::fs::write(&file, &secret).map_err(|error| Finding::new("a temporary file", error.to_string()))?;
    let staged = trial.stage(Scenario::text("Noted.")).await?;
    // Some vendors' programs read files that a prompt names with this sign.
    for prompt in [format!("@{}", file.display()), "@notes.txt".to_owned(), "@/etc/hostname".to_owned()] {
        let request = staged.request(&prompt).in_directory(trial.workspace());
        staged.run(request).await?.result()?;
        holds_prompt(&staged, &prompt)?;
    }
    let calls = short_calls(&staged.model_calls());
    ensure(!calls.contains(&secret), "a file that is only named is not read", || calls)
}

pub(crate) async fn a_prompt_that_is_a_subcommand_is_a_prompt(trial: &Trial<'_>) -> Verdict {
    for prompt in ["exec", "resume", "mcp", "login", "agent", "help", "update"] {
        arrives(trial, prompt).await?;
    }
    Ok(())
}

pub(crate) async fn a_prompt_is_not_trimmed_or_expanded(trial: &Trial<'_>) -> Verdict {
    let odd = [
        "\nThe first line is empty.",
        "  Blanks at both ends.  ",
        "Line feeds at the end.\n\n",
        "$HOME `id` $(id) %PATH% {{x}} \\n \"'",
        "!ls",
        "# a note",
        "{\"type\":\"user\"}",
    ];
    for prompt in odd {
        arrives(trial, prompt).await?;
    }
    Ok(())
}

pub(crate) async fn every_text_of_the_prompt_arrives_in_order(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Read.")).await?;
    let request = staged.request("The first part.").with_block(PromptBlock::text("The second part."));
    staged.run(request).await?.result()?;
    let call = first_call(&staged)?;
    let words = call.user_texts.join("\n");
    let places = [words.find("The first part."), words.find("The second part.")];
    let in_order = matches!(places, [Some(first), Some(second)] if first < second);
    ensure(in_order, "prompt", || format!("the parts stand at {places:?}"))
}

pub(crate) async fn instructions_stand_above_the_prompt(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Aye.")).await?;
    let instructions = trial.canary("instructions");
    staged.run(staged.request("Speak.").with_system(&instructions)).await?.result()?;
    let call = first_call(&staged)?;
    ensure(call.system.contains(&instructions), "instructions", || {
        format!("not in the system text, {} bytes; user texts {}", call.system.len(), short(&call.user_texts))
    })?;
    // In the user's role, a prompt could override the instructions.
    let among_prompts = call.user_texts.iter().any(|text| text.contains(&instructions));
    ensure(!among_prompts, "instructions are no prompt", || short(&call.user_texts))
}

pub(crate) async fn the_model_that_is_named_is_asked(trial: &Trial<'_>) -> Verdict {
    let Some(model) = trial.subject().model() else { return Ok(()) };
    let staged = trial.stage(Scenario::text("Here.")).await?;
    let turn = staged.run(staged.request("Who is there?")).await?;
    let provenance = &turn.result()?.provenance;
    let call = first_call(&staged)?;
    let asked = call.model.unwrap_or_default();
    // A vendor's program may add a suffix to the name.
    ensure(asked.contains(model.as_str()), "model", || format!("wanted {model}, asked {asked:?}"))?;
    ensure(provenance.model.is_some(), "provenance names the model", || short(provenance))
}

pub(crate) async fn effort_arrives(trial: &Trial<'_>) -> Verdict {
    let mut spelled = Vec::new();
    let offered = trial.stage(Scenario::text("unused")).await?.capabilities().efforts;
    // Two levels suffice to see that the value matters. Vendors may merge neighbouring ones.
    let steps = [offered.iter().min().copied(), offered.iter().max().copied()];
    for effort in steps.into_iter().flatten() {
        let staged = trial.stage(Scenario::text("Thought.")).await?;
        let turn = staged.run(staged.request("Think.").with_effort(effort)).await?;
        let applied = turn.result()?.provenance.effort.map(|applied| (applied.requested, applied.applied));
        same("effort is reported", &applied, &Some((effort, effort)))?;
        let call = first_call(&staged)?;
        ensure(call.effort.is_some(), "effort reaches the model", || format!("{effort} was asked for"))?;
        spelled.push((effort, call.effort));
    }
    let told_apart = match spelled.as_slice() {
        [(low, low_spelled), (high, high_spelled)] => low == high || low_spelled != high_spelled,
        _ => false,
    };
    ensure(told_apart, "efforts are told apart", || short(&spelled))
}

pub(crate) async fn effort_out_of_range_is_clamped_and_reported(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Thought.")).await?;
    let offered = staged.capabilities().efforts;
    for effort in Effort::ALL.into_iter().filter(|effort| !offered.contains(effort)) {
        let wanted = effort.clamp_to(&offered);
        let turn = staged.run(staged.request("Think.").with_effort(effort)).await?;
        same("effort is clamped", &turn.result()?.provenance.effort, &wanted)?;
        let started = turn.events.iter().find_map(|envelope| match &envelope.event {
            TurnEvent::Started(started) => started.effort,
            _ => None,
        });
        same("the clamp is in the started event", &started, &wanted)?;
    }
    Ok(())
}

pub(crate) async fn a_picture_arrives(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("One pixel.")).await?;
    let picture = PromptBlock::Image { media_type: "image/png".into(), data: SMALL_PNG.into() };
    staged.run(staged.request("What is this?").with_block(picture)).await?.result()?;
    same("pictures", &first_call(&staged)?.images, &1)
}

/// A picture of 8 by 8 pixels.
const TINY_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII=";

pub(crate) async fn a_tiny_picture_arrives_or_is_reported(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("It is red.")).await?;
    let picture = PromptBlock::Image { media_type: "image/png".into(), data: TINY_PNG.into() };
    let turn = staged.run(staged.request("What is this?").with_block(picture)).await?;
    turn.result()?;
    let has_arrived = first_call(&staged)?.images == 1;
    let is_reported =
        turn.saw(|event| matches!(event, TurnEvent::Warning(warning) if warning.text.contains("picture")));
    ensure(has_arrived || is_reported, "a warning says that the picture is left out", || short(&turn.events))
}

/// The prompt reaches the model to the letter, and the answer comes back.
async fn arrives(trial: &Trial<'_>, prompt: &str) -> Verdict {
    let staged = trial.stage(Scenario::text("Received.")).await?;
    let turn = staged.run(staged.request(prompt)).await?;
    same_text("answer", &turn.result()?.text, "Received.")?;
    holds_prompt(&staged, prompt)
}

fn holds_prompt(staged: &Staged<'_>, prompt: &str) -> Verdict {
    let calls = staged.model_calls();
    let holds = |call: &ModelCall| call.user_texts.iter().any(|text| text.contains(prompt));
    ensure(calls.iter().any(holds), "prompt", || {
        format!("{} reached the model as {}", short(&prompt), short_calls(&calls))
    })
}

fn first_call(staged: &Staged<'_>) -> Result<ModelCall, Finding> {
    let first = staged.model_calls().into_iter().next();
    first.ok_or_else(|| Finding::new("the model is asked", "no call reached it"))
}

fn short_calls(calls: &[ModelCall]) -> String {
    let texts: Vec<_> = calls.iter().map(|call| &call.user_texts).collect();
    short(&texts)
}

//! Tools: they really run, only where they may, and the model gets their results.

use std::{path::Path, sync::Arc};

use nexus_core::{AccessEnforcer, AccessSupport, Effects, ErrorKind, ToolAccess, ToolCallStatus, TurnEvent};
use serde_json::{Value, json};

use super::caller_tools::{ANSWER, lookup, turn_with};

use crate::{
    conformance::{
        finding::{Finding, Verdict, ensure, same, same_text, short},
        subject::ToolList,
        trial::{Staged, Trial},
        watch::SinkPace,
    },
    sim::{Odd, Reply, Scenario, ToolCall},
};

pub(crate) async fn a_shell_command_runs_in_the_working_directory(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let call = belt.shell("pwd -P > where.txt && echo ran-$((6 * 7))");
    let staged = trial.stage(Scenario::tool_then_text(call, "It ran.")).await?;
    let turn = belt.run(&staged, "Run it.").await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "It ran.")?;
    let workspace = trial.workspace().canonicalize().unwrap_or_default();
    let place = read(&trial.workspace().join("where.txt"))?;
    same_text("the shell's directory", place.trim(), &workspace.to_string_lossy())?;
    told(&staged, "ran-42")?;
    ensure(result.effects >= Effects::Wrote, "effects of a shell", || short(&result.effects))?;
    same("calls of the result", &result.tool_calls.len(), &1)?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Succeeded])
}

pub(crate) async fn a_tool_call_is_told_with_its_arguments_and_its_output(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let call = belt.shell("echo heron | tr a-z A-Z");
    let staged = trial.stage(Scenario::tool_then_text(call, "It ran.")).await?;
    let turn = belt.run(&staged, "Run it.").await?;
    let result = turn.result()?;
    let record = result.tool_calls.first().ok_or_else(|| Finding::new("calls of the result", "none"))?;
    let arguments = record.arguments.as_ref().map(Value::to_string).unwrap_or_default();
    ensure(arguments.contains("echo heron"), "arguments", || short(record))?;
    let output = short(&record.output);
    ensure(output.contains("HERON"), "output", || output)
}

pub(crate) async fn a_file_that_is_written_lands(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::WorkspaceWrite);
    let path = trial.workspace().join("poem.txt");
    let text = "Rain on the roof,\nnaïve as 水.\n";
    let call = belt.write_file(path.to_string_lossy(), text);
    let staged = trial.stage(Scenario::tool_then_text(call, "Written.")).await?;
    let turn = belt.run(&staged, "Write a poem.").await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "Written.")?;
    same_text("the file", &read(&path)?, text)?;
    ensure(result.effects >= Effects::Wrote, "effects of a write", || short(&result.effects))
}

pub(crate) async fn two_commands_of_one_id_are_two_records(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let calls = ["one", "two"].map(|name| belt.shell(format!("echo done > {name}.txt")));
    let script = Scenario::new([Reply::calls(calls).call_id("call_same"), Reply::text("Done.")]);
    let staged = trial.stage(script).await?;
    let turn = belt.run(&staged, "Do both.").await?;
    // A program may treat such an answer as it likes. But every command that it ran must be recorded.
    let ran = ["one.txt", "two.txt"].iter().filter(|name| trial.workspace().join(name).exists()).count();
    let records = match &turn.outcome {
        Ok(result) => &result.tool_calls,
        Err(error) => &error.partial().tool_calls,
    };
    let on_record = records.iter().filter(|call| call.status == ToolCallStatus::Succeeded).count();
    same("commands that ran", &on_record, &ran)
}

pub(crate) async fn read_only_cannot_write(trial: &Trial<'_>) -> Verdict {
    let (by_tool, by_shell) = (trial.workspace().join("by-tool.txt"), trial.workspace().join("by-shell.txt"));
    cannot_write(trial, ToolAccess::ReadOnly, &by_tool, &by_shell).await
}

pub(crate) async fn workspace_write_cannot_write_outside(trial: &Trial<'_>) -> Verdict {
    let outside = trial.new_folder("outside")?;
    cannot_write(trial, ToolAccess::WorkspaceWrite, &outside.join("tool.txt"), &outside.join("shell.txt"))
        .await
}

pub(crate) async fn an_extra_root_is_inside_the_sandbox(trial: &Trial<'_>) -> Verdict {
    let root = trial.new_folder("root")?;
    let path = root.join("note.txt");
    let call = ToolCall::write_file(path.to_string_lossy(), "inside");
    let staged = trial.stage(Scenario::tool_then_text(call, "Written.")).await?;
    let request = staged.work("Write it.", ToolAccess::WorkspaceWrite).with_extra_root(&root);
    staged.run(request).await?.result()?;
    same_text("the file", read(&path)?.trim_end(), "inside")
}

pub(crate) async fn scoped_only_offers_no_tool(trial: &Trial<'_>) -> Verdict {
    let call = ToolCall::shell("touch escaped.txt");
    let staged = trial.stage(Scenario::tool_then_text(call, "Nothing to run.")).await?;
    let turn = staged.run(staged.work("Run something.", ToolAccess::ScopedOnly)).await?;
    let idle = trial.subject().idle_tools();
    for call in staged.model_calls() {
        let offered: Vec<_> = call.tools.iter().filter(|name| !idle.contains(&name.as_str())).collect();
        ensure(offered.is_empty(), "no tool is offered", || short(&offered))?;
    }
    ensure(!trial.workspace().join("escaped.txt").exists(), "nothing runs", || short(&turn.outcome))
}

pub(crate) async fn a_tool_that_fails_is_told_to_the_model(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let call = belt.shell("echo broken-glass >&2; exit 3");
    let staged = trial.stage(Scenario::tool_then_text(call, "It failed.")).await?;
    let turn = belt.run(&staged, "Run it.").await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "It failed.")?;
    told(&staged, "broken-glass")?;
    let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
    same("status", &statuses, &vec![ToolCallStatus::Failed])
}

pub(crate) async fn a_level_that_is_a_list_of_tools_is_not_kept_unseen(trial: &Trial<'_>) -> Verdict {
    for tool_list in [ToolList::Missing, ToolList::WithAnother] {
        for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly] {
            let mut setting = trial.setting_at(&format!("{tool_list:?}-{access:?}"), Scenario::text(ANSWER));
            setting.tool_list = tool_list;
            let staged = trial.stage_setting(setting).await?;
            // A level that the operating system enforces does not depend on the list of tools.
            if staged.capabilities().access.of(access) != AccessSupport::Kept(AccessEnforcer::Vendor) {
                continue;
            }
            let turn = staged.run(staged.work("Look around.", access)).await?;
            trial.expect_kind(turn.error()?, &[ErrorKind::Unsupported])?;
            let said = turn.error()?.message().unwrap_or_default();
            ensure(!said.is_empty(), "the error says why", || format!("{tool_list:?} {access:?}"))?;
        }
    }
    Ok(())
}

pub(crate) async fn an_ordinary_turn_is_understood(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let call = Reply::thinking("Let me see.").and_text("I look.").and_call(belt.shell("echo heron"));
    let staged = trial.stage(Scenario::new([call, Reply::text(ANSWER)])).await?;
    let turn = belt.run(&staged, "Look around.").await?;
    turn.result()?;
    let unknown = turn.events.iter().find(|event| matches!(event.event, TurnEvent::Unrecognized(_)));
    ensure(unknown.is_none(), "everything is understood", || short(&unknown))
}

pub(crate) async fn what_is_not_understood_may_have_changed_anything(trial: &Trial<'_>) -> Verdict {
    let odd = Reply::text(ANSWER).and_odd(Odd::Item);
    // Any tool will do; it is not called.
    let (_, turn) = turn_with(trial, odd, &Arc::new(lookup("heron")), |it| it).await?;
    let is_told = turn.saw(|event| matches!(event, TurnEvent::Unrecognized(_)));
    ensure(is_told, "an unknown line is reported as an event", || short(&turn.events))
}

pub(crate) async fn tools_called_together_are_all_answered(trial: &Trial<'_>) -> Verdict {
    let belt = trial.toolbelt(ToolAccess::Unrestricted);
    let both = Reply::calls([belt.shell("echo first-one"), belt.shell("echo second-one")]);
    let staged = trial.stage(Scenario::new([both, Reply::text("Both.")])).await?;
    let turn = belt.run(&staged, "Run both.").await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "Both.")?;
    same("calls of the result", &result.tool_calls.len(), &2)?;
    told(&staged, "first-one")?;
    told(&staged, "second-one")
}

pub(crate) async fn a_tool_of_the_callers_is_answered_by_the_caller(trial: &Trial<'_>) -> Verdict {
    let arguments = json!({ "word": "heron" });
    let call = trial.subject().caller_tool("lookup", arguments.clone());
    let staged = trial.stage(Scenario::tool_then_text(call, "A bird.")).await?;
    let tools = Arc::new(lookup("a long-legged bird"));
    let request = staged.narrow_work("Look it up.");
    let turn = staged.run_with(request, tools.host(), SinkPace::Ready).await?;
    let result = turn.result()?;
    same_text("answer", &result.text, "A bird.")?;
    same("what the caller was asked", &tools.asked(), &vec![("lookup".to_owned(), arguments)])?;
    told(&staged, "a long-legged bird")?;
    same("calls of the result", &result.tool_calls.len(), &1)
}

/// Checks that the model cannot write a file, neither with a tool nor with a shell.
async fn cannot_write(trial: &Trial<'_>, access: ToolAccess, by_tool: &Path, by_shell: &Path) -> Verdict {
    let tool = ToolCall::write_file(by_tool.to_string_lossy(), "escaped");
    let shell = ToolCall::shell(format!("echo escaped > '{}'", by_shell.display()));
    let script = Scenario::new([Reply::call(tool), Reply::call(shell), Reply::text("I could not.")]);
    let staged = trial.stage(script).await?;
    let turn = staged.run(staged.work("Write both.", access)).await?;
    let kept = match &turn.outcome {
        Ok(result) => &result.tool_calls,
        Err(error) => &error.partial().tool_calls,
    };
    let denied = kept.iter().filter(|call| call.status == ToolCallStatus::Denied);
    let effects = denied.map(|call| call.effects).fold(Effects::None, Effects::and);
    same("effects of what was denied", &effects, &Effects::None)?;
    for path in [by_tool, by_shell] {
        ensure(!path.exists(), "the sandbox holds", || format!("{} was written", path.display()))?;
    }
    let asked = staged.model_calls().len();
    ensure(asked >= 2 || turn.outcome.is_err(), "the model tried", || format!("{asked} model calls"))
}

/// Checks that a tool result with `words` reached the model.
pub(super) fn told(staged: &Staged<'_>, words: &str) -> Verdict {
    let calls = staged.model_calls();
    let results: Vec<_> = calls.iter().flat_map(|call| &call.tool_results).collect();
    let told = results.iter().any(|text| text.contains(words));
    ensure(told, "the model is told", || format!("{words:?} is not in {}", short(&results)))
}

fn read(path: &Path) -> Result<String, Finding> {
    std::fs::read_to_string(path)
        .map_err(|error| Finding::new("the file", format!("{}: {error}", path.display())))
}

//! `nexus explain`: who would run a work-kind, and why.

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use nexus::{BuildContext, Router};

use crate::{
    args::ConfigArgs,
    command_error::CommandError,
    config,
    interrupt::{self, Interrupts},
    output::{broken, complain, printable, say},
    versions::{self, ProgramNote},
};

/// How often `--watch` looks at the file.
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub(crate) async fn explain(
    args: &ConfigArgs,
    kind: Option<&str>,
    as_json: bool,
    watch: bool,
) -> Result<ExitCode, CommandError> {
    if !watch {
        print(&config::load(args)?, kind, as_json).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let context = BuildContext::from_process();
    let path = config::find_or_explain(args, &context)?;
    let router = config::load_file(&path, context)?;
    let mut stamp = stamp(&path);
    print(&router, kind, as_json).await?;
    let mut interrupts = Interrupts::listen().map_err(CommandError::failed)?;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = interrupts.next() => return Ok(interrupt::exit_code()),
            () = broken() => return Ok(ExitCode::SUCCESS),
        }
        let now = self::stamp(&path);
        if now == stamp {
            continue;
        }
        stamp = now;
        // The last good configuration stays where the new one is wrong, as it does in a program.
        let outcome = match router.reload() {
            Ok(()) => {
                if !as_json {
                    say("");
                }
                print(&router, kind, as_json).await
            }
            Err(error) => Err(error.into()),
        };
        if let Err(error) = outcome {
            error.report(as_json);
            complain("the configuration before it stays in use");
        }
    }
}

/// Changes whenever the file does: its length too, as some file systems keep time by the second.
fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

async fn print(router: &Router, kind: Option<&str>, as_json: bool) -> Result<(), CommandError> {
    let kinds = match kind {
        Some(kind) => vec![kind.to_owned()],
        None => router.kinds(),
    };
    // Another process may have armed one.
    router.refresh_holds().await;
    let explanations = kinds.iter().map(|kind| router.explain(kind.as_str()));
    let explanations = explanations.collect::<Result<Vec<_>, _>>()?;
    if as_json {
        say(serde_json::to_string_pretty(&explanations).map_err(CommandError::failed)?);
    } else {
        let texts = explanations.iter().map(ToString::to_string);
        say(texts.collect::<Vec<_>>().join("\n"));
        for ProgramNote { backend, note } in versions::notes(router).await {
            say(format_args!("note: {backend}: {}", printable(&note)));
        }
    }
    Ok(())
}

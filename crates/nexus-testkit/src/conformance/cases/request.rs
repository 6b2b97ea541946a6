//! Requests that cannot be run, and the declarations of a backend.

use nexus_core::{Availability, ErrorKind, ToolAccess, TurnHost, TurnRequest};

use crate::{
    conformance::{
        feature::Feature,
        finding::{Finding, Verdict, ensure, same, short},
        trial::{Staged, Trial},
        watch::SinkPace,
    },
    sim::Scenario,
};

pub(crate) async fn a_working_directory_that_is_missing_is_refused(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Where?")).await?;
    let request = staged.request("Work there.").in_directory(trial.folder().join("nowhere"));
    is_refused(trial, &staged, request, TurnHost::new(), ErrorKind::InvalidRequest).await
}

pub(crate) async fn a_working_directory_that_is_a_file_is_refused(trial: &Trial<'_>) -> Verdict {
    let file = trial.folder().join("file");
    std::fs::write(&file, "").map_err(|error| Finding::new("a temporary file", error.to_string()))?;
    let staged = trial.stage(Scenario::text("Where?")).await?;
    let request = staged.request("Work there.").in_directory(file);
    is_refused(trial, &staged, request, TurnHost::new(), ErrorKind::InvalidRequest).await
}

pub(crate) async fn an_empty_prompt_is_refused(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("What?")).await?;
    for prompt in ["", " \n\t "] {
        is_refused(trial, &staged, staged.request(prompt), TurnHost::new(), ErrorKind::InvalidRequest)
            .await?;
    }
    Ok(())
}

pub(crate) async fn what_is_not_declared_is_refused(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Done.")).await?;
    let capabilities = staged.capabilities();
    for feature in Feature::ALL.iter().filter(|feature| !feature.is_declared(&capabilities)) {
        let request = staged.request("Do it.").in_directory(trial.workspace());
        let Some((request, host)) = feature.demand(request) else { continue };
        is_refused(trial, &staged, request, host, ErrorKind::Unsupported)
            .await
            .map_err(|finding| Finding::new(finding.check, format!("{feature}: {}", finding.detail)))?;
    }
    Ok(())
}

pub(crate) async fn capabilities_never_change(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Done.")).await?;
    let before = staged.capabilities();
    same("capabilities", &staged.capabilities(), &before)?;
    staged.run(staged.request("Hello.")).await?.result()?;
    same("capabilities", &staged.capabilities(), &before)?;
    let none_kept = ToolAccess::ALL
        .iter()
        .all(|level| before.access.of(*level) == nexus_core::AccessSupport::Unsupported);
    ensure(!none_kept, "some access level is kept", || short(&before.access))
}

pub(crate) async fn a_probe_asks_no_model_and_leaves_nothing(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Unused.")).await?;
    let before = listing(trial);
    let availability = staged.backend().probe().await;
    ensure(availability.is_ready(), "a backend that can run is ready", || short(&availability))?;
    same("nothing is spent", &staged.model_calls().len(), &0)?;
    same("nothing is left", &listing(trial), &before)?;
    let again = staged.backend().probe().await;
    let same_version = match (&availability, &again) {
        (Availability::Ready { version, .. }, Availability::Ready { version: later, .. }) => version == later,
        _ => false,
    };
    ensure(same_version, "a probe says the same twice", || format!("{availability:?}, then {again:?}"))
}

async fn is_refused(
    trial: &Trial<'_>,
    staged: &Staged<'_>,
    request: TurnRequest,
    host: TurnHost,
    kind: ErrorKind,
) -> Verdict {
    let turn = staged.run_with(request, host, SinkPace::Ready).await?;
    trial.expect_kind(turn.error()?, &[kind])?;
    same("nothing is spent", &staged.model_calls().len(), &0)
}

/// The files of the user and of the workspace.
fn listing(trial: &Trial<'_>) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for folder in ["user", "workspace"] {
        super::walk(&trial.folder().join(folder), &mut |path| files.push(path.to_owned()));
    }
    files.sort();
    files
}

//! `nexus status`: shows the logins, and the backends that would run. It calls no model, and renews no login.

mod logins;
mod running;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::SystemTime};

use nexus::{Availability, BackendId, BuildContext, Explanation, Router};
use schemars::JsonSchema;
use serde::Serialize;

use self::{
    logins::{Logins, VendorLogin},
    running::RunsOn,
};
use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, StatusArgs},
    availability::words,
    command_error::CommandError,
    config,
    output::{AnswerWriter, say},
    schema::foreign::{AvailabilitySchema, ExplanationSchema},
};

/// JSON output of `nexus status`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Status {
    #[serde(flatten)]
    logins: Logins,
    /// Logins that Nexus leaves to the vendor's own program.
    vendor_logins: Vec<VendorLogin>,
    /// Configuration file in use.
    configuration: Option<PathBuf>,
    backends: Vec<Backend>,
    kinds: Vec<KindStatus>,
    /// Advice on the next steps.
    next: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Backend {
    #[schemars(with = "String")]
    id: BackendId,
    #[schemars(with = "AvailabilitySchema")]
    availability: Availability,
}

/// Status of one work-kind.
#[derive(Debug, Serialize, JsonSchema)]
struct KindStatus {
    kind: String,
    /// Backends that would run a turn of it now: one for each seat of a panel.
    runs_on: Vec<RunsOn>,
    #[schemars(with = "ExplanationSchema")]
    explanation: Explanation,
}

pub(crate) async fn status(
    out: AnswerWriter,
    config: &ConfigArgs,
    args: &StatusArgs,
) -> Result<ExitCode, CommandError> {
    let now = SystemTime::now();
    let context = BuildContext::from_process();
    let logins = Logins::look(&context, now).await?;
    let is_wanting = logins.are_wanting(args);
    let mut status = Status {
        logins,
        vendor_logins: VendorLogin::all(),
        configuration: None,
        backends: Vec::new(),
        kinds: Vec::new(),
        next: Vec::new(),
    };
    let mut is_stuck = false;
    match config::find(config, &context) {
        Ok(path) => {
            let router = config::load_file(&path, context)?;
            status.configuration = Some(path);
            status.look_at(&router).await?;
            is_stuck = !status.backends.iter().any(|backend| backend.availability.is_ready());
            if is_stuck {
                status.next.push("prepare one of the backends above: each line has the advice".to_owned());
            }
        }
        Err(places) => {
            status.next.push(format!("create a configuration: {places}; {}", config::BEGIN));
            status.next.extend(status.logins.offers());
        }
    }
    out.show(&status, |status| status.print(now));
    Ok(if is_wanting || is_stuck { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

impl Status {
    async fn look_at(&mut self, router: &Router) -> Result<(), CommandError> {
        for (id, backend) in router.backends() {
            self.backends.push(Backend { id, availability: backend.probe().await });
        }
        let found: BTreeMap<_, _> =
            self.backends.iter().map(|backend| (&backend.id, &backend.availability)).collect();
        // Another process may have set a hold.
        router.refresh_holds().await;
        for kind in router.kinds() {
            let explanation = router.explain(kind.as_str()).map_err(|error| error.to_string())?;
            let runs_on = RunsOn::of(&explanation.target, &found);
            self.kinds.push(KindStatus { kind, runs_on, explanation });
        }
        Ok(())
    }

    fn print(&self, now: SystemTime) {
        self.logins.print(now);
        for login in &self.vendor_logins {
            say(format_args!("{}: {}", login.login, login.note));
        }
        say("");
        if let Some(path) = &self.configuration {
            say(format_args!("configuration: {}", path.display()));
            let width = self.backends.iter().map(|backend| backend.id.as_str().len()).max().unwrap_or(0);
            let indent = " ".repeat(width + 4);
            for Backend { id, availability } in &self.backends {
                say(format_args!("  {:width$}  {}", id.as_str(), words(availability, &indent)));
            }
            say("\nwhat runs");
            for KindStatus { kind, runs_on, .. } in &self.kinds {
                for seat in runs_on {
                    say(format_args!("  {kind}{seat}"));
                }
            }
        } else {
            say("configuration: none");
        }
        for (index, next) in self.next.iter().enumerate() {
            say(format_args!("{} {next}", if index == 0 { "\nnext:" } else { "     " }));
        }
    }
}

//! `nexus status`: shows the logins, and the backends that would run. It calls no model, and renews no login.

mod logins;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

use nexus::{Availability, BackendId, BuildContext, Explanation, Router};
use schemars::JsonSchema;
use serde::Serialize;

use self::logins::{Logins, VendorLogin};
use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, StatusArgs},
    checks::{HeldBackend, RunsOn, Survey, TypeReadiness},
    command_error::CommandError,
    config::{self, FoundConfig},
    output::{AnswerWriter, printable, say},
    schema::foreign::{AvailabilitySchema, ExplanationSchema},
    terminal::wrapped,
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
    /// Findings from which the configuration was derived, if no file exists: one line for each backend.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    detected: Vec<String>,
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
    /// The refusal that suspends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<HeldBackend>,
    /// Its words for a person.
    #[serde(skip)]
    words: String,
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
        detected: Vec::new(),
        backends: Vec::new(),
        kinds: Vec::new(),
        next: Vec::new(),
    };
    let mut is_stuck = false;
    // A configuration that cannot be used must not hide the logins, so its fault becomes advice.
    let found = match config::find(config, &context)? {
        FoundConfig::Untrusted(untrusted) => Err(untrusted.note()),
        found => found.or_detect(&context).map_err(|error| error.to_string()),
    };
    match found {
        Ok(source) => {
            status.configuration = source.path().map(Path::to_owned);
            status.detected = source.detected().map(|detected| detected.found().to_vec()).unwrap_or_default();
            let router = config::load_source(source, context)?;
            is_stuck = !status.look_at(&router).await?;
            if is_stuck {
                status.next.push("prepare one of the backends above: each line has the advice; `nexus setup` goes through them".to_owned());
            }
        }
        Err(reason) => {
            status.next.push(reason);
            status.next.extend(status.logins.offers());
        }
    }
    out.show(&status, |status| status.print(now));
    Ok(if is_wanting || is_stuck { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

impl Status {
    /// Looks at the backends, and returns true if a turn of some type would start.
    async fn look_at(&mut self, router: &Router) -> Result<bool, CommandError> {
        let survey = Survey::of(router).await?;
        let would_start = survey.would_start();
        let width = survey.backends.iter().map(|backend| backend.id.as_str().len()).max().unwrap_or(0);
        let indent = " ".repeat(width + 4);
        self.backends.extend(survey.backends.into_iter().map(|found| Backend {
            words: found.words(&indent),
            hold: found.hold.as_ref().map(HeldBackend::of),
            id: found.id,
            availability: found.availability,
        }));
        let kind = |TypeReadiness { kind, runs_on, explanation }| KindStatus { kind, runs_on, explanation };
        self.kinds.extend(survey.types.into_iter().map(kind));
        Ok(would_start)
    }

    fn print(&self, now: SystemTime) {
        self.logins.print(now);
        for login in &self.vendor_logins {
            say(wrapped(&format!("{}: {}", login.login, login.note), 4));
        }
        say("");
        if self.configuration.is_some() || !self.detected.is_empty() {
            match &self.configuration {
                Some(path) => say(format_args!("configuration: {}", path.display())),
                None => {
                    say("configuration: detected, because no nexus.yaml exists");
                    self.detected.iter().for_each(|found| say(format_args!("  {}", printable(found))));
                }
            }
            let width = self.backends.iter().map(|backend| backend.id.as_str().len()).max().unwrap_or(0);
            for Backend { id, words, .. } in &self.backends {
                say(wrapped(&format!("  {:width$}  {words}", id.as_str()), width + 4));
            }
            say("\nwhat runs");
            for KindStatus { kind, runs_on, .. } in &self.kinds {
                for seat in runs_on {
                    say(wrapped(&printable(&format!("  {kind}{seat}")), 6));
                }
            }
        } else {
            say("configuration: none");
        }
        for (index, next) in self.next.iter().enumerate() {
            if index == 0 {
                say("");
            }
            say(wrapped(&format!("{} {next}", if index == 0 { "next:" } else { "     " }), 6));
        }
    }
}

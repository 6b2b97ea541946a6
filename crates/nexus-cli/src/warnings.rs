//! Warnings of the library while it runs: one line each on standard error, never on standard output.
//!
//! `RUST_LOG` sets the shown levels, as `TARGET=LEVEL` pairs. The lines have no colour.

use std::{
    fmt::{self, Write as _},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    layer::{Context, SubscriberExt as _},
};

use crate::{
    output::{complain_line, printable},
    repeated_lines::RepeatedLines,
};

/// Shows warnings and errors of this process from now on, or the levels in `RUST_LOG`. The layer `other` filters for itself.
pub(crate) fn show(other: Option<Box<dyn Layer<Registry> + Send + Sync>>) {
    let (targets, complaint) = wanted(std::env::var("RUST_LOG").ok().as_deref());
    // An error means that a subscriber is already set: it stays in use.
    let _ = tracing::subscriber::set_global_default(
        Registry::default().with(other).with(Lines::default().with_filter(targets)),
    );
    if let Some(complaint) = complaint {
        complain_line(&complaint);
    }
}

/// Returns the shown targets, and a complaint if the variable cannot be parsed.
fn wanted(variable: Option<&str>) -> (Targets, Option<String>) {
    // The client of MCP servers logs the servers' texts. Nexus reports its failures itself.
    let usual = || Targets::new().with_default(LevelFilter::WARN).with_target("rmcp", LevelFilter::OFF);
    match variable.filter(|text| !text.trim().is_empty()).map(str::parse) {
        None => (usual(), None),
        Some(Ok(targets)) => (targets, None),
        Some(Err(error)) => {
            let complaint = format!("RUST_LOG is not understood: {error}; warnings are shown");
            (usual(), Some(line(Level::WARN, &complaint)))
        }
    }
}

/// Writes each event as one line. Warnings and errors that repeat are limited.
#[derive(Default)]
struct Lines(Mutex<RepeatedLines>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let (metadata, text) = (event.metadata(), words.to_string());
        let level = *metadata.level();
        // A user who asks for more than warnings gets every line.
        if level > Level::WARN {
            return complain_line(line(level, &text));
        }
        let origin = (metadata.file().unwrap_or_default(), metadata.line());
        let admitted =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).admit(origin, &text, Instant::now());
        if let Some(text) = admitted {
            complain_line(line(level, &text));
        }
    }
}

fn line(level: Level, words: &str) -> String {
    let level = match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    // The text may contain a vendor's output.
    printable(&format!("nexus: {level}: {words}"))
}

/// The message of an event, and its other fields.
#[derive(Debug, Default)]
struct Words {
    message: String,
    details: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name if self.details.is_empty() => write!(self.details, "{name}: {value:?}"),
            name => write!(self.details, "; {name}: {value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message.is_empty(), self.details.is_empty()) {
            (_, true) => f.write_str(&self.message),
            (true, false) => f.write_str(&self.details),
            (false, false) => write!(f, "{} ({})", self.message, self.details),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_shown_unless_the_variable_says_otherwise() {
        let shows = |variable, level| {
            let (targets, complaint) = wanted(variable);
            assert_eq!(complaint, None, "{variable:?}");
            targets.would_enable("nexus_auth::manager", &level)
        };
        for unset in [None, Some(""), Some(" ")] {
            assert!(shows(unset, Level::ERROR) && shows(unset, Level::WARN));
            assert!(!shows(unset, Level::INFO));
        }
        assert!(shows(Some("nexus_auth=debug"), Level::DEBUG));
        assert!(!shows(Some("error"), Level::WARN));
        assert!(!shows(Some("off"), Level::ERROR));
    }

    #[test]
    fn a_variable_that_is_not_understood_is_told_and_hides_nothing() {
        let (targets, complaint) = wanted(Some("nexus=\u{7}loud"));
        assert!(targets.would_enable("nexus_backends", &Level::WARN));
        let complaint = complaint.unwrap();
        assert!(complaint.starts_with("nexus: warning: RUST_LOG"), "{complaint}");
        assert!(!complaint.contains('\u{7}'), "{complaint}");
    }

    #[test]
    fn an_event_is_one_line_that_moves_no_cursor() {
        let words = Words { message: "two\nlines".into(), details: "error: \u{1b}[2Jgone".into() };
        assert_eq!(line(Level::WARN, &words.to_string()), "nexus: warning: twolines (error: [2Jgone)");
    }
}

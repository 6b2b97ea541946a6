//! What was measured, and what it is measured by.

use std::fmt;

/// The figures of one client, of one run each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, figure: f64) {
        self.0.push(figure);
        self.0.sort_by(f64::total_cmp);
    }

    pub(crate) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn spread(&self) -> Option<(f64, f64)> {
        (self.0.len() > 1).then(|| (self.0[0], self.0[self.0.len() - 1]))
    }
}

/// What the figures of a row are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds, shown as microseconds.
    Time,
    /// Bytes, shown as KiB.
    Memory,
    /// A plain number.
    Count,
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::Time => format!("{:.2} µs", figure / 1e3),
            Self::Memory => format!("{:.1} KiB", figure / 1024.0),
            Self::Count if figure.abs() >= 100.0 => grouped(figure),
            Self::Count => format!("{figure:.2}"),
        }
    }
}

fn grouped(figure: f64) -> String {
    let digits = format!("{:.0}", figure.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if figure < 0.0 { format!("-{text}") } else { text }
}

/// The bounds of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// Nexus's figure by the floor's.
    TimesFloor { must: f64, aim: f64 },
    /// Nexus's figure as it stands, in the row's unit.
    Plain { must: f64, aim: f64 },
}

/// How Nexus has to stand beside the peers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside {
    /// Below every one of them.
    Ahead,
    /// At most this much above the best of them, in the row's unit.
    Within(f64),
}

/// One thing that was measured of every client.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) bound: Option<Bound>,
    pub(crate) beside: Option<Beside>,
    /// By client, in the order of the columns.
    pub(crate) figures: Vec<(&'static str, Samples)>,
}

impl Row {
    pub(crate) fn median_of(&self, client: &str) -> Option<f64> {
        let (_, samples) = self.figures.iter().find(|(name, _)| *name == client)?;
        Some(samples.median())
    }

    /// Prints the figures, each with its ratio to the floor's.
    pub(crate) fn print(&self) {
        println!("\n{}", self.what);
        let floor = self.median_of("floor").filter(|floor| *floor > 0.0);
        let nexus = self.median_of("nexus").filter(|nexus| *nexus > 0.0);
        for (client, samples) in &self.figures {
            let median = samples.median();
            let ratio = |name: &str, base: Option<f64>| match base {
                Some(base) if name != *client => format!("{:>8.2} x {name}", median / base),
                _ => String::new(),
            };
            let spread = match samples.spread() {
                Some((least, most)) => format!("({} to {})", self.unit.show(least), self.unit.show(most)),
                None => String::new(),
            };
            let line = format!(
                "  {client:<14}{:>14}  {spread:<30}{:<18}{}",
                self.unit.show(median),
                ratio("floor", floor),
                ratio("nexus", nexus)
            );
            println!("{}", line.trim_end());
        }
    }

    /// How the row stands to its bounds and to the peers.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let nexus = self.median_of("nexus")?;
        let (measured, must, aim) = match self.bound {
            Some(Bound::TimesFloor { must, aim }) => (nexus / self.median_of("floor")?, must, aim),
            Some(Bound::Plain { must, aim }) => (nexus, must, aim),
            None => (nexus, f64::NAN, f64::NAN),
        };
        let show = |figure: f64| match self.bound {
            _ if figure.is_nan() => "none".to_owned(),
            Some(Bound::TimesFloor { .. }) => format!("{figure:.2} x floor"),
            _ => self.unit.show(figure),
        };
        let peers = self.figures.iter().filter(|(name, _)| !["floor", "nexus", "raw bytes"].contains(name));
        let best = peers
            .map(|(name, samples)| (*name, samples.median()))
            .min_by(|(_, left), (_, right)| left.total_cmp(right));
        let peers = best.zip(self.beside).map(|((name, best), beside)| {
            let allowed = if let Beside::Within(noise) = beside { noise } else { 0.0 };
            let is_met = if matches!(beside, Beside::Ahead) { nexus < best } else { nexus <= best + allowed };
            (is_met, format!("{} ({name})", self.unit.show(best)))
        });
        (self.bound.is_some() || peers.is_some()).then(|| Verdict {
            what: self.what.clone(),
            must: show(must),
            aim: show(aim),
            measured: show(measured),
            has_missed_must: measured > must,
            has_missed_aim: measured > aim,
            peers,
        })
    }
}

/// One line of the last table.
#[derive(Debug)]
pub(crate) struct Verdict {
    what: String,
    must: String,
    aim: String,
    measured: String,
    pub(crate) has_missed_must: bool,
    has_missed_aim: bool,
    /// Whether the best peer is beaten, or near enough, and its figure.
    peers: Option<(bool, String)>,
}

impl Verdict {
    pub(crate) fn is_behind_a_peer(&self) -> bool {
        self.peers.as_ref().is_some_and(|(is_met, _)| !is_met)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = |is_met: bool| if is_met { "met" } else { "**missed**" };
        let bound = |bound: &str, has_missed: bool| {
            if bound == "none" { String::new() } else { format!("{bound}: {}", met(!has_missed)) }
        };
        let peers = self.peers.as_ref().map(|(is_met, text)| format!("{text}: {}", met(*is_met)));
        write!(
            f,
            "| {} | {} | {} | {} | {} |",
            self.what,
            self.measured,
            bound(&self.must, self.has_missed_must),
            bound(&self.aim, self.has_missed_aim),
            peers.unwrap_or_default()
        )
    }
}

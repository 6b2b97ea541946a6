//! The native backends beside the floor client and beside other clients, on one loopback server in one run.
//!
//! Three kinds of process, all of them this program: the server; one job at a time, which is one client doing
//! one thing; and the one that starts the others, compares what they found, and prints it. Clients take turns,
//! so that a busy moment hits all of them.

mod children;
pub(crate) mod contender;
mod decode;
mod floor;
mod job;
mod measure;
mod nexus;
mod raw;
mod recorded;
mod script;
mod server;
mod table;
mod turn_overhead;

use std::process::ExitCode;

use children::Children;
use contender::Entry;
use server::Server;
use table::{Row, Samples, Unit};

/// One bench: what it measures with, and what it found.
pub(crate) struct Bench {
    children: Children,
    /// The floor, Nexus, and whoever else takes part.
    clients: Vec<Entry>,
    is_quick: bool,
    /// True if only instructions are counted, which no other load changes.
    counts_only: bool,
    is_void: bool,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// Runs the bench `name` with the floor, Nexus and `peers`.
///
/// `--quick` takes fewer and shorter runs; `--counts` takes only the counts of tool rounds; with `--strict` the program ends with 1 if something that must hold
/// does not.
pub(crate) fn main(name: &str, peers: &[Entry]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let clients = [&[floor::FLOOR, nexus::NEXUS], peers].concat();
    match arguments.split_first() {
        Some((first, _)) if first == server::SERVE => return server::serve(),
        Some((first, job)) if first == job::JOB => {
            return job::run(&[&*clients, &[floor::BARE_REQUESTS, raw::RAW]].concat(), job);
        }
        _ => {}
    }
    let mut bench = Bench {
        children: Children::new(Server::start()),
        clients,
        is_quick: arguments.iter().any(|argument| argument == "--quick"),
        counts_only: arguments.iter().any(|argument| argument == "--counts"),
        is_void: false,
        rows: Vec::new(),
        notes: Vec::new(),
    };
    match name {
        "decode" => decode::run(&mut bench),
        "turn_overhead" => turn_overhead::run(&mut bench),
        _ => panic!("there is no bench {name:?}"),
    }
    bench.conclude(arguments.iter().any(|argument| argument == "--strict"))
}

impl Bench {
    /// Several rounds, as their spread matters. A round measures every client once.
    fn runs<T>(&self, round: impl Fn(&Self) -> T) -> Vec<T> {
        (0..if self.is_quick { 2 } else { 9 }).map(|_| round(self)).collect()
    }

    /// A few rounds, of what takes long or hardly varies.
    fn few_runs<T>(&self, round: impl Fn(&Self) -> T) -> Vec<T> {
        (0..if self.is_quick { 1 } else { 3 }).map(|_| round(self)).collect()
    }

    /// A row whose figures come out of rounds that were run before.
    fn row<T>(&self, what: String, unit: Unit, runs: &[T], figure: impl Fn(&T, usize) -> f64) -> Row {
        let clients = self.clients.iter().enumerate();
        let figures = clients.map(|(index, client)| {
            let mut samples = Samples::default();
            runs.iter().for_each(|run| samples.push(figure(run, index)));
            (client.name, samples)
        });
        Row { what, unit, bound: None, beside: None, figures: figures.collect() }
    }

    /// A row with a figure of each client per round.
    fn measured(&self, what: String, unit: Unit, figure: impl Fn(&Self, Entry) -> f64) -> Row {
        let runs =
            self.runs(|bench| bench.clients.iter().map(|client| figure(bench, *client)).collect::<Vec<_>>());
        self.row(what, unit, &runs, |figures, client| figures[client])
    }

    /// A row of what is counted and not timed: once.
    fn counted(&self, what: String, unit: Unit, figure: impl Fn(&Self, Entry) -> f64) -> Row {
        let run: Vec<f64> = self.clients.iter().map(|client| figure(self, *client)).collect();
        self.row(what, unit, &[run], |figures, client| figures[client])
    }

    fn add(&mut self, row: Row) {
        row.print();
        self.rows.push(row);
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn conclude(&self, is_strict: bool) -> ExitCode {
        println!("\n| what | nexus | must | aim | best peer |\n| --- | --- | --- | --- | --- |");
        let verdicts: Vec<_> = self.rows.iter().filter_map(Row::verdict).collect();
        verdicts.iter().for_each(|verdict| println!("{verdict}"));
        if !self.notes.is_empty() {
            println!();
        }
        self.notes.iter().for_each(|note| println!("{note}"));
        let is_missed = verdicts.iter().any(|verdict| verdict.has_missed_must || verdict.is_behind_a_peer());
        ExitCode::from(u8::from(is_strict && (self.is_void || is_missed)))
    }
}

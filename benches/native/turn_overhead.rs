//! What a turn costs beside the bytes that it takes: time to a delta, a tool round, memory.

use super::Bench;
use super::floor::BARE_REQUESTS;
use super::raw::RAW;
use super::script::{Fields, Framing, Scenario};
use super::table::{Beside, Bound, Row, Unit};

/// Streams that are open at once.
const STREAMS: usize = 256;

/// Tool calls in one loop.
const ROUNDS: usize = 50;

/// Pieces of text in each stream of a flood: more bytes than any client's buffer holds.
const FLOOD_DELTAS: usize = 2_000;

const KIB: f64 = 1024.0;

/// Takes the measurements of this bench.
pub(crate) fn run(bench: &mut Bench) {
    if bench.counts_only {
        return counted_rounds(bench);
    }
    latency(bench);
    tool_rounds(bench);
    counted_rounds(bench);
    held(bench);
    flood(bench);
}

/// Many short rounds, in which the raw bytes come right after each client: a machine is seldom quiet for long.
fn latency(bench: &mut Bench) {
    let (rounds, deltas) = if bench.is_quick { (2, 200) } else { (25, 400) };
    let scenario = Scenario::Paced { deltas, interval_us: 500 };
    let of = |client| bench.children.figures("latency", client, scenario, 1);
    let round = || bench.clients.iter().map(|client| (of(*client), of(RAW))).collect::<Vec<_>>();
    let runs: Vec<_> = (0..rounds).map(|_| round()).collect();
    let bounds =
        [("p50", Bound::Plain { must: 5e3, aim: 3e3 }), ("p99", Bound::Plain { must: 15e3, aim: 10e3 })];
    for (name, bound) in bounds {
        let what = format!("a delta beyond raw bytes, {name}");
        let row = bench.row(what, Unit::Time, &runs, |figures, client| {
            let (full, raw) = &figures[client];
            full[name] - raw[name]
        });
        bench.add(Row { bound: Some(bound), beside: Some(Beside::Within(3e3)), ..row });
    }
}

/// The bare requests are the very ones that the client before them made, so that the difference is what the
/// client does and not what it says.
fn tool_rounds(bench: &mut Bench) {
    let loops = if bench.is_quick { 3 } else { 40 };
    let runs = bench.runs(|bench| {
        let rounds = Scenario::ToolRounds { rounds: ROUNDS };
        let of = |client| {
            bench.children.figures("tool-loop", client, Scenario::Recorded { rounds: ROUNDS }, 0);
            let [full, bare, raw] = [client, BARE_REQUESTS, RAW]
                .map(|client| bench.children.figures("tool-loop", client, rounds, loops));
            (full, bare, raw)
        };
        bench.clients.iter().map(|client| of(*client)).collect::<Vec<_>>()
    });
    let bound = Some(Bound::Plain { must: 20e3, aim: 10e3 });
    for (name, what, bound) in [("wall", "time", bound), ("processor", "CPU", None)] {
        let what = format!(
            "one tool round in a loop of {ROUNDS}, {what} beyond the bare request, read by the floor"
        );
        let row = bench.row(what, Unit::Time, &runs, |figures, client| {
            let (full, bare, _) = &figures[client];
            full[name] - bare[name]
        });
        bench.add(Row { bound, beside: Some(Beside::Ahead), ..row });
    }
    let what = format!("one tool round in a loop of {ROUNDS}, CPU beyond the bare request, read by nobody");
    let row = bench.row(what, Unit::Time, &runs, |figures, client| {
        let (full, _, raw) = &figures[client];
        full["processor"] - raw["processor"]
    });
    bench.add(Row { beside: Some(Beside::Ahead), ..row });
}

/// Instructions of one round: of all requests, and beyond the same requests with answers that nobody reads.
fn counted_rounds(bench: &mut Bench) {
    if !bench.children.has_valgrind() {
        return;
    }
    let what = "instructions of one tool round, the request included".to_owned();
    let whole = bench.counted(what, Unit::Count, |bench, client| {
        let of = |rounds| bench.children.instructions("read", client, Scenario::ToolRounds { rounds }, 1);
        (of(ROUNDS) - of(0)) / ROUNDS as f64
    });
    let what = "instructions of one tool round, beyond the same requests read by nobody".to_owned();
    let beyond = bench.counted(what, Unit::Count, |bench, client| {
        // The second loop less the first one, because the first one also fetches the requests.
        let of = |rounds| {
            bench.children.figures("tool-loop", client, Scenario::Recorded { rounds }, 0);
            let of = |loops| bench.children.instructions("read", RAW, Scenario::ToolRounds { rounds }, loops);
            of(2) - of(1)
        };
        whole.median_of(client.name).unwrap_or(f64::NAN) - (of(ROUNDS) - of(0)) / ROUNDS as f64
    });
    bench.add(Row { beside: Some(Beside::Ahead), ..whole });
    let bound = Some(Bound::Plain { must: 80e3, aim: 80e3 });
    bench.add(Row { bound, beside: Some(Beside::Ahead), ..beyond });
}

fn held(bench: &mut Bench) {
    let row = bench.measured(
        format!("{STREAMS} turns open at once, resident memory each"),
        Unit::Memory,
        |bench, client| bench.children.figures("held", client, Scenario::Held, STREAMS)["resident"],
    );
    let bound = Some(Bound::Plain { must: 40.0 * KIB, aim: 36.0 * KIB });
    bench.add(Row { bound, beside: Some(Beside::Within(2.0 * KIB)), ..row });
    if bench.children.has_valgrind() {
        let few = STREAMS / 4;
        let row =
            bench.counted("turns open at once, heap of each".to_owned(), Unit::Memory, |bench, client| {
                let of = |count| bench.children.heap("held", client, Scenario::Held, count).bytes;
                (of(STREAMS) - of(few)) / (STREAMS - few) as f64
            });
        bench.add(Row { bound, beside: Some(Beside::Within(2.0 * KIB)), ..row });
    }
}

fn flood(bench: &mut Bench) {
    let bound = Some(Bound::Plain { must: 450.0 * KIB, aim: 64.0 * KIB });
    for (framing, name) in [(Framing::Events, "one event per chunk"), (Framing::Blocks, "64 KiB chunks")] {
        let deltas = if bench.is_quick { FLOOD_DELTAS / 8 } else { FLOOD_DELTAS };
        let scenario = Scenario::Stream { deltas, framing, fields: Fields::Lean };
        let streams = if bench.is_quick { STREAMS / 8 } else { STREAMS };
        let runs = bench.few_runs(|bench| {
            let of = |client| bench.children.figures("flood", client, scenario, streams);
            bench.clients.iter().map(|client| of(*client)).collect::<Vec<_>>()
        });
        let what = format!("flood of {streams} streams at once, {name}, peak of resident memory each");
        let row = bench.row(what, Unit::Memory, &runs, |figures, client| figures[client]["peak"]);
        bench.add(Row { bound, beside: Some(Beside::Within(2.0 * KIB)), ..row });
        let what = format!("flood of {streams} streams at once, {name}, CPU per event");
        let row = bench
            .row(what, Unit::Time, &runs, |figures, client| figures[client]["processor"] / deltas as f64);
        bench.add(Row { beside: Some(Beside::Ahead), ..row });
    }
}

//! What one stream of 100,000 pieces of text costs.

use super::Bench;
use super::script::{Fields, Framing, Scenario};
use super::table::{Beside, Bound, Row, Unit};

/// Pieces of text in the stream whose processor time is measured.
const DELTAS: usize = 100_000;

/// Instructions per event of the floor client on the machine on which the bounds were set. A floor that is
/// further from it than [`FLOOR_TOLERANCE`] is another program, and what is measured by it says nothing.
const FLOOR_INSTRUCTIONS: [(Framing, f64); 2] = [(Framing::Events, 17_000.0), (Framing::Blocks, 109_000.0)];
const FLOOR_TOLERANCE: f64 = 0.15;

/// Takes the measurements of this bench.
pub(crate) fn run(bench: &mut Bench) {
    let times_floor = |must, aim| Some(Bound::TimesFloor { must, aim });
    let plain = |must, aim| Some(Bound::Plain { must, aim });
    let framings = [
        (Framing::Events, "one event per chunk", times_floor(0.75, 0.50), plain(10_000.0, 7_000.0)),
        (Framing::Blocks, "64 KiB chunks", times_floor(0.40, 0.10), plain(7_500.0, 3_200.0)),
    ];
    for (framing, name, bound, _) in framings {
        let row = processor_time(bench, framing, Fields::Lean, format!("CPU per event, {name}"));
        bench.add(Row { bound, beside: Some(Beside::Ahead), ..row });
        let row = processor_time(bench, framing, Fields::Full, format!("CPU per event, {name}, more fields"));
        bench.add(Row { beside: Some(Beside::Ahead), ..row });
    }
    if !bench.children.has_valgrind() {
        return bench
            .note("Valgrind is not installed: no instructions, no allocations, and the floor is unchecked");
    }
    for (framing, name, _, bound) in framings {
        let row =
            slope(bench, framing, format!("instructions per event, {name}"), |bench, client, scenario| {
                bench.children.instructions("read", client, scenario, 1)
            });
        check_floor(bench, framing, &row);
        bench.add(Row { bound, beside: Some(Beside::Ahead), ..row });
    }
    for (framing, name, ..) in framings {
        let row = slope(
            bench,
            framing,
            format!("allocations per text delta, {name}"),
            |bench, client, scenario| bench.children.heap("read", client, scenario, 1).allocations,
        );
        bench.add(Row { bound: plain(2.0, 1.0), beside: Some(Beside::Ahead), ..row });
    }
}

fn processor_time(bench: &Bench, framing: Framing, fields: Fields, what: String) -> Row {
    let deltas = if bench.is_quick { DELTAS / 20 } else { DELTAS };
    let scenario = Scenario::Stream { deltas, framing, fields };
    bench.measured(what, Unit::Time, |bench, client| {
        bench.children.figures("stream", client, scenario, 1)["processor"] / deltas as f64
    })
}

/// By how much a figure grows per event: that of a long stream less that of a short one.
fn slope(
    bench: &Bench,
    framing: Framing,
    what: String,
    figure: impl Fn(&Bench, super::contender::Entry, Scenario) -> f64,
) -> Row {
    let (short, long) = if bench.is_quick { (500, 1_500) } else { (2_000, 10_000) };
    let of =
        |client, deltas| figure(bench, client, Scenario::Stream { deltas, framing, fields: Fields::Lean });
    bench.counted(what, Unit::Count, |_, client| {
        (of(client, long) - of(client, short)) / (long - short) as f64
    })
}

/// Says that the run is void if the floor is not what the bounds were set by.
fn check_floor(bench: &mut Bench, framing: Framing, row: &Row) {
    let Some((_, expected)) = FLOOR_INSTRUCTIONS.iter().find(|(known, _)| *known == framing) else { return };
    let Some(floor) = row.median_of("floor") else { return };
    let off = floor / expected - 1.0;
    let text = format!(
        "{floor:.0} instructions per event of the floor client, expected {expected:.0} ({:+.0} %)",
        off * 100.0
    );
    if cfg!(debug_assertions) {
        bench.note(&format!("{text}: not judged without optimisation"));
    } else if off.abs() <= FLOOR_TOLERANCE {
        bench.note(&format!("{text}: as it should be"));
    } else {
        bench.is_void = true;
        bench.note(&format!("{text}: THIS RUN IS VOID"));
    }
}

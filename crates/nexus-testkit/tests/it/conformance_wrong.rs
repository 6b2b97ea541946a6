//! Each case of the suite catches the backend that breaks its promise, and says so in its own words.
//!
//! Every row is the reference backend with one thing wrong, the case that must fail, and the check that must
//! say it. A case without a row fails the suite's own test.

mod rows;
mod tool_rows;
mod wrong;

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use nexus_testkit::conformance::{CASES, Outcome, run_case};
use rows::{Row, contract, promises};
use wrong::WrongSubject;

/// Rows tried at once: most of them wait.
const AT_ONCE: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_broken_promise_is_found_for_its_own_reason() {
    are_found(promises()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_holds_for_every_turn_is_held_against_every_turn() {
    are_found(contract()).await;
}

#[test]
fn every_case_has_a_backend_that_breaks_it() {
    let broken: BTreeSet<_> = promises().iter().map(|row| row.case).collect();
    let cases: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(broken, cases);
}

async fn are_found(rows: Vec<Row>) {
    let verdicts = stream::iter(rows).map(try_row).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let complaints: Vec<_> = verdicts.into_iter().flatten().collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What is the matter with the row, if anything is.
async fn try_row(row: Row) -> Option<String> {
    let (case, check) = (row.case, row.check);
    let subject = WrongSubject { wrong: row.wrong, hangs: check == "bounded time" };
    match run_case(&subject, case).await {
        Ok(Outcome::Failed(finding)) if finding.check == check => None,
        Ok(Outcome::Failed(finding)) => Some(format!("{case}: wanted {check:?}, found {finding}")),
        other => Some(format!("{case}: wanted {check:?}, and it ended with {other:?}")),
    }
}

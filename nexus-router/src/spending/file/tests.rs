use std::{
    sync::atomic::AtomicU64,
    time::{Duration, UNIX_EPOCH},
};

use nexus_core::{Cost, CostSource, Usage, Usd};

use super::*;
use crate::spending::{BudgetPeriod, BudgetSubject, CostOrigin};

/// A clock that a test sets, in seconds.
#[derive(Debug)]
struct SetClock(AtomicU64);

impl SetClock {
    fn at(text: &str) -> Arc<Self> {
        let clock = Self(AtomicU64::new(0));
        clock.set(text);
        Arc::new(clock)
    }

    fn set(&self, text: &str) {
        let time = nexus_files::rfc3339::parse(text).unwrap();
        self.0.store(time.duration_since(UNIX_EPOCH).unwrap().as_secs(), Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

fn turn(kind: &str) -> PlannedTurn {
    PlannedTurn::new("alpha".into(), kind)
}

fn budget(usd: f64) -> SpendingBudget {
    SpendingBudget { usd: Some(Usd(usd)), line: 7, ..SpendingBudget::new("all", BudgetPeriod::Day) }
}

fn spent(usd: Option<f64>, tokens: u64) -> SpendingEnd {
    let mut usage = Usage::new();
    usage.output_tokens = Some(tokens);
    let cost = usd.map(|usd| Cost { usd: Usd(usd), source: CostSource::Reported });
    SpendingEnd::new("ok", usage, cost, Duration::from_secs(1))
}

fn book(folder: &Path) -> FileSpendingBook {
    FileSpendingBook::in_folder(folder.join("spending"))
}

async fn run(book: &FileSpendingBook, turn: PlannedTurn, budgets: &[SpendingBudget], end: SpendingEnd) {
    let entry = book.begin(turn, budgets).await.unwrap();
    book.end(entry, end).await;
}

fn all(book: &FileSpendingBook) -> Vec<SpendingLine> {
    book.lines_since(UNIX_EPOCH).unwrap()
}

#[tokio::test]
async fn a_turn_leaves_one_line_and_no_reservation() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    let mut planned = turn("writer");
    planned.task = Some("t1".to_owned());
    run(&book, planned.clone(), &[], spent(Some(0.25), 10)).await;
    run(&book, turn("reader"), &[], spent(None, 5)).await;
    let lines = all(&book);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].turn, planned);
    assert_eq!((lines[0].usd, lines[0].cost_source), (Some(0.25), Some(CostOrigin::Vendor)));
    assert_eq!((lines[1].usd, lines[1].tokens()), (None, Some(5)));
    assert_eq!(fs::read_dir(home.path().join("spending/running")).unwrap().count(), 0);
    // An unknown cost is stored as null.
    let text = fs::read_to_string(home.path().join("spending/log.jsonl")).unwrap();
    assert!(text.lines().nth(1).unwrap().contains(r#""usd":null"#), "{text}");
}

#[tokio::test]
async fn a_home_without_a_log_has_no_lines_and_stays_unchanged() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(all(&book(home.path())), []);
    assert!(!home.path().join("spending").exists());
}

#[tokio::test]
async fn a_budget_refuses_the_turn_that_does_not_fit_and_begins_again_the_next_day() {
    let home = tempfile::tempdir().unwrap();
    let clock = SetClock::at("2026-11-30T12:00:00Z");
    let book =
        FileSpendingBook::with_clock(home.path().join("spending"), Arc::clone(&clock) as Arc<dyn Clock>);
    let budgets = [budget(1.0)];
    run(&book, turn("writer"), &budgets, spent(Some(0.4), 1)).await;
    run(&book, turn("writer"), &budgets, spent(Some(0.4), 1)).await;
    let refusal = book.begin(turn("writer"), &budgets).await.unwrap_err();
    let begins = "budgets.all (line 7 of the configuration) allows $1.00 in a day: $0.8000 are spent, running turns \
                  reserve $0.0000, and this turn is expected to cost $0.4000; it begins again at 2026-";
    assert!(refusal.message.starts_with(begins), "{}", refusal.message);
    // A turn of a type without a record starts as long as something is left.
    run(&book, turn("reader"), &budgets, spent(Some(0.2), 1)).await;
    assert!(book.begin(turn("other"), &budgets).await.is_err());
    // The day ends within 24 hours, whatever the time zone of the test.
    let until = refusal.until.unwrap();
    assert!(until > clock.now() && until <= clock.now() + Duration::from_hours(25));
    clock.set("2026-12-01T23:59:59Z");
    run(&book, turn("writer"), &budgets, spent(Some(0.4), 1)).await;
    // A clock that is set back does not empty the budget.
    clock.set("2026-12-01T11:00:00Z");
    run(&book, turn("writer"), &budgets, spent(Some(0.4), 1)).await;
    assert!(book.begin(turn("writer"), &budgets).await.is_err());
}

#[tokio::test]
async fn running_turns_reserve_and_a_cancelled_one_reserves_no_more() {
    let home = tempfile::tempdir().unwrap();
    let (one, other) = (book(home.path()), book(home.path()));
    let budgets = [budget(1.0)];
    run(&one, turn("writer"), &budgets, spent(Some(0.4), 1)).await;
    let running = one.begin(turn("writer"), &budgets).await.unwrap();
    let refusal = other.begin(turn("writer"), &budgets).await.unwrap_err();
    assert!(refusal.message.contains("running turns reserve $0.4000"), "{}", refusal.message);
    one.cancel(running).await;
    let running = other.begin(turn("writer"), &budgets).await.unwrap();
    other.end(running, spent(Some(0.1), 1)).await;
    assert_eq!(all(&one).len(), 2);
}

#[tokio::test]
async fn a_dropped_turn_is_lost_and_counts_with_its_reservation() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    let budgets = [budget(1.0)];
    run(&book, turn("writer"), &budgets, spent(Some(0.5), 1)).await;
    drop(book.begin(turn("writer"), &budgets).await.unwrap());
    assert!(book.begin(turn("writer"), &budgets).await.is_err());
    let lines = all(&book);
    assert_eq!((lines.len(), lines[1].outcome.as_str(), lines[1].usd), (2, "lost", None));
    assert_eq!(lines[1].reserved.unwrap().usd, Some(Usd(0.5)));
    assert_eq!(all(&book).len(), 2);
}

#[tokio::test]
async fn a_turn_whose_line_was_written_before_its_process_died_counts_once() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    let entry = book.begin(turn("writer"), &[]).await.unwrap();
    let file = book.0.reservation(entry.id());
    let content = fs::read(&file).unwrap();
    book.end(entry, spent(Some(0.5), 1)).await;
    fs::write(&file, content).unwrap();
    assert_eq!(all(&book).len(), 1);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_torn_last_line_costs_no_other_line() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    run(&book, turn("writer"), &[], spent(Some(0.5), 1)).await;
    let path = home.path().join("spending/log.jsonl");
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(br#"{"id":"torn","time":"2026"#);
    fs::write(&path, text).unwrap();
    assert_eq!(all(&book).len(), 1);
    run(&book, turn("writer"), &[budget(2.0)], spent(Some(0.5), 1)).await;
    assert_eq!(all(&book).len(), 2);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_fails_no_turn_and_its_lines_follow_later() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    run(&book, turn("writer"), &[], spent(Some(0.5), 1)).await;
    let log = home.path().join("spending/log.jsonl");
    let moved = home.path().join("moved");
    fs::rename(&log, &moved).unwrap();
    fs::create_dir(&log).unwrap();
    run(&book, turn("writer"), &[], spent(Some(0.25), 1)).await;
    // A budget that cannot be checked starts no turn.
    let refusal = book.begin(turn("writer"), &[budget(2.0)]).await.unwrap_err();
    assert!(
        refusal.message.contains("budgets.all (line 7 of the configuration) cannot be checked"),
        "{refusal:?}"
    );
    fs::remove_dir(&log).unwrap();
    fs::rename(&moved, &log).unwrap();
    run(&book, turn("writer"), &[], spent(Some(0.125), 1)).await;
    let costs: Vec<_> = all(&book).iter().map(|line| line.usd).collect();
    assert_eq!(costs, [Some(0.5), Some(0.25), Some(0.125)]);
}

#[tokio::test]
async fn each_value_has_a_budget_of_its_own_and_turns_without_one_do_not_count() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    let of_agent = |name: &str| PlannedTurn { agent: Some(name.to_owned()), ..turn("writer") };
    let guard = SpendingBudget {
        each: Some(BudgetSubject::Agent),
        turns: Some(2),
        ..SpendingBudget::new("runaway", BudgetPeriod::Month)
    };
    let budgets = [guard];
    for _ in 0..2 {
        run(&book, of_agent("clerk"), &budgets, spent(None, 1)).await;
    }
    let refusal = book.begin(of_agent("clerk"), &budgets).await.unwrap_err();
    assert!(
        refusal.message.contains("allows 2 turns in a month for each agent: 2 ended, and 0 run"),
        "{refusal:?}"
    );
    assert!(!refusal.is_of_backend);
    run(&book, of_agent("lead"), &budgets, spent(None, 1)).await;
    run(&book, turn("writer"), &budgets, spent(None, 1)).await;
}

#[tokio::test]
async fn tokens_count_where_no_cost_is_known() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    let of_backend = SpendingBudget {
        only: vec![(BudgetSubject::Backend, "alpha".to_owned())],
        tokens: Some(100),
        ..budget(0.01)
    };
    let budgets = [of_backend];
    run(&book, turn("writer"), &budgets, spent(None, 60)).await;
    let refusal = book.begin(turn("writer"), &budgets).await.unwrap_err();
    assert!(refusal.message.contains("allows 100 tokens in a day: 60 are used"), "{refusal:?}");
    assert!(refusal.is_of_backend);
    let beta = PlannedTurn::new("beta".into(), "writer");
    run(&book, beta, &budgets, spent(Some(5.0), 500)).await;
}

#[tokio::test]
async fn lost_turns_without_a_record_use_up_no_budget() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    for _ in 0..12 {
        drop(book.begin(turn("writer"), &[]).await.unwrap());
    }
    run(&book, turn("writer"), &[budget(1.0)], spent(Some(0.4), 1)).await;
    let lines = all(&book);
    assert_eq!(lines.iter().filter(|line| line.outcome == "lost").count(), 12);
    // They have the time at which they began, and are recorded without any budget.
    let home = tempfile::tempdir().unwrap();
    let clock = SetClock::at("2026-10-01T12:00:00Z");
    let book =
        FileSpendingBook::with_clock(home.path().join("spending"), Arc::clone(&clock) as Arc<dyn Clock>);
    drop(book.begin(turn("writer"), &[]).await.unwrap());
    clock.set("2026-11-30T12:00:00Z");
    run(&book, turn("writer"), &[], spent(Some(0.4), 1)).await;
    let lost = all(&book).into_iter().find(|line| line.outcome == "lost").unwrap();
    assert_eq!(lost.time, nexus_files::rfc3339::parse("2026-10-01T12:00:00Z").unwrap());
    assert_eq!(fs::read_dir(home.path().join("spending/running")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_turn_under_a_wrong_clock_hides_no_other_turn() {
    let home = tempfile::tempdir().unwrap();
    let clock = SetClock::at("2026-11-30T12:00:00Z");
    let book =
        FileSpendingBook::with_clock(home.path().join("spending"), Arc::clone(&clock) as Arc<dyn Clock>);
    let budgets = [budget(1.0)];
    run(&book, turn("writer"), &budgets, spent(Some(0.8), 1)).await;
    clock.set("2020-01-01T00:00:00Z");
    run(&book, turn("writer"), &[], spent(Some(0.1), 1)).await;
    clock.set("2026-11-30T12:01:00Z");
    assert!(book.begin(turn("writer"), &budgets).await.is_err());
}

#[tokio::test]
async fn values_of_a_later_version_and_costs_below_zero_leave_the_rest_of_a_line() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    run(&book, turn("writer"), &[], spent(Some(0.8), 1)).await;
    let path = home.path().join("spending/log.jsonl");
    let line = fs::read_to_string(&path).unwrap();
    let later =
        line.replace("\"vendor\",", "\"invoice\",").replace("\"billing\":null", "\"billing\":\"credits\"");
    assert_ne!(later, line);
    fs::write(&path, later + &line.replace("\"usd\":0.8", "\"usd\":-1e9")).unwrap();
    let costs: Vec<_> = all(&book).iter().map(|line| (line.usd, line.cost_source)).collect();
    assert_eq!(costs, [(Some(0.8), None), (None, Some(CostOrigin::Vendor))]);
    assert!(book.begin(turn("writer"), &[budget(1.0)]).await.is_err());
}

#[tokio::test]
async fn a_process_that_holds_the_book_delays_no_turn_without_a_budget_and_costs_no_line() {
    let home = tempfile::tempdir().unwrap();
    let book = book(home.path());
    run(&book, turn("writer"), &[], spent(Some(0.5), 1)).await;
    let held = book.0.lock(PATIENCE).unwrap();
    let began = std::time::Instant::now();
    let entry = book.begin(turn("writer"), &[]).await.unwrap();
    book.end(entry, spent(Some(0.25), 1)).await;
    assert!(began.elapsed() < PATIENCE, "the turn waited for the other process");
    drop(held);
    drop(book);
    let costs: Vec<_> = all(&FileSpendingBook::in_folder(home.path().join("spending")))
        .iter()
        .map(|line| (line.outcome.clone(), line.usd))
        .collect();
    assert_eq!(costs, [("ok".to_owned(), Some(0.5)), ("ok".to_owned(), Some(0.25))]);
}

#[test]
fn reservations_that_are_given_back_meanwhile_are_neither_lost_nor_an_error() {
    let home = tempfile::tempdir().unwrap();
    let (book, other) = (book(home.path()), book(home.path()));
    std::thread::scope(|scope| {
        let begun = scope.spawn(|| {
            for _ in 0..300 {
                let entry = book.0.begin(turn("writer"), &[]).unwrap();
                book.0.cancel(entry);
            }
        });
        while !begun.is_finished() {
            let _lock = other.0.lock(PATIENCE).unwrap();
            other.0.running().unwrap();
        }
        begun.join().unwrap();
    });
    assert_eq!(all(&other), []);
}

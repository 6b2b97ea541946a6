//! A book of spending in a folder that all processes of a machine share.
//!
//! `log.jsonl` has a line for each ended turn. A file in `running/` is the reservation of a turn that runs, and its process locks it.
//! The system releases the lock when the process dies, so the next user of the book finds the file unlocked and records the turn as
//! lost. Every change locks `.lock`.

use std::{
    cell::Cell,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use chrono::{DateTime, Local};
use nexus_core::{Clock, SystemClock, harness::run_blocking};
use nexus_files::{FileLock, JsonLinesLog, counted, make_private_folder, random_name, read_bounded, replace};
use serde::{Deserialize, Serialize};

use super::{
    book::{SpendingBook, SpendingEnd, SpendingEntry, SpendingRefusal},
    budget::{BudgetPeriod, SpendingBudget},
    estimate::estimate,
    line::{PlannedTurn, SpendingAmount, SpendingLine},
    period::period_at,
};

/// Longest line of the log, in bytes. The texts of a line are short.
const MAX_LINE_BYTES: u64 = 16 << 10;
/// Largest log, in bytes: some 300,000 turns. The older half of a larger one is dropped.
const MAX_LOG_BYTES: u64 = 128 << 20;
/// Largest reservation that is read, in bytes.
const MAX_RESERVATION_BYTES: u64 = 16 << 10;
/// Longest wait of a turn with a budget for other processes that use the book. Each of them may read the whole log.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for the lock after a turn. The line is then left for the next process that uses the book.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// Maximum number of lines that wait in memory until the log can be written. Each has an open file.
const MAX_UNSAVED: usize = 100;
/// Number of older lines in a row after which no newer one is expected before them. A clock that was wrong for some turns writes a few
/// old lines among new ones.
const OLDER_LINES: usize = 1_000;
/// Longest jump of a clock after which older lines are still found.
const JUMP: Duration = Duration::from_hours(48);
/// Longest time by which a line can be in the future and still count, because the clock was set back.
const FUTURE: Duration = Duration::from_hours(24);
/// Error that sums of dollars can have.
const ROUNDING: f64 = 1e-9;
/// Part of a budget that a turn without a record reserves.
const GUESS: u32 = 10;

/// Records spending in a folder that all processes of a machine can share. Clones share this process's state.
///
/// A line that cannot be written does not fail a turn: the process logs a warning, counts the line in its budgets, and writes it with
/// the next one. The folder is created at the first turn. Only its owner may read its files.
#[derive(Clone, Debug)]
pub struct FileSpendingBook(Arc<BookFolder>);

#[derive(Debug)]
struct BookFolder {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    /// Lines that could not be written yet.
    unsaved: Mutex<Vec<UnsavedLine>>,
    /// True if the unusable folder was already reported.
    has_warned: AtomicBool,
}

/// A line that could not be written. Its reservation stays locked, so that the turn counts as lost if this process ends first.
#[derive(Debug)]
struct UnsavedLine {
    line: SpendingLine,
    entry: SpendingEntry,
}

/// Content of a file in `running/`.
#[derive(Debug, Serialize, Deserialize)]
struct TurnReservation {
    turn: PlannedTurn,
    reserved: SpendingAmount,
    #[serde(with = "nexus_files::rfc3339::as_millis")]
    began: SystemTime,
    /// Line of the ended turn, if its process could not lock the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<SpendingLine>,
}

/// Use of a budget: by ended turns, and by turns that run.
#[derive(Clone, Copy, Debug, Default)]
struct BudgetUse {
    usd: f64,
    tokens: u64,
    turns: u64,
}

impl FileSpendingBook {
    /// Uses this folder, which the first turn creates.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::with_clock(folder, Arc::new(SystemClock))
    }

    /// Uses this folder, with another clock than that of the machine.
    pub fn with_clock(folder: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(BookFolder {
            folder: folder.into(),
            clock,
            unsaved: Mutex::default(),
            has_warned: AtomicBool::new(false),
        }))
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Returns the ended turns since a time, the oldest first, and records turns whose process died. A missing log is empty.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn lines_since(&self, since: SystemTime) -> io::Result<Vec<SpendingLine>> {
        let book = &self.0;
        if book.folder.join("running").exists() {
            // A reader without the right to write still gets the lines.
            if let Ok(_lock) = book.lock(END_PATIENCE) {
                let _ = book.running();
            }
        }
        let mut lines = book.read_since(since)?;
        lines.retain(|line| line.time >= since);
        Ok(lines)
    }
}

#[async_trait]
impl SpendingBook for FileSpendingBook {
    async fn begin(
        &self,
        turn: PlannedTurn,
        budgets: &[SpendingBudget],
    ) -> Result<SpendingEntry, SpendingRefusal> {
        let budgets: Vec<_> = budgets.iter().filter(|budget| budget.applies_to(&turn)).cloned().collect();
        let book = Arc::clone(&self.0);
        let begun = run_blocking(move || book.begin(turn, &budgets)).await;
        begun.unwrap_or_else(|_| {
            Err(SpendingRefusal::new("the work on the spending log was interrupted", None))
        })
    }

    async fn cancel(&self, entry: SpendingEntry) {
        let book = Arc::clone(&self.0);
        let _ = run_blocking(move || book.cancel(entry)).await;
    }

    async fn end(&self, entry: SpendingEntry, end: SpendingEnd) {
        let book = Arc::clone(&self.0);
        // If the runtime shuts down, the next user of the book records the turn as lost.
        let _ = run_blocking(move || book.end(entry, end)).await;
    }
}

impl BookFolder {
    fn begin(&self, turn: PlannedTurn, budgets: &[SpendingBudget]) -> Result<SpendingEntry, SpendingRefusal> {
        let id = random_name();
        // A turn without a budget has nothing to check, so it does not wait for other processes.
        let (lock, reserved) = match budgets.first() {
            None => (None, SpendingAmount::default()),
            Some(first) => {
                let uncheckable = |error| self.uncheckable(first, &error);
                let lock = self.lock(PATIENCE).map_err(uncheckable)?;
                (Some(lock), self.check(&turn, budgets).map_err(uncheckable)??)
            }
        };
        let began = self.clock.now();
        let guard = self.reserve(&id, &TurnReservation { turn: turn.clone(), reserved, began, ended: None });
        drop(lock);
        match guard {
            Ok(guard) => Ok(SpendingEntry::new(id, turn, guard)),
            Err(error) => match budgets.first() {
                Some(first) => Err(self.uncheckable(first, &error)),
                None => {
                    self.warn(&error);
                    Ok(SpendingEntry::new(id, turn, ()))
                }
            },
        }
    }

    /// Returns the amount to reserve for a turn, or the refusal of a budget.
    fn check(
        &self,
        turn: &PlannedTurn,
        budgets: &[SpendingBudget],
    ) -> io::Result<Result<SpendingAmount, SpendingRefusal>> {
        let now = self.clock.now();
        let running = self.running()?;
        let periods: Vec<_> = budgets.iter().map(|budget| period_at(budget.period, now, &Local)).collect();
        let first = periods.iter().map(|period| period.start).min().unwrap_or(now);
        let lines = self.read_since(first)?;
        let expected = estimate(&lines, turn);
        for (budget, period) in budgets.iter().zip(periods) {
            let last = period.end.max(now + FUTURE);
            let counts = |line: &&SpendingLine| {
                (period.start..last).contains(&line.time) && budget.counts_with(turn, &line.turn)
            };
            let mut spent = BudgetUse::default();
            lines.iter().filter(counts).for_each(|line| spent.add_line(line));
            let mut reserved = BudgetUse::default();
            let beside = running.iter().filter(|other| budget.counts_with(turn, &other.turn));
            beside.for_each(|other| reserved.add_reserved(other.reserved, budget));
            if let Some(reason) = excess(budget, spent, reserved, expected) {
                let end: DateTime<Local> = period.end.into();
                let message = format!(
                    "{budget} {reason}; it begins again at {}: wait until then, or raise the budget",
                    end.format("%Y-%m-%d %H:%M %:z")
                );
                let mut refusal = SpendingRefusal::new(message, Some(period.end));
                refusal.is_of_backend = budget.is_of_backend();
                return Ok(Err(refusal));
            }
        }
        Ok(Ok(expected))
    }

    /// Writes the reservation of a turn, and returns its lock.
    fn reserve(&self, id: &str, reservation: &TurnReservation) -> io::Result<FileLock> {
        let path = self.reservation(id);
        make_private_folder(&self.folder)?;
        make_private_folder(&self.folder.join("running"))?;
        // Locked before it has the name by which other processes find it: they take an unlocked one for that of a dead process.
        let new = path.with_extension("new");
        let locked = replace(&new, &serde_json::to_vec(reservation)?).and_then(|()| FileLock::try_lock(&new));
        let locked = locked.and_then(|lock| {
            let lock =
                lock.ok_or_else(|| io::Error::other("another process has locked a new reservation"))?;
            fs::rename(&new, &path)?;
            Ok(lock)
        });
        if locked.is_err() {
            let _ = fs::remove_file(&new);
        }
        locked
    }

    fn cancel(&self, entry: SpendingEntry) {
        // The file is removed before its lock is released, so no other process takes it for that of a dead process.
        let _ = fs::remove_file(self.reservation(&entry.id));
        drop(entry);
    }

    fn end(&self, entry: SpendingEntry, end: SpendingEnd) {
        let mut turn = entry.turn.clone();
        if end.model.is_some() {
            turn.model = end.model;
        }
        let now = self.clock.now();
        let line =
            SpendingLine::new(entry.id.clone(), now, turn, end.outcome, &end.usage, end.cost, end.duration);
        match self.lock(END_PATIENCE) {
            Ok(_lock) => {
                self.remember(UnsavedLine { line, entry });
                // Turns of dead processes are recorded now, since no budget may ever ask for them.
                if let Err(error) = self.save().and_then(|()| self.running().map(drop)) {
                    self.warn(&error);
                }
            }
            Err(error) => {
                let path = self.reservation(&entry.id);
                let (turn, reserved) = (entry.turn.clone(), SpendingAmount::default());
                let left = TurnReservation { turn, reserved, began: now, ended: Some(line.clone()) };
                // The next process that locks the book finds this file unlocked, and appends its line.
                let is_left = path.is_file()
                    && serde_json::to_vec(&left).is_ok_and(|left| replace(&path, &left).is_ok());
                if !is_left {
                    self.remember(UnsavedLine { line, entry });
                    self.warn(&error);
                }
            }
        }
    }

    /// Appends the lines in memory. The caller has the lock.
    fn save(&self) -> io::Result<()> {
        let mut unsaved = self.unsaved();
        while let Some(UnsavedLine { line, entry }) = unsaved.first() {
            match self.log().append(line) {
                // This line can never be written. It must not keep the others from the log.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.warn(&error),
                appended => drop(appended?),
            }
            // Remove the reservation after its line is written. After a crash in between, `lose` finds the
            // line by its id.
            let _ = fs::remove_file(self.reservation(&entry.id));
            unsaved.remove(0);
        }
        drop(unsaved);
        self.has_warned.store(false, Ordering::Relaxed);
        self.shorten()
    }

    /// Drops the older half of a log that is too large. The caller has the lock.
    fn shorten(&self) -> io::Result<()> {
        self.log().drop_older_half_above(MAX_LOG_BYTES)
    }

    fn remember(&self, line: UnsavedLine) {
        let mut unsaved = self.unsaved();
        if unsaved.len() >= MAX_UNSAVED {
            unsaved.remove(0);
        }
        unsaved.push(line);
    }

    /// Returns the reservations of turns that run, and records turns whose process died. The caller has the lock.
    fn running(&self) -> io::Result<Vec<TurnReservation>> {
        let entries = match fs::read_dir(self.folder.join("running")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut running = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let Some(id) = path.file_stem().and_then(|stem| stem.to_str()).map(ToOwned::to_owned) else {
                continue;
            };
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            // Check the lock before the content: the file of a turn that has ended changes no more.
            let is_running = FileLock::is_locked(&path)?;
            let content = read_bounded(&path, MAX_RESERVATION_BYTES).unwrap_or_default();
            let reservation =
                content.and_then(|bytes| serde_json::from_slice::<TurnReservation>(&bytes).ok());
            match (reservation, is_running) {
                // The line in memory counts in its place.
                (Some(_), true) if self.is_unsaved(&id) => {}
                (Some(reservation), true) => running.push(reservation),
                (Some(reservation), false) => self.lose(id, reservation)?,
                (None, true) => {}
                // A turn that does not run removes its reservation without the lock of the book.
                (None, false) => match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                },
            }
        }
        Ok(running)
    }

    /// Records a turn whose process died, unless that process wrote its line first. The line has the time at which the turn began, because
    /// its end is unknown.
    fn lose(&self, id: String, reservation: TurnReservation) -> io::Result<()> {
        let path = self.reservation(&id);
        let TurnReservation { turn, reserved, began, ended } = reservation;
        let found = self.log().read_back_to(older_than(began, Some(&id)))?;
        if found.iter().all(|line| line.id != id) {
            let line = ended.unwrap_or_else(|| SpendingLine::lost(id, began, turn, reserved));
            self.log().append(&line)?;
            self.shorten()?;
        }
        // Remove the file last: after a crash in between, the search by id prevents a second line.
        fs::remove_file(path)
    }

    /// Returns the lines since a time, and perhaps some before it.
    fn read_since(&self, since: SystemTime) -> io::Result<Vec<SpendingLine>> {
        let mut lines = self.log().read_back_to(older_than(since, None))?;
        lines.extend(self.unsaved().iter().map(|unsaved| unsaved.line.clone()));
        Ok(lines)
    }

    fn log(&self) -> JsonLinesLog<SpendingLine> {
        JsonLinesLog::at(self.folder.join("log.jsonl"), MAX_LINE_BYTES)
    }

    fn reservation(&self, id: &str) -> PathBuf {
        self.folder.join("running").join(format!("{id}.json"))
    }

    fn lock(&self, patience: Duration) -> io::Result<FileLock> {
        make_private_folder(&self.folder)?;
        FileLock::lock(&self.folder.join(".lock"), patience)?.ok_or_else(|| {
            let seconds = patience.as_secs();
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("another process locked it for {seconds} seconds"),
            )
        })
    }

    fn is_unsaved(&self, id: &str) -> bool {
        self.unsaved().iter().any(|unsaved| unsaved.line.id == id)
    }

    fn unsaved(&self) -> MutexGuard<'_, Vec<UnsavedLine>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uncheckable(&self, budget: &SpendingBudget, error: &io::Error) -> SpendingRefusal {
        let folder = self.folder.display();
        SpendingRefusal::new(format!("{budget} cannot be checked: {folder}: {error}"), None)
    }

    /// Reports that the folder is not usable, once until it is usable again.
    fn warn(&self, error: &io::Error) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                folder = %self.folder.display(),
                %error,
                "the spending of turns cannot be recorded; the lines stay in memory until the folder is writable"
            );
        }
    }
}

impl BudgetUse {
    fn add_line(&mut self, line: &SpendingLine) {
        // Of a lost turn only the reservation is known. A guess of a part of the budget would use up a budget of any size by ten of them.
        let reserved = line.reserved.unwrap_or_default();
        self.usd += line.usd.or(reserved.usd.map(|usd| usd.0)).unwrap_or_default();
        self.tokens = self.tokens.saturating_add(line.tokens().or(reserved.tokens).unwrap_or_default());
        self.turns += 1;
    }

    /// Adds a running turn. A turn without a record reserves a part of the budget.
    fn add_reserved(&mut self, reserved: SpendingAmount, budget: &SpendingBudget) {
        let guessed_usd = budget.usd.map(|usd| usd.0 / f64::from(GUESS));
        let guessed_tokens = budget.tokens.map(|tokens| (tokens / u64::from(GUESS)).max(1));
        self.usd += reserved.usd.map(|usd| usd.0).or(guessed_usd).unwrap_or_default();
        self.tokens = self.tokens.saturating_add(reserved.tokens.or(guessed_tokens).unwrap_or_default());
        self.turns += 1;
    }
}

/// Returns the rule that ends the reading of a log, from its newest line: at the line of `id`, or behind many lines from before `since`.
fn older_than(since: SystemTime, id: Option<&str>) -> impl Fn(&SpendingLine) -> bool {
    let earlier = since.checked_sub(JUMP).unwrap_or(SystemTime::UNIX_EPOCH);
    let older = Cell::new(0_usize);
    move |line| {
        older.set(if line.time < earlier { older.get() + 1 } else { 0 });
        older.get() >= OLDER_LINES || id == Some(line.id.as_str())
    }
}

/// Returns the reason why another turn does not fit into a budget. A turn with a record must fit as a whole; for another one, something
/// must be left.
fn excess(
    budget: &SpendingBudget,
    spent: BudgetUse,
    reserved: BudgetUse,
    expected: SpendingAmount,
) -> Option<String> {
    let period = match budget.period {
        BudgetPeriod::Hour => "an hour",
        BudgetPeriod::Day => "a day",
        BudgetPeriod::Month => "a month",
    };
    let each = budget.each.map(|each| format!(" for each {}", each.as_str())).unwrap_or_default();
    if let Some(most) = budget.usd.map(|usd| usd.0) {
        let expected = expected.usd.map_or(0.0, |usd| usd.0);
        let used = spent.usd + reserved.usd;
        if used + ROUNDING >= most || used + expected > most + ROUNDING {
            return Some(format!(
                "allows ${most:.2} in {period}{each}: ${:.4} are spent, running turns reserve ${:.4}, and this turn is \
                 expected to cost ${expected:.4}",
                spent.usd, reserved.usd
            ));
        }
    }
    if let Some(most) = budget.tokens {
        let expected = expected.tokens.unwrap_or_default();
        let used = spent.tokens.saturating_add(reserved.tokens);
        if used >= most || used.saturating_add(expected) > most {
            return Some(format!(
                "allows {most} tokens in {period}{each}: {} are used, running turns reserve {}, and this turn is expected \
                 to use {expected}",
                spent.tokens, reserved.tokens
            ));
        }
    }
    let most = budget.turns?;
    let used = spent.turns + reserved.turns;
    (used >= most).then(|| {
        let turns = counted(most, "turn");
        format!("allows {turns} in {period}{each}: {} ended, and {} run", spent.turns, reserved.turns)
    })
}

#[cfg(test)]
mod tests;

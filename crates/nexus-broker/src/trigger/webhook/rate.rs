//! Rate limits of requests.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::super::document::TriggerId;

/// A token bucket: allows a number of requests in a period, at once or spread. Used tokens come back evenly.
#[derive(Debug)]
pub(super) struct RateLimit {
    left: f64,
    at: Instant,
}

impl RateLimit {
    /// Creates an unused limit.
    pub(super) fn new(burst: u32) -> Self {
        Self { left: f64::from(burst), at: Instant::now() }
    }

    /// Takes one of `burst` tokens per `period`. The error is the time until the next token is free.
    pub(super) fn take(&mut self, burst: u32, period: Duration) -> Result<(), Duration> {
        let now = Instant::now();
        let per_second = f64::from(burst) / period.as_secs_f64();
        let back = now.duration_since(self.at).as_secs_f64() * per_second;
        self.left = (self.left + back).min(f64::from(burst));
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.left) / per_second))
    }
}

/// The limits of all triggers.
#[derive(Debug, Default)]
pub(super) struct TriggerRates(Mutex<HashMap<TriggerId, RateLimit>>);

impl TriggerRates {
    /// Takes one of `per_minute` tokens of a trigger. Call it only for existing triggers: their number bounds the memory
    /// that this uses.
    pub(super) fn take(&self, id: &TriggerId, per_minute: u32) -> Result<(), Duration> {
        let mut rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rates.len() > 10_000 {
            rates.clear();
        }
        let rate = rates.entry(id.clone()).or_insert_with(|| RateLimit::new(per_minute));
        rate.take(per_minute, Duration::from_secs(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_used_comes_back_evenly() {
        let minute = Duration::from_secs(60);
        let mut rate = RateLimit::new(6);
        for _ in 0..6 {
            rate.take(6, minute).unwrap();
        }
        let wait = rate.take(6, minute).unwrap_err();
        assert!(wait > Duration::from_secs(9) && wait <= Duration::from_secs(10), "{wait:?}");
        tokio::time::advance(Duration::from_secs(11)).await;
        rate.take(6, minute).unwrap();
        rate.take(6, minute).unwrap_err();
        tokio::time::advance(minute * 60).await;
        for _ in 0..6 {
            rate.take(6, minute).unwrap();
        }
        rate.take(6, minute).unwrap_err();
    }
}

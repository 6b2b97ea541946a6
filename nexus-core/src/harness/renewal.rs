//! Renewal of a credential that the vendor refuses, once per turn.

use std::time::Duration;

use super::TurnLog;
use crate::{Credential, CredentialError, CredentialSource, ErrorKind, turn::Retrying};

/// Requests one replacement for a refused credential per turn, for loops of both kinds. A second refusal is
/// final.
///
/// A native loop repeats the refused request. A program with its own loop is started again, if its turn had no
/// effect so far. Both report the renewal with [`TurnLog::renewed`].
#[derive(Debug, Default)]
pub struct Renewal {
    is_spent: bool,
}

impl Renewal {
    /// Returns a replacement for `refused` that is valid for `life`. Returns `None` if the source has no other
    /// credential, as for an API key, or this turn already requested one.
    ///
    /// # Errors
    ///
    /// Errors of [`CredentialSource::renewed`].
    pub async fn replace(
        &mut self,
        source: &dyn CredentialSource,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        // Spend the renewal before the request, so that a source that fails is not called again in this turn.
        if std::mem::replace(&mut self.is_spent, true) {
            return Ok(None);
        }
        let renewed = source.renewed(refused, life).await?;
        // A source without another credential returns the same token, and the vendor would refuse it again.
        Ok(renewed.filter(|renewed| renewed.token != refused.token))
    }
}

impl TurnLog {
    /// Reports the `attempt`-th request to the model, with another credential of `place` after the message
    /// `refusal`. From now on this refusal no longer explains a later failure.
    pub fn renewed(&mut self, attempt: u32, place: &str, refusal: &str) {
        let reason = format!("{refusal}; another credential of {place} is used");
        let retrying = Retrying::new(attempt, reason)
            .with_delay(Some(Duration::ZERO))
            .with_kind(Some(ErrorKind::Unauthenticated));
        self.event(retrying);
        // Reset after the event, because `event` has just recorded the refusal as the cause.
        self.retry_cause = super::RetryCause::default();
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::{Secret, Standing};

    /// Has this token instead of any other.
    #[derive(Debug)]
    struct Always(&'static str);

    #[async_trait]
    impl CredentialSource for Always {
        fn describe(&self) -> String {
            "a test".into()
        }

        async fn standing(&self) -> Result<Standing, CredentialError> {
            Ok(Standing::default())
        }

        async fn credential(&self, _life: Duration) -> Result<Credential, CredentialError> {
            Ok(Credential::new(Secret::new(self.0)))
        }

        async fn renewed(
            &self,
            _refused: &Credential,
            life: Duration,
        ) -> Result<Option<Credential>, CredentialError> {
            self.credential(life).await.map(Some)
        }
    }

    async fn replaced(renewal: &mut Renewal, refused: &'static str) -> Option<Credential> {
        let refused = Credential::new(Secret::new(refused));
        renewal.replace(&Always("new"), &refused, Duration::ZERO).await.unwrap()
    }

    #[tokio::test]
    async fn another_is_asked_for_once_in_a_turn() {
        let mut renewal = Renewal::default();
        assert!(replaced(&mut renewal, "old").await.is_some_and(|new| new.token.expose() == "new"));
        assert!(replaced(&mut renewal, "old").await.is_none());
    }

    #[tokio::test]
    async fn the_refused_one_is_no_other() {
        assert!(replaced(&mut Renewal::default(), "new").await.is_none());
    }

    #[test]
    fn what_was_mended_explains_no_later_silence() {
        let mut log = TurnLog::new("test".into(), None, None);
        log.renewed(2, "a test", "401");
        let watch = super::super::Watch::new(&crate::Limits::new());
        let silence = ErrorKind::Starved(crate::Phase::FirstByte);
        assert_eq!(log.out_of_time(silence, &watch).kind, silence);
    }
}

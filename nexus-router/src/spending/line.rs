//! One ended turn in the record of spending.

use std::time::{Duration, SystemTime};

use nexus_core::{BackendId, Cost, CostSource, ModelId, Usage, Usd, VendorId};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Payment of a turn, as the backend's settings state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnBilling {
    /// A subscription.
    Plan,
    /// A key whose owner pays for each call.
    Metered,
}

/// Origin of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostOrigin {
    /// The vendor's server reported it.
    Vendor,
    /// A list of prices of the vendor's program or of the configuration. On a plan the charge may be zero.
    Prices,
}

impl CostOrigin {
    fn of(source: CostSource) -> Self {
        match source {
            CostSource::Reported => Self::Vendor,
            CostSource::Estimated => Self::Prices,
        }
    }
}

/// Properties of a turn that are known before it runs on a backend. They contain no secret and no text of the turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTurn {
    /// The backend.
    pub backend: BackendId,
    /// Vendor of the backend.
    #[serde(default)]
    pub vendor: Option<VendorId>,
    /// Type of the work, else the name of the seat or of the backend.
    #[serde(rename = "type")]
    pub kind: String,
    /// The model: as the vendor named it, else as requested.
    #[serde(default)]
    pub model: Option<ModelId>,
    /// Account of the credential, if the settings name it.
    #[serde(default)]
    pub account: Option<String>,
    /// Payment, if the settings state it.
    #[serde(default, deserialize_with = "known")]
    pub billing: Option<TurnBilling>,
    /// The task.
    #[serde(default)]
    pub task: Option<String>,
    /// The debate.
    #[serde(default)]
    pub debate: Option<String>,
    /// The agent of the broker.
    #[serde(default)]
    pub agent: Option<String>,
    /// The trigger that started the turn.
    #[serde(default)]
    pub trigger: Option<String>,
    /// The conversation.
    #[serde(default)]
    pub conversation: Option<String>,
}

impl PlannedTurn {
    /// Creates the plan of a turn of this type on a backend.
    pub fn new(backend: BackendId, kind: impl Into<String>) -> Self {
        Self {
            backend,
            vendor: None,
            kind: kind.into(),
            model: None,
            account: None,
            billing: None,
            task: None,
            debate: None,
            agent: None,
            trigger: None,
            conversation: None,
        }
    }
}

/// An amount of money and tokens. `None` is unknown, not zero.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpendingAmount {
    /// United States dollars.
    #[serde(default)]
    pub usd: Option<Usd>,
    /// Tokens of all sorts.
    #[serde(default)]
    pub tokens: Option<u64>,
}

/// One turn on one backend, after its end. A turn that falls back has a line for each backend that ran it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpendingLine {
    /// Id of the line, unique in a home.
    pub id: String,
    /// Time of the turn's end.
    #[serde(with = "nexus_files::rfc3339::as_millis")]
    pub time: SystemTime,
    /// The turn.
    pub turn: PlannedTurn,
    /// `ok`, the kind of the error, or `lost` for a turn whose process died.
    pub outcome: String,
    /// Input tokens outside of the vendor's cache, with those written to it.
    #[serde(default)]
    pub input_tokens: Option<u64>,
    /// Input tokens read from the vendor's cache.
    #[serde(default)]
    pub cached_tokens: Option<u64>,
    /// Output tokens, with reasoning.
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// Cost in United States dollars. `None` is unknown.
    #[serde(default, deserialize_with = "charged")]
    pub usd: Option<f64>,
    /// Origin of the cost.
    #[serde(default, deserialize_with = "known")]
    pub cost_source: Option<CostOrigin>,
    /// Duration of the turn on the backend, in milliseconds.
    pub duration_ms: u64,
    /// Amount that budgets count for a lost turn, whose usage is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<SpendingAmount>,
}

/// Reads a value, or `None` if only a later version knows it. The rest of the line still counts.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.and_then(|value| serde_json::from_value(value).ok()))
}

/// Reads a cost. A negative one, which a person or another program wrote, counts as unknown, because it would enlarge a budget.
fn charged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.filter(|usd| usd.is_finite() && *usd >= 0.0))
}

/// Outcome of a turn whose process died, or whose caller dropped it.
#[cfg(feature = "spending")]
pub(super) const LOST: &str = "lost";

impl SpendingLine {
    /// Creates the line of a turn that ended.
    pub fn new(
        id: String,
        time: SystemTime,
        turn: PlannedTurn,
        outcome: impl Into<String>,
        usage: &Usage,
        cost: Option<Cost>,
        duration: Duration,
    ) -> Self {
        // A negative or infinite cost counts as unknown, because it would enlarge a budget.
        let cost = cost.filter(|cost| cost.usd.0.is_finite() && cost.usd.0 >= 0.0);
        // Tokens from the cache have a field of their own.
        let mut uncached = *usage;
        uncached.cache_read_tokens = None;
        Self {
            id,
            time,
            turn,
            outcome: outcome.into(),
            input_tokens: uncached.all_input_tokens(),
            cached_tokens: usage.cache_read_tokens,
            output_tokens: usage.all_output_tokens(),
            usd: cost.map(|cost| cost.usd.0),
            cost_source: cost.map(|cost| CostOrigin::of(cost.source)),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            reserved: None,
        }
    }

    /// Creates the line of a turn whose process died.
    #[cfg(feature = "spending")]
    pub(super) fn lost(id: String, time: SystemTime, turn: PlannedTurn, reserved: SpendingAmount) -> Self {
        let mut line = Self::new(id, time, turn, LOST, &Usage::new(), None, Duration::ZERO);
        line.reserved = Some(reserved);
        line
    }

    /// Returns all tokens. `None` if the vendor reported none.
    pub fn tokens(&self) -> Option<u64> {
        let counts = [self.input_tokens, self.cached_tokens, self.output_tokens];
        counts.into_iter().flatten().reduce(u64::saturating_add)
    }
}

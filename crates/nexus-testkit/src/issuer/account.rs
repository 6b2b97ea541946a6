//! The account that the issuer signs in.

use serde_json::{Map, Value, json};

/// The one person of the issuer, invented.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Account {
    /// OpenAI's account id; `sub` is made from it.
    pub id: String,
    /// The plan, in OpenAI's words.
    pub plan: String,
    /// The address.
    pub email: String,
    /// More claims for both tokens; they win over those made from the fields above.
    pub claims: Map<String, Value>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            id: "00000000-0000-4000-8000-00000000abba".into(),
            plan: "pro".into(),
            email: "somebody@example.test".into(),
            claims: Map::new(),
        }
    }
}

impl Account {
    /// Claims that identify the account. Source: observed with codex 0.169.0, which reads them from both tokens.
    pub(super) fn claims(&self) -> Map<String, Value> {
        let subject = format!("user-{}", self.id);
        let claims = json!({
            "sub": subject,
            "email": self.email,
            "email_verified": true,
            "https://api.openai.com/auth": {
                "chatgpt_account_id": self.id,
                "chatgpt_plan_type": self.plan,
                "chatgpt_user_id": subject,
                "user_id": subject,
            },
            "https://api.openai.com/profile": { "email": self.email },
        });
        let mut claims = match claims {
            Value::Object(claims) => claims,
            _ => Map::new(),
        };
        claims.extend(self.claims.clone());
        claims
    }
}

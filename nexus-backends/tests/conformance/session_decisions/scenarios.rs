//! What the scripted model calls.

use serde_json::{Value, json};

use super::tools::{HIDDEN, UNKNOWN};

/// Calls, reply by reply, after which the model answers.
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) replies: Vec<Vec<(&'static str, Value)>>,
    pub(crate) most_calls: Option<u32>,
}

impl Told {
    /// Whether there is no such tool in scope.
    pub(crate) fn is_unknown(&self, name: &str) -> bool {
        [HIDDEN, UNKNOWN].contains(&name)
    }

    /// Whether a call by this name is among them: programs have tools of their own, such as one to search for others.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.replies.iter().flatten().any(|(called, _)| *called == name)
    }
}

/// Every list of calls.
pub(crate) fn all() -> Vec<Told> {
    let look_up = |word: &str| ("lookup", json!({ "word": word }));
    let open = |path: &str| ("open", json!({ "path": path }));
    let one_by_one = |name, calls: Vec<(&'static str, Value)>| Told {
        name,
        replies: calls.into_iter().map(|call| vec![call]).collect(),
        most_calls: None,
    };
    vec![
        one_by_one("an_allowed_call", vec![look_up("heron")]),
        one_by_one("a_tool_out_of_scope", vec![(HIDDEN, json!({ "word": "heron" })), look_up("heron")]),
        one_by_one("a_tool_that_is_not_there", vec![(UNKNOWN, json!({})), look_up("heron")]),
        one_by_one("arguments_that_do_not_fit", vec![("lookup", json!({ "word": 5 })), look_up("heron")]),
        one_by_one("a_path_in_scope", vec![open("inside/plan.txt")]),
        one_by_one(
            "paths_out_of_scope",
            vec![open("secret.txt"), open("inside/../../up.txt"), open("/etc/passwd")],
        ),
        Told {
            most_calls: Some(2),
            ..one_by_one(
                "a_budget_and_a_terminal_tool",
                vec![
                    look_up("heron"),
                    look_up("stork"),
                    look_up("crane"),
                    ("submit", json!({ "answer": "a heron" })),
                ],
            )
        },
        Told {
            name: "calls_at_once",
            replies: vec![vec![
                look_up("heron"),
                look_up("stork"),
                open("inside/plan.txt"),
                open("secret.txt"),
            ]],
            most_calls: None,
        },
    ]
}

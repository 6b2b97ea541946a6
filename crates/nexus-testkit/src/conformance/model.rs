//! A model that plays a script, for subjects that need no server.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::subject::Setting;
use crate::model_call::{Line, ModelCall, Witness};
use crate::sim::{Reply, Scenario};

/// A model that plays a script and records its calls.
#[derive(Debug)]
pub struct ScriptedModel {
    script: Scenario,
    line: Line,
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    calls: Vec<ModelCall>,
    by_rule: BTreeMap<Option<usize>, usize>,
}

impl ScriptedModel {
    /// The model of `setting`.
    pub fn new(setting: &Setting) -> Self {
        Self { script: setting.script.clone(), line: setting.line, asked: Mutex::default() }
    }

    /// Answers `call`. `None` if connections are refused.
    pub fn answer(&self, call: ModelCall) -> Option<Reply> {
        if self.line == Line::Refused {
            return None;
        }
        let mut asked = self.lock();
        if self.script.refuses(call.credential.as_deref()) {
            asked.calls.push(call);
            return Some(Reply::status(401));
        }
        let rule = self.script.rule_for(&call.user_texts);
        let count = asked.by_rule.entry(rule).or_default();
        let index = *count;
        *count += 1;
        asked.calls.push(call);
        Some(self.script.reply(rule, index))
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for ScriptedModel {
    fn model_calls(&self) -> Vec<ModelCall> {
        self.lock().calls.clone()
    }
}

//! Tools in the form of a wire, prepared once for all turns that offer the same tools.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use nexus_core::ToolDefinition;
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::offer;
use crate::native::wires::{chat, gemini, messages};

/// Number of lists of tools that a server's cache contains. Source: our own choice; most hosts have one list for each role.
const MAX_LISTS: usize = 16;

/// Form of a tool in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolForm {
    /// Function of the Responses API. `strict`: it states the flag `strict`.
    Responses { strict: bool },
    /// Function of Chat Completions.
    Chat,
    /// Tool of the Messages API.
    Messages,
    /// Function declaration of the Gemini API.
    Gemini,
}

/// Tool in the form of its wire.
#[derive(Debug)]
pub(crate) struct WireTool {
    pub(crate) name: String,
    json: Box<RawValue>,
}

/// Tools of one list in the form of a wire.
#[derive(Debug, Default)]
pub(crate) struct PreparedTools {
    pub(crate) tools: Vec<Arc<WireTool>>,
    /// Names of the tools that the wire cannot express.
    pub(crate) left_out: Vec<String>,
    /// Constraints that the sent schemas lack, and the reasons for tools left out, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Prepared tools of the lists that were used last. A list is identified by its allocation, so nothing is compared.
#[derive(Debug, Default)]
pub(crate) struct ToolCache(Mutex<Vec<CachedTools>>);

#[derive(Debug)]
struct CachedTools {
    /// The list. A weak reference lets the tools end with their host, and no other list gets the same address meanwhile.
    definitions: Weak<[ToolDefinition]>,
    form: ToolForm,
    prepared: Arc<PreparedTools>,
}

impl ToolForm {
    /// Converts a function of the Responses API.
    fn write(self, function: Value) -> Value {
        match self {
            Self::Responses { .. } => function,
            Self::Chat => chat::function::function(&function),
            Self::Messages => messages::tool::tool(&function),
            Self::Gemini => gemini::declaration::declaration(&function),
        }
    }
}

impl WireTool {
    /// Converts a function of the Responses API.
    pub(crate) fn new(form: ToolForm, function: Value) -> Self {
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::of(name, &form.write(function))
    }

    fn of(name: String, tool: &Value) -> Self {
        // Writing cannot fail: all keys are strings.
        let json = to_raw_value(tool).unwrap_or_default();
        Self { name, json }
    }

    /// Returns the tool as JSON.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(self.json.get()).unwrap_or_default()
    }

    /// Returns the tool without the flag `strict`; `None` if it has none.
    pub(crate) fn without_strict(&self) -> Option<Self> {
        let mut tool = self.value();
        tool.as_object_mut()?.remove("strict")?;
        Some(Self::of(self.name.clone(), &tool))
    }
}

impl PreparedTools {
    /// Prepares tools.
    pub(crate) fn new(definitions: &[ToolDefinition], form: ToolForm) -> Self {
        let mut offer = offer(definitions, form == ToolForm::Responses { strict: true });
        if form == ToolForm::Gemini {
            gemini::schema::restrict(&mut offer);
        }
        let tools: Vec<_> =
            offer.tools.into_iter().map(|function| Arc::new(WireTool::new(form, function))).collect();
        let names: std::collections::BTreeSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let left_out = definitions.iter().filter(|tool| !names.contains(tool.name.as_str()));
        let left_out = left_out.map(|tool| tool.name.clone()).collect();
        Self { tools, left_out, warnings: offer.warnings }
    }
}

impl ToolCache {
    /// Returns the prepared tools of a list.
    pub(crate) fn prepared(&self, definitions: &Arc<[ToolDefinition]>, form: ToolForm) -> Arc<PreparedTools> {
        if definitions.is_empty() {
            return Arc::default();
        }
        let list = Arc::downgrade(definitions);
        let lists = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut lists = lists();
            let found = lists.iter().position(|known| known.form == form && known.definitions.ptr_eq(&list));
            if let Some(known) = found.and_then(|index| lists.get_mut(..=index)) {
                known.rotate_right(1);
                if let Some(first) = known.first() {
                    return Arc::clone(&first.prepared);
                }
            }
        }
        // Prepare without the lock, because a long list takes milliseconds.
        let prepared = Arc::new(PreparedTools::new(definitions, form));
        let mut lists = lists();
        lists.retain(|known| known.definitions.strong_count() > 0);
        lists.truncate(MAX_LISTS - 1);
        lists.insert(0, CachedTools { definitions: list, form, prepared: Arc::clone(&prepared) });
        prepared
    }
}

/// Tools of a request, which are written as their wire has them.
#[derive(Debug, Default)]
pub(crate) struct ToolList<'a> {
    pub(crate) tools: &'a [Arc<WireTool>],
    /// Tool after the others that only this turn has.
    pub(crate) last: Option<Value>,
}

impl ToolList<'_> {
    /// Returns true if the list has no tools.
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.last.is_none()
    }
}

impl Serialize for ToolList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.tools.len() + usize::from(self.last.is_some())))?;
        for tool in self.tools {
            list.serialize_element(&tool.json)?;
        }
        if let Some(last) = &self.last {
            list.serialize_element(last)?;
        }
        list.end()
    }
}

/// Returns functions of the Responses API in the form of a wire.
#[cfg(test)]
pub(crate) fn wire_tools(form: ToolForm, functions: &[Value]) -> Vec<Arc<WireTool>> {
    functions.iter().map(|function| Arc::new(WireTool::new(form, function.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definitions(names: &[&str]) -> Arc<[ToolDefinition]> {
        let definition = |name: &&str| ToolDefinition::new(*name, "Does it.", json!({ "type": "object" }));
        names.iter().map(definition).collect()
    }

    #[test]
    fn a_list_is_prepared_once_for_each_form() {
        let cache = ToolCache::default();
        let (one, other) = (definitions(&["a", "b c"]), definitions(&["a", "b c"]));
        let strict = ToolForm::Responses { strict: true };
        let prepared = cache.prepared(&one, strict);
        assert_eq!((prepared.tools.len(), prepared.left_out.as_slice()), (1, &["b c".to_owned()][..]));
        assert!(prepared.warnings[0].contains("is not offered"), "{:?}", prepared.warnings);
        assert!(Arc::ptr_eq(&prepared, &cache.prepared(&one, strict)));
        assert!(!Arc::ptr_eq(&prepared, &cache.prepared(&other, strict)), "another list, with equal tools");
        assert!(!Arc::ptr_eq(&prepared, &cache.prepared(&one, ToolForm::Chat)));
        assert!(Arc::ptr_eq(&prepared, &cache.prepared(&one, strict)), "the others did not replace it");
    }

    #[test]
    fn a_cache_has_a_bound_and_no_list_whose_host_is_gone() {
        let cache = ToolCache::default();
        let lists: Vec<_> = (0..3 * MAX_LISTS).map(|_| definitions(&["a"])).collect();
        let first = cache.prepared(&lists[0], ToolForm::Chat);
        for list in &lists {
            cache.prepared(list, ToolForm::Chat);
            cache.prepared(&lists[0], ToolForm::Chat);
        }
        assert_eq!(cache.0.lock().unwrap().len(), MAX_LISTS);
        assert!(Arc::ptr_eq(&first, &cache.prepared(&lists[0], ToolForm::Chat)), "the last used ones stay");
        drop(lists);
        cache.prepared(&definitions(&["b"]), ToolForm::Chat);
        assert_eq!(cache.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn only_a_flag_of_the_tool_itself_is_removed() {
        let schema = json!({ "type": "object", "properties": { "strict": { "type": "boolean" } } });
        let definition = ToolDefinition::new("a", "Does it.", schema);
        let prepared =
            PreparedTools::new(std::slice::from_ref(&definition), ToolForm::Responses { strict: true });
        assert_eq!(prepared.tools[0].value()["strict"], false);
        let without = prepared.tools[0].without_strict().unwrap();
        assert_eq!(without.value()["parameters"]["properties"]["strict"], json!({ "type": "boolean" }));
        assert!(without.value().get("strict").is_none() && without.without_strict().is_none());
        for form in [ToolForm::Chat, ToolForm::Messages, ToolForm::Gemini] {
            let prepared = PreparedTools::new(std::slice::from_ref(&definition), form);
            assert!(prepared.tools[0].without_strict().is_none(), "{form:?}");
        }
    }
}

//! Lists as fields of a log line.

use std::cell::RefCell;
use std::fmt;

use serde_json::Value;
use tracing::field::{DebugValue, debug};

thread_local! {
    /// The list that was formatted last on this thread: a field formats itself only as text, and the values for a JSON
    /// line travel here.
    static LAST: RefCell<Option<Value>> = const { RefCell::new(None) };
}

/// Several texts as one field: `[a, b]` in text, an array of strings in JSON.
pub fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> DebugValue<ListField> {
    debug(ListField(items.into_iter().map(|item| item.to_string()).collect()))
}

/// A field made by [`list`].
#[derive(Clone)]
pub struct ListField(Vec<String>);

impl fmt::Debug for ListField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LAST.set(Some(self.0.clone().into()));
        write!(f, "[{}]", self.0.join(", "))
    }
}

/// A field's value: an array where it is a list, else its text.
pub(super) fn value_of(field: &dyn fmt::Debug) -> Value {
    LAST.set(None);
    let text = format!("{field:?}");
    LAST.take().unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_an_array_and_a_text_that_looks_like_one_is_none() {
        assert_eq!(value_of(&list(["a", "b, c"])), serde_json::json!(["a", "b, c"]));
        assert_eq!(format!("{:?}", list([1, 2])), "[1, 2]");
        // The list above left its value behind: it is not taken for this one.
        assert_eq!(value_of(&format_args!("[a, b]")), serde_json::json!("[a, b]"));
    }
}

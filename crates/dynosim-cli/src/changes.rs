//! Where two JSON documents differ.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// A value that is not the same in two documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Change {
    /// Where, as `workload.isl` or `pareto[1]`.
    pub(crate) path: String,
    /// The value in the first document, if it has one.
    pub(crate) old: Option<Value>,
    /// The value in the second document, if it has one.
    pub(crate) new: Option<Value>,
}

/// Every value that is not the same in two documents, or that only one of them has, in the order of the first.
pub(crate) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    collect("", Some(old), Some(new), &mut found);
    found
}

fn collect(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Change>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for (key, value) in old {
                collect(&below(path, key), Some(value), new.get(key), found);
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                collect(&below(path, key), None, Some(value), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                collect(&format!("{path}[{index}]"), old.get(index), new.get(index), found);
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(Change {
            path: path.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string);
        write!(f, "{}: {} -> {}", self.path, value(&self.old), value(&self.new))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_that_differs_is_named() {
        let old = json!({ "same": 1, "a": { "b": 1, "gone": true }, "list": [1, 2] });
        let new = json!({ "same": 1, "a": { "b": 2.5 }, "list": [1, 3, "x"], "late": null });
        let lines: Vec<String> = changes(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "a.b: 1 -> 2.5",
                "a.gone: true -> (none)",
                "list[1]: 2 -> 3",
                "list[2]: (none) -> \"x\"",
                "late: (none) -> null",
            ]
        );
        assert_eq!(changes(&old, &old), []);
    }
}

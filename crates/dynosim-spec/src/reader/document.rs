//! JSON text as a tree, with the keys that occur twice in one object.
//!
//! `serde_json::Value` keeps the last of two equal keys without a word, hence a visitor of our own.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::section::join;

/// A parsed text.
pub(crate) struct Document {
    pub(crate) root: Value,
    /// Paths of keys given more than once.
    pub(crate) duplicates: Vec<String>,
}

/// Parses a whole text; a byte order mark is skipped.
pub(crate) fn parse(text: &str) -> Result<Document, serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}'));
    let node = Node {
        path: String::new(),
        duplicates: &mut duplicates,
    };
    let root = node.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Document { root, duplicates })
}

/// The value at `path`.
struct Node<'d> {
    path: String,
    duplicates: &'d mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let node = Node {
                path: format!("{}[{}]", self.path, list.len()),
                duplicates: &mut *self.duplicates,
            };
            let Some(item) = items.next_element_seed(node)? else {
                return Ok(list.into());
            };
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = join(&self.path, &key);
            if object.contains_key(&key) {
                self.duplicates.push(path.clone());
            }
            let duplicates = &mut *self.duplicates;
            let value = entries.next_value_seed(Node { path, duplicates })?;
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_text_becomes_the_same_tree_as_with_serde_json() {
        let text = r#"{"a": [1, -2, 2.5, null, true, "x\n"], "b": {"c": {}}}"#;
        let document = parse(text).expect("the text is valid");
        assert_eq!(
            document.root,
            text.parse::<serde_json::Value>().expect("the text is valid")
        );
        assert!(document.duplicates.is_empty());
    }

    #[test]
    fn repeated_keys_are_found_at_any_depth() {
        let document = parse(r#"{"a": 1, "a": 2, "b": [{}, {"c": 1, "c": 1}]}"#).expect("the text is valid");
        assert_eq!(document.duplicates, ["a", "b[1].c"]);
    }

    #[test]
    fn a_number_too_large_for_a_float_is_an_error() {
        assert!(parse("[1e999]").is_err());
    }
}

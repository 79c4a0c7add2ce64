//! One object of a document: its keys, its path and what was found out about it.

use serde_json::{Map, Value};

use super::rule::Rule;
use crate::error::{SpecError, Violation};
use crate::nearest::nearest;

/// What a document got wrong, and what it asks for in vain.
#[derive(Debug)]
pub(crate) struct Findings {
    violations: Vec<Violation>,
    warnings: Vec<String>,
}

impl Findings {
    /// Findings that begin with keys given twice.
    pub(crate) fn new(duplicates: Vec<String>) -> Self {
        Self {
            violations: duplicates
                .into_iter()
                .map(|path| Violation::new(path, "is given more than once"))
                .collect(),
            warnings: Vec::new(),
        }
    }

    /// The warnings if nothing is wrong.
    pub(crate) fn into_result(self) -> Result<Vec<String>, SpecError> {
        if self.violations.is_empty() {
            Ok(self.warnings)
        } else {
            Err(SpecError::Invalid {
                violations: self.violations,
            })
        }
    }

    /// The mistakes.
    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }
}

/// Whether a key may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

/// A key and another name that is accepted for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    name: &'static str,
    alias: Option<&'static str>,
}

impl From<&'static str> for Key {
    fn from(name: &'static str) -> Self {
        Self { name, alias: None }
    }
}

impl From<(&'static str, &'static str)> for Key {
    fn from((name, alias): (&'static str, &'static str)) -> Self {
        Self {
            name,
            alias: Some(alias),
        }
    }
}

/// One object of a document that is being read, or the value of such an object that is being checked.
///
/// `null` counts as an absent key, except where a rule gives it a meaning. A place whose value is
/// wrong keeps what it held, so that one mistake does not cause others; methods that say whether a
/// value was right exist for rules that compare several places.
#[derive(Debug)]
pub(crate) struct Section<'j, 'f> {
    path: String,
    /// `None` if a value built in code is checked.
    object: Option<&'j Map<String, Value>>,
    known: Vec<&'static str>,
    hints: Vec<(&'static str, &'static str)>,
    findings: &'f mut Findings,
    any_key: bool,
}

impl<'j, 'f> Section<'j, 'f> {
    /// Walks the fields of a whole document.
    pub(crate) fn walk_document(
        root: &'j Value,
        findings: &'f mut Findings,
        fields: impl FnOnce(&mut Section<'j, '_>),
    ) {
        let Some(object) = root.as_object() else {
            let message = format!("must be an object, got {}", shown(root));
            findings.violations.push(Violation::new("", message));
            return;
        };
        Section::new(String::new(), Some(object), findings).walk(fields);
    }

    /// Walks the fields of a value built in code.
    pub(crate) fn walk_value(findings: &'f mut Findings, fields: impl FnOnce(&mut Section<'j, '_>)) {
        Section::new(String::new(), None, findings).walk(fields);
    }

    fn new(path: String, object: Option<&'j Map<String, Value>>, findings: &'f mut Findings) -> Self {
        Self {
            path,
            object,
            known: Vec::new(),
            hints: Vec::new(),
            findings,
            any_key: false,
        }
    }

    fn walk(mut self, fields: impl FnOnce(&mut Section<'j, '_>)) {
        fields(&mut self);
        self.report_unknown_keys();
    }

    /// Whether JSON is being read.
    pub(crate) fn reads(&self) -> bool {
        self.object.is_some()
    }

    /// Whether the object holds this key with a value other than `null`; false if a value is being checked.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.json_at(key).is_some()
    }

    /// What stands at a path of keys, such as `router.seed`, unless that is `null`; nothing if a value is being checked.
    fn json_at(&self, path: &str) -> Option<&'j Value> {
        let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut object = self.object?;
        for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
            object = object.get(parent)?.as_object()?;
        }
        object.get(key).filter(|json| !json.is_null())
    }

    /// Those of `keys` that the object [`has`](Self::has).
    pub(crate) fn present(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|key| self.has(key)).collect()
    }

    /// Accepts keys that are read elsewhere or not at all.
    pub(crate) fn accept(&mut self, keys: &[&'static str]) {
        self.known.extend_from_slice(keys);
    }

    /// Accepts every key.
    pub(crate) fn accept_all(&mut self) {
        self.any_key = true;
    }

    /// Says more about a key that is unknown here.
    pub(crate) fn hint(&mut self, key: &'static str, hint: &'static str) {
        self.hints.push((key, hint));
    }

    /// Reads or checks a value that must be given; whether it is right.
    pub(crate) fn required<T>(&mut self, key: impl Into<Key>, place: &mut T, rule: &impl Rule<T>) -> bool {
        let key = key.into();
        self.field(key, Presence::Required, place, rule)
    }

    /// Reads or checks a value that has a default; whether it is right.
    pub(crate) fn optional<T>(&mut self, key: impl Into<Key>, place: &mut T, rule: &impl Rule<T>) -> bool {
        self.field(key.into(), Presence::Optional, place, rule)
    }

    /// Reads or checks a value that may be absent; whether it is right.
    pub(crate) fn option<T>(&mut self, key: impl Into<Key>, place: &mut Option<T>, rule: &impl Rule<T>) -> bool {
        let key = key.into();
        if !self.reads() {
            return place.as_ref().is_none_or(|value| self.admit(key.name, value, rule));
        }
        let Some((name, json)) = self.given(key, rule.takes_null()) else {
            return true;
        };
        match self.value(name, json, rule) {
            Some(value) => {
                *place = Some(value);
                true
            }
            None => false,
        }
    }

    /// Reads or checks a list with at least one item; whether all is right.
    pub(crate) fn list<T>(&mut self, key: impl Into<Key>, place: &mut Vec<T>, rule: &impl Rule<T>) -> bool {
        const EMPTY: &str = "must have at least one item";
        let key = key.into();
        let was_given = !self.reads() || self.named(key).is_some();
        let mut found = std::mem::take(place);
        let right = self.list_or_none(key, &mut found, rule);
        let is_empty = right && was_given && found.is_empty();
        *place = found;
        if is_empty {
            return self.violation(key.name, EMPTY);
        }
        right
    }

    /// Reads or checks a list, which may be empty; whether all is right.
    pub(crate) fn list_or_none<T>(&mut self, key: impl Into<Key>, place: &mut Vec<T>, rule: &impl Rule<T>) -> bool {
        let key = key.into();
        if !self.reads() {
            let items = place.iter().enumerate();
            return items.fold(true, |right, (index, value)| {
                self.admit(&format!("{}[{index}]", key.name), value, rule) && right
            });
        }
        let Some((name, json)) = self.given(key, false) else {
            return true;
        };
        let Some(items) = json.as_array() else {
            return self.violation(name, format!("must be a list, got {}", shown(json)));
        };
        let values: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, json)| self.value(&format!("{name}[{index}]"), json, rule))
            .collect();
        match values.into_iter().collect() {
            Some(values) => {
                *place = values;
                true
            }
            None => false,
        }
    }

    /// Walks the fields of an object inside this one, if it is there.
    pub(crate) fn object(
        &mut self,
        key: impl Into<Key>,
        presence: Presence,
        fields: impl FnOnce(&mut Section<'j, '_>),
    ) {
        let key = key.into();
        if !self.reads() {
            let path = join(&self.path, key.name);
            Section::new(path, None, self.findings).walk(fields);
            return;
        }
        let Some((name, json)) = self.given(key, false) else {
            if presence == Presence::Required {
                self.violation(key.name, "is missing; must be an object");
            }
            return;
        };
        let Some(object) = json.as_object() else {
            self.violation(name, format!("must be an object, got {}", shown(json)));
            return;
        };
        let path = join(&self.path, name);
        Section::new(path, Some(object), self.findings).walk(fields);
    }

    /// Walks the fields of an optional object, beginning with `blank` if it is there.
    pub(crate) fn optional_object<T>(
        &mut self,
        key: impl Into<Key>,
        place: &mut Option<T>,
        blank: T,
        fields: impl FnOnce(&mut T, &mut Section<'j, '_>),
    ) {
        let key = key.into();
        if self.reads() {
            *place = self.named(key).map(|_| blank);
        }
        if let Some(value) = place {
            self.object(key, Presence::Optional, |section| fields(value, section));
        } else {
            self.accept_key(key);
        }
    }

    /// Reports a mistake at a key, or at the object itself for an empty key; always false.
    pub(crate) fn violation(&mut self, key: &str, message: impl Into<String>) -> bool {
        let path = join(&self.path, key);
        self.findings.violations.push(Violation::new(path, message));
        false
    }

    /// Reports something that is asked for in vain.
    pub(crate) fn warn(&mut self, key: &str, message: &str) {
        let warning = Violation::new(join(&self.path, key), message).to_string();
        self.findings.warnings.push(warning);
    }

    /// Reports that the value at a path of keys has no effect, if there is one; `why` continues the sentence.
    pub(crate) fn idle(&mut self, path: &str, why: &str) {
        if let Some(json) = self.json_at(path) {
            self.warn(path, &format!("{} has no effect {why}", shown(json)));
        }
    }

    fn field<T>(&mut self, key: Key, presence: Presence, place: &mut T, rule: &impl Rule<T>) -> bool {
        if !self.reads() {
            return self.admit(key.name, place, rule);
        }
        let Some((name, json)) = self.given(key, rule.takes_null()) else {
            return match presence {
                Presence::Optional => true,
                Presence::Required => {
                    let wanted = rule.wanted();
                    self.violation(key.name, format!("is missing; must be {wanted}"))
                }
            };
        };
        match self.value(name, json, rule) {
            Some(value) => {
                *place = value;
                true
            }
            None => false,
        }
    }

    /// The name under which a key is given and its JSON, unless that is `null` without a meaning.
    fn given(&mut self, key: Key, null_counts: bool) -> Option<(&'static str, &'j Value)> {
        self.accept_key(key);
        if let Some(alias) = key.alias
            && self.has(alias)
            && self.has(key.name)
        {
            let name = key.name;
            self.violation(alias, format!("is another name of `{name}`, which is given too"));
        }
        let name = match self.named(key) {
            Some(name) => name,
            None if null_counts => key.name,
            None => return None,
        };
        self.object?.get(name).map(|json| (name, json))
    }

    /// The name under which a key is given with a value other than `null`.
    fn named(&self, key: Key) -> Option<&'static str> {
        [Some(key.name), key.alias]
            .into_iter()
            .flatten()
            .find(|name| self.has(name))
    }

    fn accept_key(&mut self, key: Key) {
        self.known.push(key.name);
        self.known.extend(key.alias);
    }

    /// The value that JSON spells, if it is right.
    fn value<T>(&mut self, name: &str, json: &Value, rule: &impl Rule<T>) -> Option<T> {
        if let Some(value) = rule.read(json)
            && rule.admits(&value)
        {
            return Some(value);
        }
        let wanted = match rule.exceeded(json) {
            Some(most) => format!("at most {most}"),
            None => rule.wanted(),
        };
        self.violation(name, format!("must be {wanted}, got {}", shown(json)));
        None
    }

    /// Checks a value built in code.
    fn admit<T>(&mut self, name: &str, value: &T, rule: &impl Rule<T>) -> bool {
        rule.admits(value) || {
            let message = format!("must be {}, got {}", rule.wanted(), rule.show(value));
            self.violation(name, message)
        }
    }

    fn report_unknown_keys(&mut self) {
        let Some(object) = self.object.filter(|_| !self.any_key) else {
            return;
        };
        for key in object.keys().filter(|key| !self.known.contains(&key.as_str())) {
            let message = if let Some((_, hint)) = self.hints.iter().find(|(hinted, _)| hinted == key) {
                format!("unknown key; {hint}")
            } else if let Some(near) = nearest(key, self.known.iter().copied()) {
                format!("unknown key, did you mean `{near}`?")
            } else {
                format!("unknown key, known are {}", self.known.join(", "))
            };
            self.findings
                .violations
                .push(Violation::new(join(&self.path, key), message));
        }
    }
}

/// The path of a key within an object.
pub(super) fn join(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, "") => path.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}

/// JSON as shown in messages, cut where it gets long.
fn shown(json: &Value) -> String {
    const LONGEST: usize = 60;
    let text = json.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

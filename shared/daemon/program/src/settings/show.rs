//! Each setting with its origin, for people and for programs.

use serde_json::{Map, Value, json};

use super::{Origin, Setting, Settings};
use crate::render::{Screen, table};

impl<R: clap::Args> Settings<R> {
    /// Every setting with its origin, as JSON or as a table for this screen.
    ///
    /// # Errors
    /// None of settings that were resolved.
    pub fn text(&self, as_json: bool, screen: &Screen) -> serde_json::Result<String> {
        if as_json { serde_json::to_string_pretty(&self.json()) } else { Ok(self.table(screen)) }
    }

    /// A table of key, value and origin.
    pub fn table(&self, screen: &Screen) -> String {
        let mut table = table::new(screen, &["setting", "value", "origin"]);
        for setting in &self.settings {
            let value = match setting.values.as_slice() {
                [] => "–".to_owned(),
                values => values.join(", "),
            };
            table.add_row([table::id(&setting.key), value.into(), setting.origin.to_string().into()]);
        }
        table::text(&table)
    }

    /// The count of settings from each origin, in a line: `config check` prints it for valid settings.
    pub fn summary(&self) -> String {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for setting in &self.settings {
            let from = match &setting.origin {
                Origin::Default => "by default".to_owned(),
                Origin::File { path, .. } => format!("from {}", path.display()),
                Origin::Environment(_) => "from the environment".to_owned(),
                Origin::Flag(_) => "from flags".to_owned(),
            };
            match counts.iter_mut().find(|(found, _)| *found == from) {
                Some((_, count)) => *count += 1,
                None => counts.push((from, 1)),
            }
        }
        counts.sort();
        let counts: Vec<_> = counts.into_iter().map(|(from, count)| format!("{count} {from}")).collect();
        format!("the configuration is valid: {}", counts.join(", "))
    }

    /// An object with a `value` and an `origin` for each key.
    pub fn json(&self) -> Value {
        let entry = |s: &Setting| (s.key.clone(), json!({ "value": value(s), "origin": origin(&s.origin) }));
        Value::Object(self.settings.iter().map(entry).collect::<Map<_, _>>())
    }
}

fn value(setting: &Setting) -> Value {
    let one = |text: &String| {
        let plain = || serde_json::from_str(text).ok();
        setting.is_plain.then(plain).flatten().unwrap_or_else(|| Value::String(text.clone()))
    };
    if setting.is_list {
        return Value::Array(setting.values.iter().map(one).collect());
    }
    setting.values.first().map_or(Value::Null, one)
}

fn origin(origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "layer": "default" }),
        Origin::File { path, line } => json!({ "layer": "file", "path": path, "line": line }),
        Origin::Environment(name) => json!({ "layer": "environment", "name": name }),
        Origin::Flag(name) => json!({ "layer": "flag", "name": format!("--{name}") }),
    }
}

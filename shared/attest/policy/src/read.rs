//! Reads a TOML table field by field: problems are collected with line and field, and reading continues.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use assay_work::Precision;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fields::{self, Bounds};
use crate::text;

/// The most bytes of the file's text shown in a message.
const MAX_SHOWN_BYTES: usize = 64;
/// The most bytes of a file: expectations of 65,536 miners with eight devices each, and room for comments.
pub const MAX_FILE_BYTES: usize = 64 << 20;

type Table<'t> = DeTable<'t>;
type Value<'t> = Spanned<DeValue<'t>>;

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The field, such as `group[2].cadence.mean`; empty for the file's syntax.
    pub field: String,
    /// The problem, and the expected value.
    pub message: String,
}

/// Reason why a file cannot be used: every problem in it, in order of lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct FileError {
    pub file: String,
    pub problems: Vec<Problem>,
}

impl Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { line, field, message }) in self.problems.iter().enumerate() {
            let (start, colon) = (if at == 0 { "" } else { "\n" }, if field.is_empty() { "" } else { ": " });
            write!(f, "{start}{}:{line}: {field}{colon}{message}", self.file)?;
        }
        Ok(())
    }
}

/// The problems found so far in a text.
struct Reader<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

pub struct Section<'r> {
    reader: &'r Reader<'r>,
    path: String,
    at: usize,
    table: &'r Table<'r>,
    known: Vec<&'static str>,
}

/// Contents of an optional section.
pub enum OptionalSection<'r> {
    /// Absent: the values are those of the group that this one inherits from.
    Nothing,
    /// `false`: switched off.
    Off,
    Section(Section<'r>),
}

/// Reads a file's text by its sections; `file` is its name in messages.
///
/// # Errors
/// Every problem in the text, and each unknown field.
pub fn whole<T: Default>(text: &str, file: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> Result<T, FileError> {
    let reader = Reader::new(text);
    let table = reader.table();
    let value = table.as_ref().map(|table| {
        let mut section = Section::new(&reader, "", 0, table.get_ref());
        let value = read(&mut section);
        section.finish();
        value
    });
    drop(table);
    reader.finish(value.unwrap_or_default(), file)
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    /// Line number of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    pub fn problem(&self, at: usize, field: impl Into<String>, message: impl Display) {
        let problem = Problem { line: self.line(at), field: field.into(), message: message.to_string() };
        self.problems.borrow_mut().push(problem);
    }

    /// Parses the whole text as a table; `None`, with the problems noted, where it is not TOML.
    fn table(&self) -> Option<Spanned<Table<'t>>> {
        if self.text.len() > MAX_FILE_BYTES {
            self.problem(0, "", format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20));
            return None;
        }
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            self.problem(error.span().map_or(0, |span| span.start), "", error.message());
        }
        // Further problems of invalid TOML are consequences of the first ones.
        errors.is_empty().then_some(table)
    }

    /// Returns `read`, unless there is a problem.
    ///
    /// # Errors
    /// Every problem, in order of lines.
    fn finish<T>(self, read: T, file: &str) -> Result<T, FileError> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() { Ok(read) } else { Err(FileError { file: file.to_owned(), problems }) }
    }
}

impl<'r> Section<'r> {
    fn new(reader: &'r Reader<'r>, path: impl Into<String>, at: usize, table: &'r Table<'r>) -> Self {
        Self { reader, path: path.into(), at, table, known: Vec::new() }
    }

    /// The path of one of its fields, for messages.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn find(&self, name: &str) -> Option<&'r Value<'r>> {
        self.table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    /// Refuses a field of earlier releases, with its replacement.
    pub fn gone(&mut self, name: &'static str, instead: &str) {
        if self.has(name) {
            self.known.push(name);
            self.wrong(name, format!("it is gone: {instead}"));
        }
    }

    fn field(&mut self, name: &'static str) -> Option<&'r Value<'r>> {
        self.known.push(name);
        self.find(name)
    }

    /// Notes a problem with a field; at the table's position where the field is absent.
    pub fn wrong(&self, name: &str, message: impl Display) {
        let at = self.find(name).map_or(self.at, |value| value.span().start);
        self.reader.problem(at, self.path_of(name), message);
    }

    fn expected(&self, name: &str, value: &Value<'_>, expected: &str) {
        let shown = shown(value.get_ref());
        self.reader.problem(value.span().start, self.path_of(name), format!("{shown}: expected {expected}"));
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Reads a value within bounds.
    pub fn value(&mut self, name: &'static str, bounds: &Bounds, why: &str) -> Option<fields::Value> {
        let value = self.field(name)?;
        let read = match read(value.get_ref(), bounds) {
            Ok(read) => read.filter(|read| bounds.hold(read)),
            Err(message) => {
                self.wrong(name, format!("{}: {message}", shown(value.get_ref())));
                return None;
            }
        };
        if read.is_none() {
            let reason = if why.is_empty() { String::new() } else { format!(": {why}") };
            self.expected(name, value, &format!("{}{reason}", bounds.expected()));
        }
        read
    }

    /// Reads a whole number within bounds.
    pub fn whole(&mut self, name: &'static str, range: RangeInclusive<u32>, why: &str, to: &mut impl From<u32>) {
        if let Some(fields::Value::Whole(number)) = self.value(name, &Bounds::Whole(*range.start(), *range.end()), why)
        {
            *to = number.into();
        }
    }

    /// Reads a number within bounds.
    pub fn number(&mut self, name: &'static str, range: RangeInclusive<f64>, why: &str, to: &mut impl From<f64>) {
        let bounds = Bounds::Number(*range.start(), *range.end());
        if let Some(fields::Value::Number(number)) = self.value(name, &bounds, why) {
            *to = number.into();
        }
    }

    /// Reads a time with its unit, within bounds of whole seconds.
    pub fn time(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Duration>,
        why: &str,
        to: &mut impl From<Duration>,
    ) {
        let bounds = Bounds::Seconds(range.start().as_secs(), range.end().as_secs());
        if let Some(fields::Value::Time(time)) = self.value(name, &bounds, why) {
            *to = time.into();
        }
    }

    pub fn switch(&mut self, name: &'static str, to: &mut impl From<bool>) {
        if let Some(fields::Value::Switch(is_on)) = self.value(name, &Bounds::Switch, "") {
            *to = is_on.into();
        }
    }

    /// Reads one of a set of words.
    pub fn word<T: Copy>(&mut self, name: &'static str, all: &[T], named: fn(T) -> &'static str, to: &mut T) {
        let Some(value) = self.field(name) else { return };
        let said = value.get_ref().as_str();
        match all.iter().find(|choice| Some(named(**choice)) == said) {
            Some(choice) => *to = *choice,
            None => {
                let words: Vec<_> = all.iter().map(|choice| format!("\"{}\"", named(*choice))).collect();
                self.expected(name, value, &format!("one of {}", words.join(", ")));
            }
        }
    }

    /// Reads a non-empty text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        let value = self.field(name)?;
        let read = value.get_ref().as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        if read.is_none() {
            self.expected(name, value, "a text in quotes");
        }
        read
    }

    /// Reads a text of another form, such as a key or a size.
    pub fn parsed<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        let text = self.text(name)?;
        let shown = |error| self.wrong(name, format!("{}: {error}", shown(&DeValue::String(text.as_str().into()))));
        text.parse().map_err(shown).ok()
    }

    /// Reads a list of texts of a form.
    pub fn list<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Vec<T> {
        let Some(value) = self.field(name) else { return Vec::new() };
        let text = |value: &'r Value<'_>| value.get_ref().as_str();
        let Some(texts) = value.get_ref().as_array().and_then(|list| list.iter().map(text).collect::<Option<Vec<_>>>())
        else {
            self.expected(name, value, "a list of texts in quotes");
            return Vec::new();
        };
        let wrong = |error: T::Err| self.wrong(name, error);
        texts.into_iter().filter_map(|text| text.parse().map_err(wrong).ok()).collect()
    }

    /// Reads a table of texts.
    pub fn texts(&mut self, name: &'static str) -> Vec<(String, String)> {
        let Some(value) = self.field(name) else { return Vec::new() };
        let Some(table) = value.get_ref().as_table() else {
            self.expected(name, value, "names with values, such as { rack = \"7\" }");
            return Vec::new();
        };
        let text = |(key, value): (&Spanned<_>, &'r Value<'r>)| {
            let key: &std::borrow::Cow<'_, str> = key.get_ref();
            let read = value.get_ref().as_str().map(|value| (key.to_string(), value.to_owned()));
            if read.is_none() {
                self.expected(&format!("{name}.{key}"), value, "a text in quotes");
            }
            read
        };
        table.iter().filter_map(text).collect()
    }

    /// Reads a table below this one.
    pub fn section(&mut self, name: &'static str) -> Option<Section<'r>> {
        let value = self.field(name)?;
        let Some(table) = value.get_ref().as_table() else {
            self.expected(name, value, &format!("a section [{}]", self.path_of(name)));
            return None;
        };
        Some(Section::new(self.reader, self.path_of(name), value.span().start, table))
    }

    /// Returns whether an optional field is switched off.
    pub fn is_off(&mut self, name: &'static str) -> bool {
        let is_off = self.find(name).is_some_and(|value| value.get_ref().as_bool() == Some(false));
        if is_off {
            self.known.push(name);
        }
        is_off
    }

    /// Reads a table below this one that can be switched off.
    pub fn optional(&mut self, name: &'static str) -> OptionalSection<'r> {
        if self.is_off(name) {
            return OptionalSection::Off;
        }
        self.section(name).map_or(OptionalSection::Nothing, OptionalSection::Section)
    }

    /// Reads the tables of a list, `[[name]]`.
    pub fn sections(&mut self, name: &'static str) -> Vec<Section<'r>> {
        let Some(value) = self.field(name) else { return Vec::new() };
        let Some(list) = value.get_ref().as_array() else {
            self.expected(name, value, &format!("sections [[{name}]]"));
            return Vec::new();
        };
        let section = |(at, value): (usize, &'r Value<'r>)| {
            let path = self.path_of(&format!("{name}[{}]", at + 1));
            let Some(table) = value.get_ref().as_table() else {
                self.reader.problem(value.span().start, path, format!("expected a section [[{name}]]"));
                return None;
            };
            Some(Section::new(self.reader, path, value.span().start, table))
        };
        list.iter().enumerate().filter_map(section).collect()
    }

    /// Notes every field that was never read.
    pub fn finish(self) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let message = match text::nearest(name, self.known.iter().copied()) {
                Some(known) => format!("unknown field: did you mean `{known}`?"),
                None => {
                    let mut known = self.known.clone();
                    known.sort_unstable();
                    known.dedup();
                    format!("unknown field: there are {}", known.join(", "))
                }
            };
            let name = assay_work::text::printable(name, MAX_SHOWN_BYTES);
            self.reader.problem(key.span().start, self.path_of(&name), message);
        }
    }
}

/// Reads a value of the bounds' type, in or out of the bounds; `None` for another type.
fn read(value: &DeValue<'_>, bounds: &Bounds) -> Result<Option<fields::Value>, String> {
    let whole = || value.as_integer().and_then(|n| i128::from_str_radix(n.as_str(), n.radix()).ok());
    let kind =
        |value: &Value<'_>| Precision::ALL.into_iter().find(|kind| value.get_ref().as_str() == Some(kind.name()));
    Ok(match bounds {
        Bounds::Whole(..) | Bounds::Power(..) => whole().and_then(|n| u32::try_from(n).ok()).map(fields::Value::Whole),
        Bounds::Number(..) => match value {
            DeValue::Float(n) => n.as_str().parse().ok().map(fields::Value::Number),
            _ => whole().map(|n| fields::Value::Number(n as f64)),
        },
        Bounds::Seconds(..) | Bounds::Millis(..) => match value.as_str() {
            Some(text) => Some(fields::Value::Time(text::duration(text)?)),
            None => return Err("expected a time with its unit in quotes, such as \"10m\"".to_owned()),
        },
        Bounds::Switch => value.as_bool().map(fields::Value::Switch),
        Bounds::Word(_) => value.as_str().map(|word| fields::Value::Word(word.to_owned())),
        Bounds::Kinds => value.as_array().and_then(|list| list.iter().map(kind).collect()).map(fields::Value::Kinds),
    })
}

/// The value as written, or the name of its type.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => {
            assay_work::text::quoted(&text.chars().take(MAX_SHOWN_BYTES).collect::<String>()).to_string()
        }
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(is_on) => is_on.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a section".to_owned(),
    }
}

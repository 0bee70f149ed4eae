//! Reading a table of TOML field by field: what is wrong is noted with its line and field, and reading goes on.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::text;

/// How alike a known field must be to be suggested for an unknown one, from 0 to 1.
const SIMILAR: f64 = 0.8;
/// Of a text in the file, so much is shown in a message.
const MAX_SHOWN_BYTES: usize = 64;
/// Bytes of a file.
pub const MAX_FILE_BYTES: usize = 1 << 20;

type Table<'t> = DeTable<'t>;
type Value<'t> = Spanned<DeValue<'t>>;

/// Something in a file that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The field, such as `group[2].cadence.mean`; empty for the file's syntax.
    pub field: String,
    /// What is wrong, and what is expected.
    pub message: String,
}

/// Why a file cannot be used: every problem in it, in order of lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct FileError {
    /// The file.
    pub file: String,
    /// What is wrong with it.
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
pub struct Reader<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

/// A table being read.
pub struct Section<'r> {
    reader: &'r Reader<'r>,
    path: String,
    at: usize,
    table: &'r Table<'r>,
    known: Vec<&'static str>,
}

/// What stands for a section.
pub enum Given<'r> {
    /// Nothing: it is as in the group that this one follows.
    Nothing,
    /// `false`: there is none.
    Off,
    /// A table.
    Section(Section<'r>),
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    pub fn problem(&self, at: usize, field: impl Into<String>, message: impl Display) {
        let problem = Problem { line: self.line(at), field: field.into(), message: message.to_string() };
        self.problems.borrow_mut().push(problem);
    }

    /// The whole text as a table; `None`, with the problems noted, where it is no TOML.
    pub fn table(&self) -> Option<Spanned<Table<'t>>> {
        if self.text.len() > MAX_FILE_BYTES {
            self.problem(0, "", format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20));
            return None;
        }
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            self.problem(error.span().map_or(0, |span| span.start), "", error.message());
        }
        // What else is wrong with a text that is no TOML follows from that.
        errors.is_empty().then_some(table)
    }

    /// What was read, unless there is any problem.
    ///
    /// # Errors
    /// Every problem, in order of lines.
    pub fn finish<T>(self, read: T, file: &str) -> Result<T, FileError> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() { Ok(read) } else { Err(FileError { file: file.to_owned(), problems }) }
    }
}

impl<'r> Section<'r> {
    pub fn new(reader: &'r Reader<'r>, path: impl Into<String>, at: usize, table: &'r Table<'r>) -> Self {
        Self { reader, path: path.into(), at, table, known: Vec::new() }
    }

    /// The name of one of its fields in messages.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn find(&self, name: &str) -> Option<&'r Value<'r>> {
        self.table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    fn field(&mut self, name: &'static str) -> Option<&'r Value<'r>> {
        self.known.push(name);
        self.find(name)
    }

    /// Notes what is wrong with a field; with the table, where the field is not there.
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

    /// A whole number within bounds.
    pub fn whole(&mut self, name: &'static str, range: RangeInclusive<u32>, why: &str, to: &mut u32) {
        let Some(value) = self.field(name) else { return };
        let number = value.get_ref().as_integer().and_then(|n| i128::from_str_radix(n.as_str(), n.radix()).ok());
        match number.and_then(|number| u32::try_from(number).ok()).filter(|number| range.contains(number)) {
            Some(number) => *to = number,
            None => {
                let (low, high) = (range.start(), range.end());
                self.expected(name, value, &format!("a whole number from {low} to {high}: {why}"));
            }
        }
    }

    /// The same, of a field that may be left out.
    pub fn whole_or(&mut self, name: &'static str, range: RangeInclusive<u32>, why: &str, to: &mut Option<u32>) {
        if self.has(name) {
            let mut number = *range.start();
            self.whole(name, range, why, &mut number);
            *to = Some(number);
        } else {
            self.known.push(name);
        }
    }

    /// A number within bounds.
    pub fn number(&mut self, name: &'static str, range: RangeInclusive<f64>, why: &str, to: &mut f64) {
        let Some(value) = self.field(name) else { return };
        let number = match value.get_ref() {
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64),
            DeValue::Float(n) => n.as_str().parse().ok(),
            _ => None,
        };
        // NaN is in no range.
        match number.filter(|number| range.contains(number)) {
            Some(number) => *to = number,
            None => {
                let (low, high) = (range.start(), range.end());
                self.expected(name, value, &format!("a number from {low} to {high}: {why}"));
            }
        }
    }

    /// The same, of a field that may be left out.
    pub fn number_or(&mut self, name: &'static str, range: RangeInclusive<f64>, why: &str, to: &mut Option<f64>) {
        if self.has(name) {
            let mut number = *range.start();
            self.number(name, range, why, &mut number);
            *to = Some(number);
        } else {
            self.known.push(name);
        }
    }

    /// A time with its unit, within bounds.
    pub fn time(&mut self, name: &'static str, range: RangeInclusive<Duration>, why: &str, to: &mut Duration) {
        let Some(value) = self.field(name) else { return };
        let read = value.get_ref().as_str().map(text::duration);
        let (low, high) = (text::short(*range.start()), text::short(*range.end()));
        match read {
            Some(Ok(time)) if range.contains(&time) => *to = time,
            Some(Ok(_)) => self.expected(name, value, &format!("a time from {low} to {high}: {why}")),
            Some(Err(message)) => self.reader.problem(
                value.span().start,
                self.path_of(name),
                format!("{}: {message}", shown(value.get_ref())),
            ),
            None => self.expected(name, value, "a time with its unit in quotes, such as \"10m\""),
        }
    }

    /// The same, of a field that may be left out.
    pub fn time_or(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Duration>,
        why: &str,
        to: &mut Option<Duration>,
    ) {
        if self.has(name) {
            let mut time = *range.start();
            self.time(name, range, why, &mut time);
            *to = Some(time);
        } else {
            self.known.push(name);
        }
    }

    pub fn switch(&mut self, name: &'static str, to: &mut bool) {
        let Some(value) = self.field(name) else { return };
        match value.get_ref().as_bool() {
            Some(is_on) => *to = is_on,
            None => self.expected(name, value, "true or false"),
        }
    }

    pub fn switch_or(&mut self, name: &'static str, to: &mut Option<bool>) {
        if self.has(name) {
            let mut is_on = false;
            self.switch(name, &mut is_on);
            *to = Some(is_on);
        } else {
            self.known.push(name);
        }
    }

    /// One of some words.
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

    pub fn word_or<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        named: fn(T) -> &'static str,
        to: &mut Option<T>,
    ) {
        match all {
            [first, ..] if self.has(name) => {
                let mut choice = *first;
                self.word(name, all, named, &mut choice);
                *to = Some(choice);
            }
            _ => self.known.push(name),
        }
    }

    /// A list of words, at least one, each once.
    pub fn words_or<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        named: fn(T) -> &'static str,
        to: &mut Option<Vec<T>>,
    ) {
        if !self.has(name) {
            self.known.push(name);
            return;
        }
        let said = self.list(name);
        let found: Vec<_> = said.iter().filter_map(|word| all.iter().find(|choice| named(**choice) == word)).collect();
        let repeated = said.iter().enumerate().any(|(at, word)| said[..at].contains(word));
        if found.is_empty() || found.len() < said.len() || repeated {
            let words: Vec<_> = all.iter().map(|choice| format!("\"{}\"", named(*choice))).collect();
            self.wrong(name, format!("expected one or more of {}, each once", words.join(", ")));
            return;
        }
        *to = Some(found.into_iter().copied().collect());
    }

    /// A text that is not empty.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        let value = self.field(name)?;
        let read = value.get_ref().as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        if read.is_none() {
            self.expected(name, value, "a text in quotes");
        }
        read
    }

    /// A list of texts.
    pub fn list(&mut self, name: &'static str) -> Vec<String> {
        let Some(value) = self.field(name) else { return Vec::new() };
        let text = |value: &Value<'_>| value.get_ref().as_str().map(str::to_owned);
        let texts = value.get_ref().as_array().and_then(|list| list.iter().map(text).collect::<Option<Vec<_>>>());
        if texts.is_none() {
            self.expected(name, value, "a list of texts in quotes");
        }
        texts.unwrap_or_default()
    }

    /// A table of texts.
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

    /// A table below this one.
    pub fn section(&mut self, name: &'static str) -> Option<Section<'r>> {
        let value = self.field(name)?;
        let Some(table) = value.get_ref().as_table() else {
            self.expected(name, value, &format!("a section [{}]", self.path_of(name)));
            return None;
        };
        Some(Section::new(self.reader, self.path_of(name), value.span().start, table))
    }

    /// Whether a field that can be switched off is.
    pub fn is_off(&mut self, name: &'static str) -> bool {
        let is_off = self.find(name).is_some_and(|value| value.get_ref().as_bool() == Some(false));
        if is_off {
            self.known.push(name);
        }
        is_off
    }

    /// A table below this one that can be switched off.
    pub fn optional(&mut self, name: &'static str) -> Given<'r> {
        if self.is_off(name) {
            return Given::Off;
        }
        self.section(name).map_or(Given::Nothing, Given::Section)
    }

    /// The tables of a list, `[[name]]`.
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

    /// Notes every field that nobody asked for.
    pub fn finish(self) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let similarity = |known: &str| strsim::jaro_winkler(&name.to_lowercase().replace('-', "_"), known);
            let nearest = self.known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
            let message = match nearest.filter(|known| similarity(known) >= SIMILAR) {
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

/// A value as it was written, or what kind it is.
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

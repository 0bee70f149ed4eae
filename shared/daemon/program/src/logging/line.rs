//! How a log line looks.

use std::borrow::Cow;
use std::fmt::{self, Debug, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serializer;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Full, Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{self as lines, FmtContext};
use tracing_subscriber::registry::LookupSpan;

use super::list;

/// Bytes of a line: a longer one is cut.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Bytes of the message that are left of a JSON line which is too long.
const MAX_CUT_MESSAGE_BYTES: usize = 1024;
/// Where lines of the log about itself come from.
const OWN_TARGET: &str = "assay_program::logging";
/// Names in a JSON line that no field may have: it gets an underscore behind its own.
const FIXED: [&str; 4] = ["timestamp", "level", "target", "message"];

/// The readers of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStyle {
    /// People.
    Human,
    /// Programs: one JSON object per line.
    Json,
    Worker,
}

pub struct LineFormat {
    /// Whether the output shows colours.
    colour: Arc<AtomicBool>,
    form: Form,
}

enum Form {
    Human(Format<Full, SystemTime>),
    Json,
    Worker(Format<Full, ()>),
}

impl LineFormat {
    /// Lines of this look, in colours while `colour` says so.
    pub fn new(look: LogStyle, colour: Arc<AtomicBool>) -> Self {
        let form = match look {
            LogStyle::Human => Form::Human(lines::format()),
            LogStyle::Json => Form::Json,
            LogStyle::Worker => Form::Worker(lines::format().without_time().with_target(false)),
        };
        Self { colour, form }
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        match &self.form {
            Form::Human(human) if self.colour.load(Ordering::Relaxed) => human.format_event(ctx, out, event),
            // A new writer shows no colours.
            Form::Human(human) => human.format_event(ctx, Writer::new(&mut out), event),
            Form::Worker(worker) => worker.format_event(ctx, Writer::new(&mut out), event),
            Form::Json => out.write_str(&json(event)),
        }
    }
}

/// Fields of lines for people and of workers. Control characters are escaped: peers wrote parts of them, and would make
/// lines or colours of their own.
pub fn human_fields() -> impl for<'w> FormatFields<'w> + 'static {
    debug_fn(|out, field, value| match field.name() {
        "message" => write!(Escaped(out), "{value:?}"),
        name if name.starts_with("log.") => Ok(()),
        // Of this program's own symbols, a line for each call.
        "backtrace" => write!(out, "backtrace={value:?}"),
        name if out.has_ansi_escapes() => {
            write!(out, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
            write!(Escaped(out), "{value:?}")
        }
        name => write!(Escaped(out), "{name}={value:?}"),
    })
    .delimited(" ")
}

/// A writer that escapes control characters.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            match part.chars().next_back().filter(|last| last.is_control()) {
                Some(last) => write!(self.0, "{}{}", &part[..part.len() - last.len_utf8()], last.escape_default())?,
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// An event as a JSON object: its fields beside its time, level, target and message.
fn json(event: &Event<'_>) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let level = event.metadata().level().as_str();
    let target = fields.target.as_deref().unwrap_or_else(|| event.metadata().target());
    object(level, target, &fields.message, &fields.others)
}

fn object(level: &str, target: &str, message: &str, fields: &[(Cow<'static, str>, Value)]) -> String {
    let line = entries(level, target, message, fields);
    if line.len() <= MAX_LINE_BYTES {
        return line;
    }
    let cut = [(Cow::Borrowed("cut_bytes"), Value::from(line.len()))];
    entries(level, target, cut_to(message, MAX_CUT_MESSAGE_BYTES), &cut)
}

fn entries(level: &str, target: &str, message: &str, fields: &[(Cow<'static, str>, Value)]) -> String {
    let fixed = [("timestamp", now().into()), ("level", level.into()), ("target", target.into())];
    let fixed = fixed.into_iter().chain([("message", Value::from(message))]).map(|(name, value)| (name.into(), value));
    let mut line = Vec::new();
    // Writing into memory cannot fail, and every name is a text.
    let _ = serde_json::Serializer::new(&mut line).collect_map(fixed.chain(fields.iter().cloned()));
    line.push(b'\n');
    String::from_utf8_lossy(&line).into_owned()
}

/// The time as RFC 3339, in UTC.
fn now() -> String {
    let mut time = String::new();
    // Writing into memory cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

#[derive(Default)]
struct Fields {
    message: String,
    /// Where an event of the `log` crate comes from.
    target: Option<String>,
    others: Vec<(Cow<'static, str>, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = text(value),
            "log.target" => self.target = Some(text(value)),
            name if name.starts_with("log.") => {}
            name if FIXED.contains(&name) => self.others.push((format!("{name}_").into(), value)),
            name => self.others.push((name.into(), value)),
        }
    }
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, list::value_of(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}

/// A line with its end, cut where it is too long.
pub fn bounded(line: &[u8]) -> Cow<'_, [u8]> {
    if line.len() <= MAX_LINE_BYTES {
        return line.into();
    }
    let text = String::from_utf8_lossy(line);
    let kept = cut_to(&text, MAX_LINE_BYTES - 64);
    format!("{kept} … ({} bytes in all)\n", line.len()).into_bytes().into()
}

/// A line that says how many lines were lost, and why.
pub fn lost(look: LogStyle, lines: u64, why: &str) -> Vec<u8> {
    let count = if lines == 1 { "1 log line was lost".to_owned() } else { format!("{lines} log lines were lost") };
    let message = format!("{count}: {why}");
    match look {
        LogStyle::Human => format!("{} ERROR {OWN_TARGET}: {message}\n", now()),
        LogStyle::Json => object("ERROR", OWN_TARGET, &message, &[("lost_lines".into(), lines.into())]),
        LogStyle::Worker => format!("ERROR {message}\n"),
    }
    .into_bytes()
}

/// The first characters of a text, at most `bytes` long.
fn cut_to(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    /// The JSON lines of the events that `log` emits.
    fn logged(log: impl FnOnce()) -> Vec<Value> {
        #[derive(Clone, Default)]
        struct Lines(Arc<Mutex<Vec<Value>>>);
        impl<S: Subscriber> Layer<S> for Lines {
            fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
                let line = json(event);
                assert_eq!(line.find('\n'), Some(line.len() - 1), "one line: {line}");
                self.0.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        }
        let lines = Lines::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.clone()), log);
        Arc::try_unwrap(lines.0).map_or_else(|lines| lines.lock().unwrap().clone(), |lines| lines.into_inner().unwrap())
    }

    #[test]
    fn a_json_line_has_numbers_arrays_and_texts() {
        let lines = logged(|| {
            let reasons = list(["probe_late", "a, b"]);
            tracing::warn!(reasons, tops = 1.5, n = 2048_u32, less = -1, held = true, who = %"x\ny", level = "own", "verdict: {}", 7);
        });
        let line = &lines[0];
        assert_eq!(line["reasons"], serde_json::json!(["probe_late", "a, b"]));
        assert_eq!((&line["tops"], &line["n"]), (&1.5.into(), &2048.into()));
        assert_eq!((&line["less"], &line["held"], &line["who"]), (&(-1).into(), &true.into(), &"x\ny".into()));
        assert_eq!((&line["level"], &line["level_"]), (&"WARN".into(), &"own".into()));
        assert_eq!((&line["message"], &line["target"]), (&"verdict: 7".into(), &module_path!().into()));
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.len() == 27 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    }

    /// Regression test: the answer of a witness made lines of its own.
    #[test]
    fn peers_write_no_lines_of_their_own() {
        #[derive(Clone, Default)]
        struct Lines(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        for (colour, look) in [(false, LogStyle::Human), (true, LogStyle::Human), (false, LogStyle::Worker)] {
            let (lines, forged) = (Lines::default(), "x\r\n\u{1b}[2J\u{9b}ERROR ä");
            let (format, writer) = (LineFormat::new(look, Arc::new(AtomicBool::new(colour))), lines.clone());
            let layer = lines::layer().with_ansi(colour).fmt_fields(human_fields()).event_format(format);
            let subscriber = tracing_subscriber::registry().with(layer.with_writer(move || writer.clone()));
            tracing::subscriber::with_default(subscriber, || tracing::warn!(n = 7, who = %forged, "of {forged}"));
            let line = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            let escaped = r"x\r\n\u{1b}[2J\u{9b}ERROR ä";
            assert_eq!(line.matches(escaped).count(), 2, "{line:?}");
            assert_eq!(line.find('\n'), Some(line.len() - 1), "{line:?}");
            assert!(colour || line.ends_with(&format!("of {escaped} n=7 who={escaped}\n")), "{line:?}");
        }
    }

    #[test]
    fn a_json_line_that_is_too_long_stays_json() {
        let lines = logged(|| tracing::info!(detail = "ä".repeat(MAX_LINE_BYTES), "{}", "ö".repeat(2000)));
        assert_eq!(lines[0]["message"], "ö".repeat(MAX_CUT_MESSAGE_BYTES / 2));
        assert!(lines[0]["cut_bytes"].as_u64().unwrap() > 2 * MAX_LINE_BYTES as u64);
        assert_eq!(lines[0]["detail"], Value::Null);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        assert_eq!(bounded(b"short\n"), &b"short\n"[..]);
        let long = "ä".repeat(MAX_LINE_BYTES);
        let cut = String::from_utf8(bounded(long.as_bytes()).into_owned()).unwrap();
        assert!(
            cut.len() <= MAX_LINE_BYTES && cut.ends_with("ä … (32768 bytes in all)\n"),
            "{}",
            &cut[cut.len() - 50..]
        );
    }

    #[test]
    fn a_loss_is_told_in_the_log_s_own_form() {
        let human = String::from_utf8(lost(LogStyle::Human, 2, "no space")).unwrap();
        assert!(human.ends_with("Z ERROR assay_program::logging: 2 log lines were lost: no space\n"), "{human}");
        let json: Value = serde_json::from_slice(&lost(LogStyle::Json, 1, "no space")).unwrap();
        assert_eq!((&json["lost_lines"], &json["message"]), (&1.into(), &"1 log line was lost: no space".into()));
    }
}

//! Filters of the log: a level, or `target=level` with commas between. Other words are refused: the library would take
//! `warning` for a target, and log nothing else.

use tracing_subscriber::EnvFilter;

/// The levels, from the quietest.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Names of levels in other programs, with ours.
const SYNONYMS: [(&str, &str); 10] = [
    ("none", "off"),
    ("quiet", "off"),
    ("silent", "off"),
    ("critical", "error"),
    ("fatal", "error"),
    ("notice", "info"),
    ("normal", "info"),
    ("verbose", "debug"),
    ("all", "trace"),
    ("max", "trace"),
];
/// Directives for verbose libraries, each with the filter's level at which it applies: wgpu logs at every search for
/// devices, its compiler each expression of a shader, and sqlx each error that the program tells too.
const QUIETER: [(&str, &str); 3] = [("info", "wgpu_hal=warn"), ("info", "sqlx=error"), ("debug", "naga=info")];
/// How similar a word must be to a level for that to be proposed (Jaro-Winkler, 0 to 1).
const SIMILAR: f64 = 0.75;

/// Whether every part is a level, or a target with a level.
///
/// # Errors
/// The error, with the meant word where it can be guessed.
pub fn check(filter: &str) -> Result<(), String> {
    parse(filter).map(drop)
}

pub fn parse(filter: &str) -> Result<EnvFilter, String> {
    let directives = filter.split(',').map(checked).collect::<Result<Vec<_>, _>>()?;
    let named = |level: &str| directives.iter().any(|directive| directive.eq_ignore_ascii_case(level));
    let quieter = QUIETER.iter().filter(|(level, _)| named(level)).map(|(_, quieter)| quieter.to_string());
    // Of the same target the last one counts.
    let directives: Vec<_> = quieter.chain(directives.iter().cloned()).collect();
    EnvFilter::builder().parse(directives.join(",")).map_err(|error| format!("{}: {error}", expected()))
}

fn expected() -> String {
    format!("expected a level ({}) or target=level, with commas between", LEVELS.join(", "))
}

/// A directive without the blanks around its parts.
fn checked(directive: &str) -> Result<String, String> {
    let directive = directive.trim();
    let (target, level) = match directive.rsplit_once('=') {
        // A value of a span's field has an = of its own.
        Some((target, level)) if !level.contains(['}', ']']) => (Some(target.trim()), level.trim()),
        _ if directive.ends_with(']') => return Ok(directive.to_owned()),
        _ => (None, directive),
    };
    if target == Some("") {
        return Err(format!("`{directive}` names no target: {}", expected()));
    }
    if is_level(level) {
        return Ok(target.map_or_else(|| level.to_owned(), |target| format!("{target}={level}")));
    }
    let hint = match meant(level) {
        Some(level) => format!("did you mean `{level}`?"),
        None if target.is_none() && is_target(level) => format!("a target needs a level, such as `{level}=debug`"),
        None => expected(),
    };
    if level.is_empty() { Err(expected()) } else { Err(format!("unknown level `{level}`: {hint}")) }
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

fn is_target(word: &str) -> bool {
    word.contains("::") || word.contains('_')
}

fn meant(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    if is_target(&word) {
        return None;
    }
    if let Some((_, level)) = SYNONYMS.iter().find(|(synonym, _)| *synonym == word) {
        return Some(level);
    }
    let similarity = |level: &&&str| strsim::jaro_winkler(&word, level);
    let nearest = LEVELS.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
    (similarity(&nearest) >= SIMILAR).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_quieter_with_info_unless_it_is_named() {
        let of = |filter: &str| parse(filter).unwrap().to_string();
        let names = |filter: &str, directive: &str| of(filter).split(',').any(|part| part == directive);
        assert!(names("info", "wgpu_hal=warn") && names("INFO,h2=off", "sqlx=error"));
        assert!(names("info,wgpu_hal=debug", "wgpu_hal=debug") && !names("info,wgpu_hal=debug", "wgpu_hal=warn"));
        assert!(
            names("debug", "naga=info") && names("debug,naga=debug", "naga=debug") && !of("trace").contains("naga")
        );
        for filter in ["off", "warn", "debug", "trace", "warn,assay_worker=info"] {
            assert!(!of(filter).contains("wgpu_hal"), "{filter}");
        }
    }

    #[test]
    fn levels_and_targets_with_levels_are_taken() {
        for filter in [
            "info",
            "WARN",
            "off",
            "trace",
            "info,assay_worker=debug",
            "info, assay_worker = debug",
            "assay_worker::link=trace,h2=off",
            "warn,[request{id=7}]=debug",
            "warn,[request]",
        ] {
            assert_eq!(check(filter), Ok(()), "{filter}");
        }
    }

    #[test]
    fn what_is_no_level_is_refused_with_what_was_meant() {
        for (filter, meant) in [
            ("warning", "did you mean `warn`?"),
            ("infos", "did you mean `info`?"),
            ("inof", "did you mean `info`?"),
            ("verbose", "did you mean `debug`?"),
            ("err", "did you mean `error`?"),
            ("debug,h2=wran", "did you mean `warn`?"),
            ("assay_worker", "such as `assay_worker=debug`"),
            ("info,assay_worker::link", "such as `assay_worker::link=debug`"),
            ("5", "unknown level `5`: expected a level (off, error,"),
            ("xyzzy", "unknown level `xyzzy`: expected a level (off, error,"),
            ("", "expected a level (off, error,"),
            ("info,", "expected a level (off, error,"),
            ("info,,debug", "expected a level (off, error,"),
            ("assay_worker=", "expected a level (off, error,"),
            ("=debug", "names no target"),
            ("info;debug", "unknown level `info;debug`"),
            ("info debug", "unknown level `info debug`"),
        ] {
            let error = check(filter).unwrap_err();
            assert!(error.contains(meant), "{filter}: {error}");
        }
    }
}

//! Texts that another process or host wrote, before a person sees them.
//!
//! Printable are letters, marks on them, numbers, punctuation and symbols of assigned scripts, and the space; nothing
//! else. A character that controls a terminal, breaks a line, turns the direction of writing or cannot be seen at all
//! could make a text look like another one. [`quoted`] is for a text among other words: it ends where its quotes do.

use std::fmt;

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Marks in a row on one character: no script in use needs more.
const MAX_MARKS: u32 = 4;

/// Whether a text can be printed as it is.
#[must_use]
pub fn is_printable(text: &str) -> bool {
    let mut marks = CombiningMarks::default();
    text.chars().all(|c| marks.allow(c))
}

/// A printable text of at most `max` bytes: all other characters become spaces, the end is cut at a character.
pub fn printable(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    let mut marks = CombiningMarks::default();
    for c in text.chars() {
        let c = if marks.allow(c) { c } else { ' ' };
        if out.len() + c.len_utf8() > max {
            break;
        }
        out.push(c);
    }
    out
}

/// A text in quotes, made printable, for a place among fields or other words: quotes and backslashes in it are escaped.
pub const fn quoted(text: &str) -> QuotedText<'_> {
    QuotedText(text)
}

/// A text that prints in quotes, as [`quoted`] returns it.
#[derive(Debug, Clone, Copy)]
pub struct QuotedText<'a>(&'a str);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;

        f.write_char('"')?;
        for c in printable(self.0, usize::MAX).chars() {
            if matches!(c, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        f.write_char('"')
    }
}

/// Counts the marks on a character. The first character has nothing before it that a mark may change.
struct CombiningMarks(u32);

impl Default for CombiningMarks {
    fn default() -> Self {
        Self(MAX_MARKS)
    }
}

impl CombiningMarks {
    /// Whether a character may come next; if not, something else with no marks on it does.
    fn allow(&mut self, c: char) -> bool {
        if c.is_ascii() {
            self.0 = 0;
            return matches!(c, ' '..='~');
        }
        let allowed = is_visible(c) && (!is_mark(c) || self.0 < MAX_MARKS);
        self.0 = if allowed && is_mark(c) { self.0 + 1 } else { 0 };
        allowed
    }
}

fn is_mark(c: char) -> bool {
    c.general_category_group() == GeneralCategoryGroup::Mark
}

/// Letters, marks, numbers, punctuation and symbols, of all but ASCII.
fn is_visible(c: char) -> bool {
    use GeneralCategoryGroup::{Letter, Mark, Number, Other, Punctuation, Separator, Symbol};

    match c.general_category_group() {
        Letter | Mark | Number | Punctuation | Symbol => !is_blank(c),
        Separator | Other => false,
    }
}

/// Characters of visible categories that show nothing: those of the property `Default_Ignorable_Code_Point`, and the
/// empty Braille pattern.
const fn is_blank(c: char) -> bool {
    matches!(c,
        '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_cut_at_a_character_and_made_printable() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c", 99), "a [2Jb c");
        assert_eq!(printable("aé", 2), "a");
    }

    #[test]
    fn texts_of_every_script_are_printable() {
        for text in [
            "",
            " ",
            "NVIDIA H200 (R) \u{ae}™",
            "é ✓ €",
            "GeForce™ 四零九零",
            "Ελληνικά",
            "русский",
            "日本語テキスト",
            "한국어",
            "हिन्दी",
            "ภาษาไทยที่",
            "עִבְרִית",
            "العربية",
            "Tiê\u{301}ng Viê\u{323}\u{302}t",
            "😀 n² ½ ∑",
        ] {
            assert!(is_printable(text), "{text}");
            assert_eq!(printable(text, usize::MAX), text);
        }
    }

    #[test]
    fn what_steers_hides_or_breaks_is_not_printable() {
        let hidden = [
            // Control characters, line and paragraph separators, other spaces.
            "\0",
            "\t",
            "\n",
            "\u{1b}",
            "\u{7f}",
            "\u{85}",
            "\u{9b}",
            "\u{2028}",
            "\u{2029}",
            "\u{a0}",
            "\u{2003}",
            "\u{3000}",
            "\u{202f}",
            "\u{1680}",
            // Direction of writing.
            "\u{61c}",
            "\u{200e}",
            "\u{200f}",
            "\u{202a}",
            "\u{202e}",
            "\u{2066}",
            "\u{2069}",
            // Without width, or ignorable.
            "\u{ad}",
            "\u{34f}",
            "\u{115f}",
            "\u{17b4}",
            "\u{180e}",
            "\u{180b}",
            "\u{200b}",
            "\u{200c}",
            "\u{200d}",
            "\u{2060}",
            "\u{2064}",
            "\u{206a}",
            "\u{2800}",
            "\u{3164}",
            "\u{fe0f}",
            "\u{feff}",
            "\u{ffa0}",
            "\u{fff9}",
            "\u{1d173}",
            "\u{e0001}",
            "\u{e0041}",
            "\u{e0100}",
            // Private use, unassigned, no character.
            "\u{e000}",
            "\u{f8ff}",
            "\u{10fffd}",
            "\u{378}",
            "\u{fffe}",
            "\u{ffff}",
            "\u{1ffff}",
        ];
        for hidden in hidden {
            let text = format!("a{hidden}b");
            assert!(!is_printable(&text), "{hidden:?}");
            assert_eq!(printable(&text, 99), "a b", "{hidden:?}");
        }
    }

    #[test]
    fn marks_stand_on_a_character_and_are_few() {
        let marks = |count| format!("a{}", "\u{301}".repeat(count));
        assert!(is_printable(&marks(4)) && !is_printable(&marks(5)) && !is_printable("\u{338}a"));
        assert_eq!(printable("\u{338}a", 9), " a");
        assert!(printable(&marks(1000), 99).chars().filter(|c| *c == ' ').count() > 7);
    }

    #[test]
    fn a_quoted_text_ends_where_its_quotes_do() {
        assert_eq!(quoted("x").to_string(), "\"x\"");
        assert_eq!(quoted("x\" devices=9 a=\"").to_string(), "\"x\\\" devices=9 a=\\\"\"");
        assert_eq!(quoted("x\\").to_string(), "\"x\\\\\"");
        assert_eq!(quoted("\u{301}\u{200b}\n").to_string(), "\"   \"");
    }

    proptest! {
        #[test]
        fn what_was_made_printable_is(text in any::<String>(), max in 0_usize..64) {
            let out = printable(&text, max);
            prop_assert!(out.len() <= max && is_printable(&out), "{:?}", out);
            if is_printable(&text) && text.len() <= max {
                prop_assert_eq!(&out, &text);
            }
        }
    }
}

//! Texts that another process or host wrote, before a person sees them.

/// Whether a text can be printed as it is: nothing in it steers a terminal.
#[must_use]
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(controls_a_terminal)
}

/// A printable text of at most `max` bytes: control characters become spaces, the end is cut at a character.
#[must_use]
pub fn printable(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars().map(|c| if controls_a_terminal(c) { ' ' } else { c }) {
        if out.len() + c.len_utf8() > max {
            break;
        }
        out.push(c);
    }
    out
}

/// The control characters proper, and those of Unicode that break lines or turn the direction of writing.
fn controls_a_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_character_and_made_printable() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c", 99), "a [2Jb c");
        assert_eq!(printable("aé", 2), "a");
        assert!(
            is_printable("é ✓") && !is_printable("\u{1b}[2J") && !is_printable("a\u{2066}b") && !is_printable("a\nb")
        );
    }
}

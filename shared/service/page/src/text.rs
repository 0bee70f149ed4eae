//! Texts and ids on a page. Texts of peers and operators are bounded, made printable and isolated, so that they change
//! neither the page nor the direction of the text beside them.

pub use assay_program::render::units::counted;
use assay_work::text::{is_printable, printable};
use maud::{Markup, html};

/// Bytes of a name that are shown.
const MAX_NAME_BYTES: usize = 96;
/// Bytes of a sentence that is shown, such as the detail of a reason.
const MAX_DETAIL_BYTES: usize = 1024;
/// Bytes of a text that is chosen by.
const MAX_CHOICE_BYTES: usize = 128;
/// Digits of an id where it is a link among others.
const SHORT: usize = 8;

/// The beginning of a text, at most `most` bytes.
fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The beginning of a text, printable, and whether that is not all of it.
fn cut(text: &str, max: usize) -> (String, bool) {
    // Looking at more of it than can be shown would cost time for nothing.
    let beginning = beginning(text, max + 1);
    let shown = printable(beginning, max);
    // An unprintable character became a space, which may have fewer bytes: characters are counted.
    let is_cut = beginning.len() < text.len() || shown.chars().count() < beginning.chars().count();
    (shown, is_cut)
}

/// Whether a text can be in a link or a choice of a form: it comes back from there as it is.
pub(crate) fn is_choice(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_CHOICE_BYTES && is_printable(text)
}

/// A name from a peer or an operator, in a place of its own.
pub fn name(text: &str) -> Markup {
    let (shown, is_cut) = cut(text, MAX_NAME_BYTES);
    html! { bdi { (shown) @if is_cut { "…" } } }
}

/// A sentence that may have others' words in it.
pub fn detail(text: &str) -> Markup {
    let (shown, is_cut) = cut(text, MAX_DETAIL_BYTES);
    html! { bdi { (shown) @if is_cut { "… (of " (text.len()) " bytes)" } } }
}

/// The validator's words with others' among them, as a sentence; text in backticks is code.
pub fn sentence(text: &str) -> Markup {
    let (shown, is_cut) = cut(text, MAX_DETAIL_BYTES);
    let shown = capital(&shown);
    let is_open = !shown.is_empty() && !shown.ends_with(['.', '!', '?']);
    html! {
        bdi {
            // Every second part stands in backticks, unless the closing one is missing.
            @let parts: Vec<_> = shown.split('`').collect();
            @for (index, part) in parts.iter().enumerate() {
                @if index % 2 == 1 && index + 1 < parts.len() { code { (part) } } @else { (part) }
            }
            @if is_cut { "… (of " (text.len()) " bytes)" } @else if is_open { "." }
        }
    }
}

/// The same where no markup can be: in a choice of a form.
pub fn option(text: &str) -> String {
    let (shown, is_cut) = cut(text, MAX_NAME_BYTES);
    if is_cut { shown + "…" } else { shown }
}

/// The first digits of an id.
pub fn short(id: &str) -> &str {
    beginning(id, SHORT)
}

/// An id in full, which can be copied.
pub fn whole_id(id: &str) -> Markup {
    let (shown, _) = cut(id, 2 * MAX_NAME_BYTES);
    html! { code.id data-copy { (shown) } }
}

/// A stable name, as people read it: `audit_element` as `audit element`.
pub fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// A text's first letter in upper case.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_is_bounded_escaped_and_isolated() {
        let html = name("<img src=x onerror=alert(1)>\u{202e}\u{1b}[2J").into_string();
        assert_eq!(html, "<bdi>&lt;img src=x onerror=alert(1)&gt;  [2J</bdi>");
        let long = name(&"A".repeat(64 << 10)).into_string();
        assert!(long.len() < 2 * MAX_NAME_BYTES && long.ends_with("…</bdi>"), "{long}");
    }

    #[test]
    fn a_sentence_begins_and_ends_as_one() {
        let html = sentence("resume it: `assay-validator resume` <b>").into_string();
        assert_eq!(html, "<bdi>Resume it: <code>assay-validator resume</code> &lt;b&gt;.</bdi>");
        assert_eq!(sentence("Done.").into_string(), "<bdi>Done.</bdi>");
        assert_eq!(sentence("a `b").into_string(), "<bdi>A b.</bdi>");
    }

    #[test]
    fn a_cut_falls_on_a_character() {
        let text = "é".repeat(MAX_NAME_BYTES);
        let (shown, is_cut) = cut(&text, MAX_NAME_BYTES - 1);
        assert!(is_cut && shown.len() == MAX_NAME_BYTES - 2);
        assert_eq!(short("ééééé"), "éééé");
    }

    #[test]
    fn a_text_that_fits_is_whole() {
        assert_eq!(name("NVIDIA H200").into_string(), "<bdi>NVIDIA H200</bdi>");
        assert_eq!(detail(&"x".repeat(MAX_DETAIL_BYTES)).into_string().matches('x').count(), MAX_DETAIL_BYTES);
    }
}

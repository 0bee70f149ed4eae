//! Lists that come in pages.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most documents listed by a command.
pub const MAX_DOCUMENTS: u32 = 10_000;
/// The most bytes of a cursor: two keys, and the names around them.
pub const MAX_CURSOR_BYTES: usize = 512;

/// The end of a page: the next one begins after it. A cursor is valid only at the validator that issued it, for the
/// same query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(value_type = String, min_length = 2, max_length = 512, pattern = "^[A-Za-z0-9_-]+$")]
#[serde(transparent)]
pub struct Cursor(String);

/// A text is not a cursor of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cursor: this is not what `next` of a page of this list said")]
pub struct CursorError;

impl Cursor {
    /// The cursor after the item at this position.
    pub fn after(place: &impl Serialize) -> Self {
        // Texts and numbers always become JSON.
        Self(URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default()))
    }

    /// The position.
    ///
    /// # Errors
    /// [`CursorError`].
    pub fn place<T: DeserializeOwned>(&self) -> Result<T, CursorError> {
        if self.0.len() > MAX_CURSOR_BYTES {
            return Err(CursorError);
        }
        let bytes = URL_SAFE_NO_PAD.decode(&self.0).map_err(|_| CursorError)?;
        serde_json::from_slice(&bytes).map_err(|_| CursorError)
    }

    /// The text for an address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Listed)]
pub struct ListPage<T> {
    /// Items of this page.
    pub items: Vec<T>,
    /// `cursor` of the next page; null on the last one.
    pub next: Option<Cursor>,
}

impl<T> ListPage<T> {
    /// A whole list.
    pub const fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// The first `limit` of these, of which one more was requested; `place` returns an item's position.
    pub fn page<P: Serialize>(mut items: Vec<T>, limit: u32, place: impl Fn(&T) -> P) -> Self {
        let is_last = items.len() <= limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| !is_last).map(|last| Cursor::after(&place(last)));
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_gives_its_place_back() {
        let place = (1_700_000_000_000_i64, "ab".repeat(32));
        let cursor = Cursor::after(&place);
        assert_eq!(cursor.place(), Ok(place));
        assert!(cursor.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        assert_eq!(cursor.place::<Vec<String>>(), Err(CursorError), "of another list");
        for text in ["", "%", "AAAA", &"A".repeat(MAX_CURSOR_BYTES + 4)] {
            assert_eq!(Cursor(text.to_owned()).place::<String>(), Err(CursorError), "{text}");
        }
    }

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let page = ListPage::page(vec![1, 2, 3], 2, |item| *item);
        assert_eq!((page.items, page.next.unwrap().place()), (vec![1, 2], Ok(2)));
        assert_eq!(ListPage::page(vec![1, 2], 2, |item| *item), ListPage::all(vec![1, 2]));
        assert_eq!(ListPage::page(Vec::<u32>::new(), 2, |item| *item).next, None);
    }
}

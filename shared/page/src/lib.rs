//! The pages of a validator, as HTML: pure functions of the API's documents, with the charts, styles and script that they
//! need. Nothing is loaded from elsewhere.
//!
//! A page is complete without its script, which only brings it up to date. What others wrote goes through [`text`] before
//! it stands on a page, and `maud` escapes all that is not markup.

#![forbid(unsafe_code)]

mod assets;
pub mod chart;
mod frame;
pub mod icon;
pub mod text;
pub mod time;
mod verdict;
pub mod words;

pub use self::assets::{Asset, SCRIPT, SIGN, STYLE, assets};
pub use self::frame::{Frame, Viewer};
pub use self::verdict::{VerdictView, verdict};

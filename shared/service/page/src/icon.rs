//! Signs of outcomes and states: each has a shape of its own, so that colour alone carries no meaning.

use maud::{Markup, PreEscaped, html};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icon {
    /// A check mark in a circle.
    Pass,
    /// A cross in an octagon.
    Fail,
    /// A question mark in a diamond.
    Unclear,
    /// An exclamation mark in a triangle.
    Doubt,
    /// A clock.
    Clock,
    /// A lock.
    Lock,
    /// A dashed circle.
    Start,
    /// Two bars.
    Pause,
    /// A bar in a circle.
    Barred,
    /// A filled disc.
    Online,
    /// An empty circle.
    Offline,
    /// A triangle that points to the right.
    Runs,
}

/// The meaning of a sign for the fleet's operators: the colour beside its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing is to be done.
    Good,
    /// It speaks against the miner.
    Bad,
    /// An operator should check it.
    Warn,
    /// Neither good nor bad.
    Calm,
}

impl Tone {
    /// The class of the stylesheet.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Calm => "calm",
        }
    }
}

impl Icon {
    const ALL: [(Self, &'static str); 12] = [
        (Self::Pass, r#"<circle cx="8" cy="8" r="7"/><path class="cut" d="M4.7 8.3l2.3 2.3 4.4-4.9"/>"#),
        (
            Self::Fail,
            r#"<path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z"/><path class="cut" d="M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"/>"#,
        ),
        (
            Self::Unclear,
            r#"<path d="M8 .6L15.4 8 8 15.4.6 8z"/><path class="cut" d="M6.2 6.4a1.8 1.8 0 1 1 2.6 1.7c-.5.2-.8.6-.8 1.1M8 11.2v.2"/>"#,
        ),
        (Self::Doubt, r#"<path d="M8 1.2l7.2 13H.8z"/><path class="cut" d="M8 6v4M8 12v.2"/>"#),
        (Self::Clock, r#"<circle cx="8" cy="8" r="7"/><path class="cut" d="M8 4v4.3l2.8 1.7"/>"#),
        (
            Self::Lock,
            r#"<path class="line" d="M5 7V4.8a3 3 0 0 1 6 0V7"/><rect x="2.6" y="7" width="10.8" height="8" rx="1"/>"#,
        ),
        (Self::Start, r#"<circle class="line dash" cx="8" cy="8" r="6.2"/>"#),
        (
            Self::Pause,
            r#"<rect x="3" y="2" width="3.6" height="12" rx="1"/><rect x="9.4" y="2" width="3.6" height="12" rx="1"/>"#,
        ),
        (Self::Barred, r#"<circle cx="8" cy="8" r="7"/><path class="cut" d="M4.5 8h7"/>"#),
        (Self::Online, r#"<circle cx="8" cy="8" r="4"/>"#),
        (Self::Offline, r#"<circle class="line" cx="8" cy="8" r="3.6"/>"#),
        (Self::Runs, r#"<path d="M4 2.5l9 5.5-9 5.5z"/>"#),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unclear => "unclear",
            Self::Doubt => "doubt",
            Self::Clock => "clock",
            Self::Lock => "lock",
            Self::Start => "start",
            Self::Pause => "pause",
            Self::Barred => "barred",
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Runs => "runs",
        }
    }

    /// The sign, always with words beside it.
    pub fn svg(self) -> Markup {
        html! {
            svg.icon viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false" {
                (PreEscaped(format!("<use href=\"#icon-{}\"/>", self.name())))
            }
        }
    }
}

/// The shapes, once for a page.
pub fn shapes() -> Markup {
    html! {
        svg.shapes width="0" height="0" aria-hidden="true" focusable="false" {
            @for (icon, shape) in Icon::ALL {
                symbol id={ "icon-" (icon.name()) } viewBox="0 0 16 16" { (PreEscaped(shape)) }
            }
        }
    }
}

/// A sign and its word.
pub fn badge(icon: Icon, tone: Tone, word: &str) -> Markup {
    html! { span.badge.(tone.class()) { (icon.svg()) span { (word) } } }
}

//! Signs of outcomes and states: each has a shape of its own, so that colour alone carries no meaning.

use maud::{Markup, PreEscaped, html};

assay_work::names! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Icon {
        /// A check mark in a circle.
        Pass = "pass",
        /// A cross in an octagon.
        Fail = "fail",
        /// A question mark in a diamond.
        Unclear = "unclear",
        /// An exclamation mark in a triangle.
        Doubt = "doubt",
        /// A clock.
        Clock = "clock",
        /// A lock.
        Lock = "lock",
        /// A dashed circle.
        Start = "start",
        /// Two bars.
        Pause = "pause",
        /// A bar in a circle.
        Barred = "barred",
        /// A filled disc.
        Online = "online",
        /// An empty circle.
        Offline = "offline",
        /// A triangle that points to the right.
        Runs = "runs",
    }
}

assay_work::names! {
    /// The meaning of a sign for the fleet's operators: the colour beside its shape.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Tone {
        /// Nothing is to be done.
        Good = "good",
        /// It speaks against the miner.
        Bad = "bad",
        /// An operator should check it.
        Warn = "warn",
        /// Neither good nor bad.
        Calm = "calm",
    }
}

impl Icon {
    const SHAPES: [(Self, &'static str); 12] = [
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
            @for (icon, shape) in Icon::SHAPES {
                symbol id={ "icon-" (icon.name()) } viewBox="0 0 16 16" { (PreEscaped(shape)) }
            }
        }
    }
}

/// A sign and its word.
pub fn badge(icon: Icon, tone: Tone, word: &str) -> Markup {
    html! { span.badge.(tone.name()) { (icon.svg()) span { (word) } } }
}

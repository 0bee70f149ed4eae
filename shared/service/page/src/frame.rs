//! The common frame of all pages: head, navigation, the viewer, and the time of the page.

use assay_api::Role;
use maud::{DOCTYPE, Markup, html};

use crate::assets::{SCRIPT, STYLE};
use crate::{icon, text, time};

/// Who looks at a page.
#[derive(Debug, Clone, Copy)]
pub struct Viewer<'a> {
    /// The name of the token or of another caller.
    pub name: &'a str,
    /// The role: actions beyond it are not offered.
    pub role: Role,
    /// Whether signing out means something: the browser holds a token.
    pub is_signed_in: bool,
}

/// The common parts of all pages.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Who looks; `None` before anybody signed in.
    pub viewer: Option<Viewer<'a>>,
    pub validator: &'a str,
    /// The version of its program.
    pub version: &'a str,
    /// When the page is made.
    pub now_ms: i64,
    /// The last event that the page shows: later events bring it up to date.
    pub last_event: i64,
    /// The result of the request before this page, shown once.
    pub notice: Option<&'a str>,
}

impl Frame<'_> {
    /// Whether actions that take this role are offered.
    pub fn may(&self, role: Role) -> bool {
        self.viewer.is_some_and(|viewer| viewer.role >= role)
    }
}

/// Where a page is in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NavSection {
    Fleet,
    Devices,
    Verdicts,
    Rounds,
    Elsewhere,
}

/// The events that bring a page up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiveFilter<'a> {
    /// It stays as it is.
    Not,
    /// Any event.
    All,
    /// Events of a miner.
    Miner(&'a str),
    /// The events of a challenge that runs; then its verdict is at this address.
    Challenge(&'a str),
}

const NAVIGATION: [(NavSection, &str, &str); 4] = [
    (NavSection::Fleet, "/", "Fleet"),
    (NavSection::Devices, "/devices", "Devices"),
    (NavSection::Verdicts, "/verdicts", "Verdicts"),
    (NavSection::Rounds, "/rounds", "Rounds"),
];

/// A page, whole.
pub(crate) fn page(frame: &Frame<'_>, place: NavSection, live: LiveFilter<'_>, title: &str, body: &Markup) -> String {
    let title = format!("{title} · Assay");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="same-origin";
                title { (title) }
                link rel="icon" href="/assets/assay.svg" type="image/svg+xml";
                link rel="stylesheet" href=(STYLE.address());
                script src=(SCRIPT.address()) {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (icon::shapes())
                (banner(frame, place))
                main id="main" tabindex="-1" data-live=[source(frame, live)] data-miner=[miner(live)]
                    data-then=[verdict(live)] {
                    @if let Some(notice) = frame.notice { p.notice role="status" { (text::detail(notice)) } }
                    (body)
                }
                (footer(frame, live))
            }
        }
    };
    page.into_string()
}

/// Where the events come from that bring the page up to date.
fn source(frame: &Frame<'_>, live: LiveFilter<'_>) -> Option<String> {
    match live {
        LiveFilter::Not => None,
        LiveFilter::All | LiveFilter::Miner(_) => Some(format!("/api/v1/events?after={}", frame.last_event)),
        LiveFilter::Challenge(id) => Some(format!("/api/v1/challenges/{id}/events")),
    }
}

fn miner(live: LiveFilter<'_>) -> Option<&str> {
    if let LiveFilter::Miner(id) = live { Some(id) } else { None }
}

fn verdict(live: LiveFilter<'_>) -> Option<String> {
    if let LiveFilter::Challenge(id) = live { Some(format!("/verdicts/{id}")) } else { None }
}

fn banner(frame: &Frame<'_>, place: NavSection) -> Markup {
    html! {
        header.banner {
            a.brand href="/" { (logo()) span { "Assay" } }
            @if let Some(viewer) = &frame.viewer {
                nav aria-label="Pages" {
                    @for (at, address, name) in NAVIGATION {
                        a href=(address) aria-current=[(at == place).then_some("page")] { (name) }
                    }
                }
                div.viewer {
                    span.who { (text::name(viewer.name)) " " span.role { (viewer.role.to_string()) } }
                    @if viewer.is_signed_in {
                        form method="post" action="/logout" { button.quiet type="submit" { "Sign out" } }
                    }
                }
            }
            // Shown by the script alone, which it needs.
            button.quiet.theme type="button" data-theme-switch hidden { "Theme" }
        }
    }
}

/// A touchstone with its streak.
fn logo() -> Markup {
    html! {
        svg.logo viewBox="0 0 24 24" width="24" height="24" aria-hidden="true" focusable="false" {
            rect.stone x="1" y="1" width="22" height="22" rx="5" {}
            path.streak d="M5 17.5L12 5l7 12.5M8 13.5h8" {}
        }
    }
}

fn footer(frame: &Frame<'_>, live: LiveFilter<'_>) -> Markup {
    html! {
        footer {
            p {
                "As of " (time::at(frame.now_ms, frame.now_ms)) "."
                @if live != LiveFilter::Not {
                    " " span.live data-live-state role="status" { "Reload for what is new." }
                }
            }
            p {
                "Validator " code title=(frame.validator) { (text::short(frame.validator)) }
                " · Assay " (frame.version)
                @if frame.viewer.is_some() { " · " a href="/api/v1/openapi.json" { "API" } }
            }
        }
    }
}

/// A list as a table, of which a narrow screen shows each row as a card.
pub(crate) fn cards(caption: &str, id: &str, titles: &[&str], rows: &Markup) -> Markup {
    html! {
        div.table.cards {
            table {
                caption.sr { (caption) }
                (headings(titles))
                tbody id=(id) data-part="rows" { (rows) }
            }
        }
    }
}

/// The titles of a table's columns; `#` begins the title of one with figures.
pub(crate) fn headings(titles: &[&str]) -> Markup {
    html! {
        thead {
            tr {
                @for title in titles {
                    th.num[title.starts_with('#')] scope="col" { (title.trim_start_matches('#')) }
                }
            }
        }
    }
}

/// The way to the next page of a list.
pub(crate) fn next(address: Option<&str>) -> Markup {
    html! {
        @if let Some(address) = address {
            nav.paging aria-label="Pages of this list" { a.button href=(address) rel="next" { "Next page" } }
        }
    }
}

//! A challenge as it runs.

use assay_api::ChallengeProgress;
use maud::{Markup, html};

use crate::frame::{Frame, LiveFilter, NavSection, page};
use crate::icon::Icon;
use crate::text::{name, short, spaced, whole_id};

/// A challenge under way, to be shown.
#[derive(Debug, Clone, Copy)]
pub struct ChallengeView<'a> {
    pub frame: Frame<'a>,
    pub running: &'a ChallengeProgress,
    /// The id of its miner.
    pub miner: &'a str,
    /// The operators' name of the miner.
    pub miner_name: Option<&'a str>,
}

/// The phases, in their order, each with its name and description.
const PHASES: [(&str, &str, &str); 8] = [
    (
        "work",
        "Work",
        "The devices fill their memory with matrix products. The clock of the work runs until the commitment.",
    ),
    ("held", "Held", "The commitment is in. The probe waits for the other members of the round."),
    (
        "probe",
        "Probe",
        "The devices read their memory at addresses that depend on what they read. The clock of the memory runs.",
    ),
    (
        "linked_probe",
        "Linked probe",
        "The devices read the memory of one another in the same way, where the policy asks for it. Its clock runs.",
    ),
    ("sweep", "Sweep", "The devices read all of their memory in order, where the policy asks for it. Its clock runs."),
    ("openings", "Openings", "All clocks have stopped. The parts drawn now are opened and checked as they arrive."),
    ("replay", "Replay", "What was opened has held. The work is computed again."),
    ("verdict", "Verdict", "Everything is judged, and written down before it is told."),
];

/// The page of a challenge under way.
pub fn challenge(view: &ChallengeView<'_>) -> String {
    let id = view.running.challenge_id.to_string();
    let body = html! {
        div.title {
            h1 { "Challenge " code { (short(&id)) } }
            p {
                "of miner " a href={ "/miners/" (view.miner) } {
                    @match view.miner_name { Some(named) => (name(named)), None => code { (short(view.miner)) } }
                }
            }
        }
        div id="progress" data-part="whole" { (progress(view.running)) }
        section.panel {
            dl.facts {
                dt { "Challenge" }
                dd { (whole_id(&id)) }
                dt { "Miner's key" }
                dd { (whole_id(&view.running.miner_key.to_string())) }
            }
        }
        p.muted { "The verdict takes the place of this page once it is there." }
    };
    page(&view.frame, NavSection::Elsewhere, LiveFilter::Challenge(&id), &format!("Challenge {}", short(&id)), &body)
}

/// How far a challenge is.
pub(crate) fn progress(running: &ChallengeProgress) -> Markup {
    let now = PHASES.iter().position(|(phase, ..)| *phase == running.phase);
    // Held is a phase of rounds, replay one of that mode: the page cannot know which ones were left out, so it does not
    // list them.
    let is_shown = |index: usize| now == Some(index) || !matches!(PHASES[index].0, "held" | "replay");
    html! {
        div.panel {
            @if now.is_none() { p { "Phase: " (name(&spaced(&running.phase))) } }
            ol.phases aria-label="Phases" {
                @for (index, (_, title, about)) in PHASES.iter().enumerate().filter(|(index, _)| is_shown(*index)) {
                    @let (is_now, is_done) = (now == Some(index), now.is_some_and(|now| index < now));
                    li.done[is_done] aria-current=[is_now.then_some("step")] {
                        span {
                            @if is_done { (Icon::Pass.svg()) span.sr { "Done: " } }
                            @else if is_now { (Icon::Runs.svg()) }
                            @else { (Icon::Start.svg()) }
                        }
                        div { (title) @if is_now { p { (about) } (slots(running)) } }
                    }
                }
            }
            p.muted { (running.seconds) " s since its start" }
        }
    }
}

fn slots(running: &ChallengeProgress) -> Markup {
    html! {
        @if running.phase == "work" && running.all_slots > 0 {
            progress max=(running.all_slots) value=(running.done_slots.min(running.all_slots)) aria-label="Slots filled" {}
            p { (running.done_slots) " of " (running.all_slots) " slots, as the miner says" }
        }
    }
}

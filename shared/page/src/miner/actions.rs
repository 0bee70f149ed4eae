//! What an operator can do with a miner.

use assay_api::Role;
use assay_protocol::verdict::Mode;
use assay_records::Status;
use maud::{Markup, html};

use super::MinerView;

/// The forms; nothing where the role does not allow it.
pub(super) fn section(view: &MinerView<'_>) -> Markup {
    if !view.frame.may(Role::Operate) {
        return Markup::default();
    }
    let (miner, status) = (&view.detail.miner, view.detail.miner.record.status);
    let path = format!("/miners/{}", miner.record.id);
    let can_be_asked = view.detail.connection.as_ref().is_some_and(|connection| !connection.challenged_now);
    html! {
        section.actions id="actions" data-part="whole" aria-label="Actions" {
            @if can_be_asked { (challenge(&path)) }
            @if view.frame.may(Role::Admin) {
                @match status {
                    Status::Pending => { (button(&path, "approve", "Approve")) (confirmed(&path)) }
                    Status::Approved => (confirmed(&path)),
                    Status::Suspended => (button(&path, "resume", "Resume")),
                    Status::Revoked => {
                        p.muted { "Revoked: only " code { "assay-validator approve" } " takes that back." }
                    }
                }
            }
        }
    }
}

fn challenge(path: &str) -> Markup {
    html! {
        form method="post" action={ (path) "/challenge" } {
            label.sr for="mode" { "Mode" }
            select id="mode" name="mode" {
                option value="" { "As the policy says" }
                @for mode in [Mode::Audit, Mode::ReplaySample, Mode::Replay] {
                    option value=(mode.name()) { (mode.name()) }
                }
            }
            button.primary type="submit" { "Challenge now" }
        }
    }
}

fn button(path: &str, action: &str, words: &str) -> Markup {
    html! { form method="post" action={ (path) "/" (action) } { button type="submit" { (words) } } }
}

/// A suspension ends what is attested: it is asked for twice.
fn confirmed(path: &str) -> Markup {
    html! {
        details.confirm {
            summary { "Suspend…" }
            form method="post" action={ (path) "/suspend" } {
                span { "It is neither challenged nor attested until it is resumed." }
                button.danger type="submit" { "Suspend this miner" }
            }
        }
    }
}

//! An operator's actions on a miner.

use assay_api::Role;
use assay_api::record::Approval;
use assay_protocol::verdict::Mode;
use maud::{Markup, html};

use super::{MinerView, standing};

/// The forms; nothing where the role does not allow it.
pub(super) fn section(view: &MinerView<'_>) -> Markup {
    if !view.frame.may(Role::Operate) {
        return Markup::default();
    }
    let (miner, status) = (&view.detail.miner, view.detail.miner.record.status);
    let path = format!("/miners/{}", miner.record.id);
    let is_in = matches!(status, Approval::Pending | Approval::Approved);
    let can_be_asked = view.detail.connection.as_ref().is_some_and(|connection| !connection.challenged_now);
    html! {
        section.actions id="actions" data-part="whole" aria-label="Actions" {
            @if can_be_asked { (challenge(&path)) }
            @if view.frame.may(Role::Admin) {
                @if is_in { (quarantine(view, &path)) }
                @match status {
                    Approval::Pending => { (button(&path, "approve", "Approve")) (suspend(&path)) }
                    Approval::Approved => (suspend(&path)),
                    Approval::Suspended => (button(&path, "resume", "Resume")),
                    Approval::Revoked => {
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

/// The end of a quarantine, or its beginning.
fn quarantine(view: &MinerView<'_>, path: &str) -> Markup {
    if standing(&view.detail.miner.record).is_some_and(|standing| standing.quarantine.is_some()) {
        return button(path, "release", "Release");
    }
    let effect = "It is challenged, and its passes do not count until it is released.";
    confirmed(path, "quarantine", "Quarantine", effect)
}

fn suspend(path: &str) -> Markup {
    confirmed(path, "suspend", "Suspend", "It is neither challenged nor attested until it is resumed.")
}

/// A form that asks for confirmation before an attestation ends.
fn confirmed(path: &str, action: &str, words: &str, effect: &str) -> Markup {
    html! {
        details.confirm {
            summary { (words) "…" }
            form method="post" action={ (path) "/" (action) } {
                span { (effect) }
                button.danger type="submit" { (words) " this miner" }
            }
        }
    }
}

//! How sure a verdict is: each bound in a sentence.

use assay_program::render::units::{figures, gib, percent, probability};
use assay_protocol::verdict::{Bound, DeviceWork, Hiding, Mode, Verdict, WALKS_ELSEWHERE_RULE};
use maud::{Markup, html};

use crate::text::counted;

/// The bounds of the checked work, and of memory that may have been elsewhere.
pub(super) fn section(verdict: &Verdict) -> Markup {
    let sentences = sentences(verdict);
    let hidden: Vec<_> = verdict.devices.iter().filter_map(|device| Some((device, device.hiding?))).collect();
    if sentences.is_empty() && hidden.is_empty() {
        return Markup::default();
    }
    html! {
        section.panel aria-labelledby="sure" {
            h2 id="sure" { "How sure this is" }
            @if !sentences.is_empty() { ul.sentences { @for sentence in sentences { li { (sentence) } } } }
            @if !hidden.is_empty() {
                h3 { "Memory that may have been elsewhere" }
                ul.sentences {
                    @for (device, hiding) in &hidden { li { (hiding_of(device, hiding)) } }
                    @if hidden.len() > 1 { li { "Devices can hide for one another: these bounds hold for their mean." } }
                }
            }
        }
    }
}

/// A sentence for each bound.
fn sentences(verdict: &Verdict) -> Vec<String> {
    let mut sentences = Vec::new();
    let samples = counted(verdict.whole.samples.into(), "sample");
    match verdict.mode {
        Some(Mode::Replay) if verdict.work_bounds.is_empty() && verdict.work_held() => {
            sentences.push("The work was computed again whole: nothing of it is left to chance.".to_owned());
        }
        Some(Mode::Audit) if verdict.whole.samples > 0 => sentences.push(format!(
            "{samples} of the work were checked. One sample of wrong work finds it for certain; the question is whether \
             the samples fell on it."
        )),
        _ => {}
    }
    let bound = |what: fn(&str) -> String, bound: &Bound| {
        format!(
            "{}, it would have passed with a probability of {} at most.",
            what(&percent(bound.fraction)),
            probability(bound.log2_probability)
        )
    };
    let work = |share: &str| format!("Had {share} of the work of a device rested on wrong values");
    let drawn = |share: &str| format!("Had {share} of the iterations been faked");
    let memory = |share: &str| format!("Had {share} of the memory of a device not held its slots");
    sentences.extend(verdict.work_bounds.iter().map(|b| bound(work, b)));
    sentences.extend(verdict.iteration_bounds.iter().map(|b| bound(drawn, b)));
    if verdict.whole.segments > 0 && !verdict.probe_bounds.is_empty() {
        sentences.push(format!(
            "{} of the walks through memory were checked.",
            counted(verdict.whole.segments.into(), "segment")
        ));
    }
    sentences.extend(verdict.probe_bounds.iter().map(|b| bound(memory, b)));
    let linked = |share: &str| format!("Had {share} of the lines of the linked probe been wrong");
    sentences.extend(verdict.link.iter().flat_map(|link| &link.bounds).map(|b| bound(linked, b)));
    sentences
}

/// The memory that a device may have hidden, in a sentence.
fn hiding_of(device: &DeviceWork, hiding: &Hiding) -> Markup {
    let Hiding { rate_per_s, rate_is_shown_only, computed, over_buses, share, elsewhere, .. } = *hiding;
    let percent =
        |share: f64| if share > 1.0 { "more than all".into() } else { format!("{} %", figures(100.0 * share)) };
    html! {
        (super::figures::label_in_line(device)) ": "
        @if share >= 1.0 {
            "all of it; nothing was shown. "
        } @else {
            "at most " (percent(share)) "; " (gib(device.work.bytes_held)) " GiB were shown. "
        }
        "In the time of the probe " (percent(over_buses)) " of the lines could have come over buses, and "
        (percent(computed)) " could have been computed again at " (figures(rate_per_s / 1e12)) " T MAC/s"
        @if rate_is_shown_only { ", the rate shown times a factor, since no peak is known" }
        ". "
        @if hiding.is_by_operands {
            "It rests on the operands that hidden lines have to be computed from: a chip that holds "
            (figures(hiding.chip_bytes / 1e6)) " MB and brings " (figures(hiding.operand_bytes_per_s / 1e9))
            " GB/s could have read those of " (percent(hiding.operands)) " of the blocks again. "
        }
        @if hiding.rule < WALKS_ELSEWHERE_RULE {
            "The rule of that time took rounds one after another, and bounded no copy elsewhere."
        } @else if hiding.copy_bytes_per_s == 0.0 {
            "No copy elsewhere is assumed (copy_gb_per_s)."
        } @else {
            (percent(elsewhere)) " of the steps could have been made in a copy elsewhere."
        }
    }
}

//! Positions that a run asks to be opened.

use assay_protocol::message::{OpenItem, OpenTarget};
use assay_protocol::verdict::Mode;

use super::ChallengeRun;
use crate::entropy::{Entropy, EntropyError};
use crate::issue::{SAMPLES_BEFORE_REPLAY, SWEEP_SAMPLES, iteration_draw};
use crate::verify::draw;
use crate::verify::size::Probes;

impl ChallengeRun {
    /// Draws the items to open, and the iterations of each share. Segments and sums of every device come first, while the
    /// last pass is resident, then samples of the latest iterations, then of earlier ones. Before a replay, a few samples of
    /// the last iteration must hold: noise is not worth a replay.
    pub(super) fn draw(
        &self,
        probes: Probes<'_>,
        entropy: &mut dyn Entropy,
    ) -> Result<(Vec<OpenItem>, Vec<Vec<u32>>), EntropyError> {
        let (challenge, policy) = (&self.challenge, &self.context.policy);
        let mut items = Vec::new();
        for share in challenge.shares() {
            let segments = draw::segments(probes.own, policy.segments, entropy)?;
            items.push(OpenItem { device_id: share.device_id, what: OpenTarget::Segments(segments) });
        }
        for (share, probe) in challenge.shares().iter().filter_map(|share| Some((share, probes.linked?))) {
            let segments = draw::segments(probe, policy.segments, entropy)?;
            items.push(OpenItem { device_id: share.device_id, what: OpenTarget::LinkedSegments(segments) });
        }
        for (share, sweep) in challenge.shares().iter().filter_map(|share| Some((share, probes.sweep?))) {
            let samples = draw::sums(sweep, (challenge.n(), share.count), SWEEP_SAMPLES, entropy)?;
            items.push(OpenItem { device_id: share.device_id, what: OpenTarget::Sums(samples) });
        }
        let mut audits = Vec::new();
        let mut iterations = Vec::with_capacity(challenge.shares().len());
        for share in challenge.shares() {
            let drawn = draw::iterations(iteration_draw(policy, challenge), entropy)?;
            let (audited, samples) = match self.context.mode {
                Mode::Audit => (drawn.as_slice(), policy.samples),
                // The last one is always drawn.
                Mode::Replay | Mode::ReplaySample => (&drawn[drawn.len() - 1..], SAMPLES_BEFORE_REPLAY),
            };
            for &iteration in audited {
                let samples = draw::samples(challenge.n(), share.count, samples, entropy)?;
                let what = OpenTarget::Samples { iteration, samples };
                audits.push((iteration, OpenItem { device_id: share.device_id, what }));
            }
            iterations.push(drawn);
        }
        audits.sort_by_key(|(iteration, _)| std::cmp::Reverse(*iteration));
        items.extend(audits.into_iter().map(|(_, item)| item));
        Ok((items, iterations))
    }
}

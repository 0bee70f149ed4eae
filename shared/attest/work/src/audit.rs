//! Checking the rows behind drawn samples of one pass of one device (WORK.md, Audit).

use std::borrow::Cow;
use std::ops::Range;

use super::bytes::{DeviceId, Digest, PassKey, Root};
use super::challenge::{Challenge, Share};
use super::digest::pass_root;
use super::fault::{FaultKind, FaultPlace, OpeningFault};
use super::keys::{parents, pass_key};
use super::leaf::leaf;
use super::opening::{ExpectedRange, OpenedRange, PassOpenings, PassSample, SampleOpenings};
use super::precision::Precision;
use super::rule::SlotRule;
use super::tree::{CHUNK_BYTES, RangePath, digests_of_ranges};

/// A row or a piece of a slot that a sample asks for, and the aligned range that it is opened as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeRequest {
    /// The slot to open.
    pub slot: u32,
    /// Offset of the range in the slot, in bytes.
    pub first_byte: u64,
    /// Length of the range in bytes: that of the row or piece, at least 1024.
    pub len: u64,
    /// Offset of the row or piece in the slot, in bytes.
    start: u64,
    /// Length of the row or piece in bytes.
    bytes: u64,
}

impl RangeRequest {
    /// The range that holds `bytes` bytes of a slot from `start` on, a multiple of them.
    const fn new(slot: u32, start: u64, bytes: u64) -> Self {
        let len = if bytes > CHUNK_BYTES { bytes } else { CHUNK_BYTES };
        Self { slot, first_byte: start / len * len, len, start, bytes }
    }

    /// The range that holds a row of an n-by-n slot.
    pub const fn of_row(n: u32, slot: u32, row: u32) -> Self {
        Self::new(slot, row as u64 * n as u64, n as u64)
    }

    /// The row or piece, out of the bytes of the range.
    fn of<'a>(&self, range: &'a [u8]) -> &'a [u8] {
        &range[(self.start - self.first_byte) as usize..][..self.bytes as usize]
    }

    const fn holds(&self, byte: u64) -> bool {
        self.start <= byte && byte < self.start + self.bytes
    }
}

/// The ranges that a sample asks for, in the order of WORK.md's list.
pub fn sample_ranges(precision: Precision, key: &PassKey, n: u32, sample: &PassSample) -> Vec<RangeRequest> {
    SampleRequest::new(precision, key, n, sample).ranges
}

/// The most elements of a sample: its own, and two factors.
pub const SAMPLE_ELEMENTS: usize = 3;

/// Ranges and elements of a sample.
struct SampleRequest {
    ranges: Vec<RangeRequest>,
    elements: Vec<CheckedElement>,
}

/// Element `(r, c)` of the slot that a rule fills.
struct CheckedElement {
    rule: SlotRule,
    r: u32,
    c: u32,
    /// The range that holds it.
    holder: usize,
    /// The ranges behind x.
    x: Range<usize>,
    /// The range behind y.
    y: usize,
}

impl SampleRequest {
    fn new(precision: Precision, key: &PassKey, n: u32, sample: &PassSample) -> Self {
        let (slot, row) = sample.slot_and_row();
        let mut request = Self { ranges: vec![RangeRequest::of_row(n, slot, row)], elements: Vec::new() };
        let PassSample::Product { column, inner, .. } = *sample else { return request };
        let rule = |u| SlotRule::new(precision, key, n, u);
        let ((earlier, previous), own) = (parents(key, slot), rule(slot));
        // The element of the earlier slot that x[k] is checked in, and the range that holds it.
        let (r, k) = own.tensor().map_or((row, inner), |tensor| tensor.factor(row, inner));
        let whole = request.element(own, key, (row, column), 0);
        let byte = u64::from(r) * u64::from(n) + u64::from(k);
        let x = whole.clone().find(|&range| request.ranges[range].holds(byte)).unwrap_or(whole.start);
        for (factor, at, holder) in [(earlier, (r, k), x), (previous, (column, inner), whole.end)] {
            if factor >= 2 {
                request.element(rule(factor), key, at, holder);
            }
        }
        request
    }

    /// Adds an element and the ranges that it follows from, and gives those behind x.
    fn element(&mut self, rule: SlotRule, key: &PassKey, (r, c): (u32, u32), holder: usize) -> Range<usize> {
        let ((earlier, previous), n) = (parents(key, rule.u()), rule.n());
        let start = self.ranges.len();
        match rule.tensor() {
            Some(tensor) => {
                let bytes = tensor.piece_bytes() as u64;
                self.ranges.extend(tensor.pieces(r).map(|first| RangeRequest::new(earlier, first as u64, bytes)));
            }
            None => self.ranges.push(RangeRequest::of_row(n, earlier, r)),
        }
        let (x, y) = (start..self.ranges.len(), self.ranges.len());
        self.ranges.push(RangeRequest::of_row(n, previous, c));
        self.elements.push(CheckedElement { rule, r, c, holder, x: x.clone(), y });
        x
    }
}

/// The validator's own knowledge of an audited pass; nothing in it comes from the answer.
#[derive(Debug, Clone)]
pub struct Audit<'a> {
    pub(super) challenge: &'a Challenge,
    pub(super) share: Share,
    pub(super) iteration: u32,
    pub(super) previous_root: Root,
    pub(super) root: Root,
    pub(super) samples: &'a [PassSample],
}

impl<'a> Audit<'a> {
    /// An audit of iteration `iteration` of a device that committed to `roots`.
    ///
    /// # Panics
    /// When the challenge has no share for the device or not this many iterations, or the pass has no such sample:
    /// the commitment was checked and the samples were drawn before.
    pub fn new(
        challenge: &'a Challenge,
        device_id: DeviceId,
        iteration: u32,
        roots: &[Root],
        samples: &'a [PassSample],
    ) -> Self {
        let Some(&share) = challenge.share(device_id) else { panic!("device {device_id} has no share") };
        assert_eq!(roots.len(), challenge.iterations() as usize, "a root for every iteration");
        assert!(samples.iter().all(|s| s.fits(challenge.n(), share.count)), "samples of the pass");
        let (previous_root, root) = roots_at(roots, iteration);
        Self { challenge, share, iteration, previous_root, root, samples }
    }

    /// The key of the pass, from the roots committed.
    pub fn pass_key(&self) -> PassKey {
        pass_key(self.challenge.work_key(), self.share.device_id, self.iteration, &self.previous_root)
    }

    const fn fault(&self, kind: FaultKind, place: FaultPlace) -> OpeningFault {
        OpeningFault { kind, device_id: self.share.device_id, place }
    }

    fn check_binding(&self, given: &PassOpenings) -> bool {
        given.challenge == *self.challenge.fields()
            && given.device_id == self.share.device_id
            && given.iteration == self.iteration
            && given.previous_root == self.previous_root
            && given.root == self.root
    }
}

/// Checks a whole answer to an audit.
///
/// # Errors
/// The first [`OpeningFault`] in WORK.md's order, over all samples before the next kind.
pub fn check_pass_openings(audit: &Audit<'_>, given: &PassOpenings) -> Result<(), OpeningFault> {
    if !audit.check_binding(given) {
        return Err(audit.fault(FaultKind::Binding, FaultPlace::Answer));
    }
    let mut check = PassCheck::begin(audit, given.slot_digests.clone())?;
    for sample in &given.samples {
        check.sample(sample);
    }
    check.finish()
}

/// A check that takes the samples one by one, in the order drawn, so that no more than one need be in memory.
///
/// It keeps the digests of the pass and the samples drawn, but no part of a sample.
#[derive(Debug)]
pub struct PassCheck {
    precision: Precision,
    n: u32,
    share: Share,
    key: PassKey,
    samples: Vec<PassSample>,
    digests: Vec<Digest>,
    seen: usize,
    first_fault: Option<OpeningFault>,
}

/// The fault of a sample, and the index of the opening that has it.
type SampleFault = (FaultKind, Option<usize>);

impl PassCheck {
    /// Checks the digests of the pass, which the samples lead to.
    ///
    /// # Errors
    /// `digests`.
    pub fn begin(audit: &Audit<'_>, digests: Vec<Digest>) -> Result<Self, OpeningFault> {
        if digests.len() != audit.share.count as usize || pass_root(&digests) != audit.root {
            return Err(audit.fault(FaultKind::Digests, FaultPlace::Answer));
        }
        Ok(Self {
            precision: audit.challenge.precision(),
            n: audit.challenge.n(),
            share: audit.share,
            key: audit.pass_key(),
            samples: audit.samples.to_vec(),
            digests,
            seen: 0,
            first_fault: None,
        })
    }

    /// A check of a pass that belongs to no challenge: its key and root are known otherwise.
    ///
    /// # Panics
    /// When there is not a digest for every slot, or the pass has no such sample.
    pub fn of_pass(
        precision: Precision,
        n: u32,
        share: Share,
        key: PassKey,
        samples: Vec<PassSample>,
        digests: Vec<Digest>,
    ) -> Self {
        assert_eq!(digests.len(), share.count as usize, "a digest for every slot");
        assert!(samples.iter().all(|s| s.fits(n, share.count)), "samples of the pass");
        Self { precision, n, share, key, samples, digests, seen: 0, first_fault: None }
    }

    /// Checks that the next sample is the one drawn, opened by ranges of the right number, places and lengths: a few
    /// comparisons, which keep nothing else.
    ///
    /// # Errors
    /// `rows`, `range` or `siblings`.
    pub fn check_shape(&self, given: &SampleOpenings) -> Result<(), OpeningFault> {
        self.shape(self.seen, given).map(|_| ()).map_err(|fault| self.fault(self.seen, fault))
    }

    /// Checks the next sample whole, and notes its first fault.
    pub fn sample(&mut self, given: &SampleOpenings) {
        let sample = self.seen;
        self.seen += 1;
        let checked = self.shape(sample, given).and_then(|request| self.check_content(&request, given));
        let Err(fault) = checked else { return };
        // Samples come in order, so that among faults of one kind the first stays.
        if self.first_fault.is_none_or(|first| fault.0 < first.kind) {
            self.first_fault = Some(self.fault(sample, fault));
        }
    }

    /// The first fault in WORK.md's order among the samples given so far.
    pub const fn first_fault(&self) -> Option<&OpeningFault> {
        self.first_fault.as_ref()
    }

    /// Returns the verdict over all samples.
    ///
    /// # Errors
    /// The first [`OpeningFault`] in WORK.md's order; `rows` when a sample was left out.
    pub fn finish(mut self) -> Result<(), OpeningFault> {
        let left_out = self.seen < self.samples.len();
        if left_out && self.first_fault.is_none_or(|first| first.kind > FaultKind::Rows) {
            self.first_fault = Some(self.fault(self.seen, (FaultKind::Rows, None)));
        }
        self.first_fault.map_or(Ok(()), Err)
    }

    const fn fault(&self, sample: usize, (kind, opening): SampleFault) -> OpeningFault {
        let place = match opening {
            Some(opening) => FaultPlace::Opening { sample, opening },
            None => FaultPlace::Sample { sample },
        };
        OpeningFault { kind, device_id: self.share.device_id, place }
    }

    /// The ranges asked for, when those given have their slots, places, lengths and numbers of siblings.
    fn shape(&self, index: usize, given: &SampleOpenings) -> Result<SampleRequest, SampleFault> {
        let rows = (FaultKind::Rows, None);
        let sample = self.samples.get(index).ok_or(rows)?;
        if given.sample != *sample || !sample.fits(self.n, self.share.count) {
            return Err(rows);
        }
        self.check_parents(given).map_err(|kind| (kind, None))?;
        let request = SampleRequest::new(self.precision, &self.key, self.n, sample);
        let requests = &request.ranges;
        if given.openings.len() != requests.len() {
            return Err(rows);
        }
        let openings = &given.openings;
        each(
            requests,
            openings,
            |request, opening| {
                if opening.slot == request.slot { Ok(()) } else { Err(FaultKind::Rows) }
            },
        )?;
        each(requests, openings, |request, opening| {
            self.expected(request).check_range(opening.first_byte, &opening.bytes)
        })?;
        each(requests, openings, |request, opening| self.expected(request).check_siblings(&opening.siblings))?;
        Ok(request)
    }

    /// Checks the contents of the ranges of a sample of the right shape.
    fn check_content(&self, request: &SampleRequest, given: &SampleOpenings) -> Result<(), SampleFault> {
        let openings = &given.openings;
        self.check_paths(&request.ranges, openings)?;
        each(&request.ranges, openings, |request, opening| self.check_leaf(request, &opening.bytes))?;
        check_elements(request, openings)
    }

    /// Each range leads to the digest of its slot.
    fn check_paths(&self, requests: &[RangeRequest], openings: &[OpenedRange]) -> Result<(), SampleFault> {
        let total_bytes = u64::from(self.n) * u64::from(self.n);
        let mut first = 0;
        for requests in requests.chunk_by(|a, b| a.len == b.len) {
            let openings = &openings[first..][..requests.len()];
            let mut ranges = Vec::with_capacity(requests.len());
            for (request, OpenedRange { bytes, siblings, .. }) in requests.iter().zip(openings) {
                ranges.push(RangePath { bytes, first_byte: request.first_byte, siblings });
            }
            let digests = digests_of_ranges(&ranges, total_bytes);
            let is_wrong = |(request, digest): (&RangeRequest, _)| digest != self.digests[request.slot as usize];
            if let Some(index) = requests.iter().zip(digests).position(is_wrong) {
                return Err((FaultKind::Path, Some(first + index)));
            }
            first += requests.len();
        }
        Ok(())
    }

    /// The parents that an answer names, where it names them.
    fn check_parents(&self, given: &SampleOpenings) -> Result<(), FaultKind> {
        let same = match (given.sample, given.parents) {
            (_, None) => true,
            (PassSample::Leaf { .. }, Some(_)) => false,
            (PassSample::Product { slot, .. }, Some(p)) => parents(&self.key, slot) == (p.earlier, p.previous),
        };
        if same { Ok(()) } else { Err(FaultKind::Rows) }
    }

    fn expected(&self, request: &RangeRequest) -> ExpectedRange<'_> {
        ExpectedRange {
            first_byte: request.first_byte,
            range_bytes: request.len,
            total_bytes: u64::from(self.n) * u64::from(self.n),
            digest: &self.digests[request.slot as usize],
        }
    }

    /// The row or piece asked for, when it is one of a leaf, is the keystream.
    fn check_leaf(&self, request: &RangeRequest, bytes: &[u8]) -> Result<(), FaultKind> {
        if request.slot >= 2 {
            return Ok(());
        }
        let mut expected = vec![0; request.bytes as usize];
        leaf(&self.key, self.share.offset + request.slot, request.start, &mut expected);
        if request.of(bytes) == expected { Ok(()) } else { Err(FaultKind::Leaf) }
    }
}

/// The sampled element, and the two factors of its multiply-accumulate where they are no leaf's.
fn check_elements(request: &SampleRequest, openings: &[OpenedRange]) -> Result<(), SampleFault> {
    let opened = |range: usize| request.ranges[range].of(&openings[range].bytes);
    for CheckedElement { rule, r, c, holder, x, y } in &request.elements {
        let x = match rule.tensor() {
            None => Cow::Borrowed(opened(x.start)),
            Some(_) => Cow::Owned(x.clone().map(opened).collect::<Vec<_>>().concat()),
        };
        let byte = u64::from(*r) * u64::from(rule.n()) + u64::from(*c) - request.ranges[*holder].first_byte;
        // The whole byte, with bits that no operand depends on.
        if openings[*holder].bytes[byte as usize] != rule.element(&x, opened(*y), *r, *c) {
            return Err((FaultKind::Element, Some(*holder)));
        }
    }
    Ok(())
}

/// Checks each range against its request, and names the first that fails.
fn each(
    requests: &[RangeRequest],
    openings: &[OpenedRange],
    check: impl Fn(&RangeRequest, &OpenedRange) -> Result<(), FaultKind>,
) -> Result<(), SampleFault> {
    let mut pairs = requests.iter().zip(openings).enumerate();
    pairs.try_for_each(|(i, (request, opening))| check(request, opening).map_err(|kind| (kind, Some(i))))
}

/// The root that an iteration follows and its own, out of those of a device.
///
/// # Panics
/// When the device has no such iteration.
pub fn roots_at(roots: &[Root], iteration: u32) -> (Root, Root) {
    let index = iteration as usize;
    let previous = if index == 0 { Root::BEFORE_FIRST } else { roots[index - 1] };
    (previous, roots[index])
}

//! The parts that a reader can take away and check: the miner's signed commitment, the evidence, the receipts.

use assay_api::record::{CommitmentRecord, FullVerdict, KeptEvidence, ReceiptRecord};
use assay_program::render::units::count;
use maud::{Markup, html};

use crate::text::{detail, short, spaced, whole_id};
use crate::time;

/// Other findings with the verdict.
pub(super) fn findings(record: &FullVerdict) -> Markup {
    html! {
        @if !record.findings.is_empty() {
            section aria-labelledby="findings" {
                h2 id="findings" { "Found with it" }
                @for finding in &record.findings {
                    div.callout.(if finding.enforced { "bad" } else { "warn" }) {
                        h3 {
                            (crate::text::capital(&spaced(&finding.code))) " "
                            span.tag { (if finding.enforced { "counts" } else { "only recorded" }) }
                        }
                        @if let Some(device) = &finding.device_id { p { "Device " code { (device) } "." } }
                        p { (detail(&finding.detail)) }
                    }
                }
            }
        }
    }
}

/// Signatures, evidence and receipts.
pub(super) fn section(record: &FullVerdict) -> Markup {
    html! {
        section aria-labelledby="proof" {
            h2 id="proof" { "To check it yourself" }
            @for receipt in &record.receipts { (of_receipt(receipt)) }
            @if record.receipts.is_empty() { p.none { "No receipt was issued." } }
            div.grid {
                (evidence(record.evidence.as_ref()))
                @if let Some(commitment) = &record.commitment { (signed(commitment)) }
            }
            p.screen { a href={ "/api/v1/verdicts/" (record.record.challenge) } { "This verdict as JSON" } }
        }
    }
}

fn of_receipt(receipt: &ReceiptRecord) -> Markup {
    let field = format!("token-{}", short(&receipt.id));
    html! {
        div.panel.receipt {
            h3 { "Receipt " code { (short(&receipt.id)) } }
            dl.facts {
                dt { "Id" } dd { (whole_id(&receipt.id)) }
                dt { "Signed by" } dd { (whole_id(&receipt.key_id)) }
                dt { "Valid" }
                dd {
                    (time::absolute(receipt.issued_s.saturating_mul(1000))) " to "
                    (time::absolute(receipt.expires_s.saturating_mul(1000)))
                }
                dt { "Nonce" }
                dd {
                    @match &receipt.nonce {
                        Some(nonce) => (whole_id(nonce)), None => "none: it was not asked for by a renter"
                    }
                }
                dt { label for=(field) { "Token" } }
                dd {
                    textarea id=(field) rows="4" readonly spellcheck="false" data-copy="the token" { (receipt.token) }
                }
            }
            p {
                "Save the token as " code { "receipt.jwt" }
                " and the " a href="/.well-known/jwks.json" { "public keys" }
                " as " code { "keys.json" }
                ". This asks nobody:"
            }
            pre tabindex="0" { code { "assay-validator receipt verify receipt.jwt --keys keys.json" } }
        }
    }
}

fn evidence(evidence: Option<&KeptEvidence>) -> Markup {
    html! {
        div.panel {
            h3 { "Evidence" }
            @match evidence {
                None => p.none { "None was kept of this challenge: the settings say of which it is." },
                Some(KeptEvidence { dropped_ms: Some(at_ms), evidence, .. }) => {
                    p { "Removed " (time::absolute(*at_ms)) " by the limits of age and size. It was:" }
                    (whole_id(&evidence.digest))
                }
                Some(KeptEvidence { challenge, evidence, .. }) => {
                    dl.facts {
                        dt { "BLAKE3" } dd { (whole_id(&evidence.digest)) }
                        dt { "Size" } dd { (bytes(evidence.bytes)) ", " (bytes(evidence.stored_bytes)) " compressed" }
                        dt { "Kept because" } dd { (spaced(&evidence.why)) }
                    }
                    p.actions {
                        a.button href={ "/api/v1/verdicts/" (challenge) "/evidence" }
                        download={ (short(challenge)) ".evidence.zst" }
                        { "Download" }
                    }
                    p { "The validator judges it again with:" }
                    pre tabindex="0" { code { "assay-validator rejudge " (short(challenge)) } }
                }
            }
        }
    }
}

fn bytes(bytes: i64) -> String {
    format!("{} bytes", count(bytes.unsigned_abs().into()))
}

fn signed(commitment: &CommitmentRecord) -> Markup {
    let CommitmentRecord { checksum, signature, probe_checksum, probe_signature } = commitment;
    html! {
        div.panel {
            h3 { "What the miner signed" }
            dl.facts {
                dt { "Roots" } dd { (whole_id(checksum)) }
                dt { "Signature" } dd { (whole_id(signature)) }
                @if let Some(checksum) = probe_checksum { dt { "Digests" } dd { (whole_id(checksum)) } }
                @if let Some(signature) = probe_signature { dt { "Signature" } dd { (whole_id(signature)) } }
            }
        }
    }
}

//! A miner's last verdicts as a row of bars, oldest first: full for a pass, half and empty for an inconclusive verdict,
//! a crossed foot for a fail.

use assay_protocol::verdict::Outcome;
use maud::{Markup, html};

use crate::text::counted;

/// Bars of a row: the newest.
pub(crate) const MAX_BARS: usize = 60;

const STEP: usize = 10;
const HEIGHT: usize = 32;

/// The row; `outcomes` are newest first.
pub(crate) fn strip(outcomes: &[Outcome]) -> Markup {
    let shown = &outcomes[..outcomes.len().min(MAX_BARS)];
    let count = |wanted| shown.iter().filter(|outcome| **outcome == wanted).count() as u64;
    let words = format!(
        "The last {}: {} passed, {} failed, {} could not be judged.",
        counted(shown.len() as u64, "challenge"),
        count(Outcome::Pass),
        count(Outcome::Fail),
        count(Outcome::Inconclusive)
    );
    let width = shown.len() * STEP;
    html! {
        figure.strip {
            svg viewBox={ "0 0 " (width) " " (HEIGHT) } width=(width) height=(HEIGHT) role="img"
                aria-labelledby="strip-title" {
                title id="strip-title" { (words) }
                // The newest stands at the right end.
                @for (index, outcome) in shown.iter().enumerate() {
                    (bar(*outcome, (shown.len() - 1 - index) * STEP))
                }
            }
            figcaption { (words) " Newest at the right." }
        }
    }
}

fn bar(outcome: Outcome, x: usize) -> Markup {
    match outcome {
        Outcome::Pass => html! { rect.pass x=(x + 1) y="2" width="7" height="28" rx="1.5" {} },
        Outcome::Inconclusive => html! { rect.unclear x=(x + 2) y="16" width="5" height="13" rx="1" {} },
        Outcome::Fail => html! {
            g {
                rect.fail x=(x + 1) y="21" width="7" height="9" rx="1.5" {}
                path.fail d={ "M" (x + 2) " 10l5 6M" (x + 7) " 10l-5 6" } {}
            }
        },
    }
}

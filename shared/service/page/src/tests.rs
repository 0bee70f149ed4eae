//! Every page, whole: its content, and content that no page may have.

mod sample;

use assay_api::{ListPage, ProblemCode, ProblemDetails, Role};
use assay_protocol::verdict::{Outcome, ReasonCode, Verdict};

use super::*;

/// A text that tries everything at once.
const HOSTILE: &str = "</td><script>alert(1)</script>\u{202e}\u{1b}[2J\" onload=\"x";

fn fleet_page(count: u32, filter: &FleetFilter) -> String {
    let miners = ListPage { items: (0..count).map(sample::miner).collect(), next: None };
    let counts = sample::counts(&miners.items);
    let view = FleetView {
        frame: sample::frame(),
        miners: &miners,
        filter,
        counts: &counts,
        models: &sample::models(),
        connected: count,
        target: "assay://validator.example:7400#b94e",
    };
    fleet(&view)
}

fn miner_page(role: Role) -> String {
    let (detail, series) = (sample::detail(), sample::series());
    let verdicts = sample::listed();
    let history = sample::history();
    let mut frame = sample::frame();
    frame.viewer.as_mut().unwrap().role = role;
    miner(&MinerView { frame, detail: &detail, series: &series, verdicts: &verdicts, history: &history })
}

fn verdict_page(codes: &[ReasonCode]) -> String {
    page_of_verdict(&sample::verdict(codes))
}

fn page_of_verdict(verdict: &Verdict) -> String {
    let record = sample::full(verdict);
    super::verdict(&VerdictView { frame: sample::frame(), verdict, record: &record, miner_name: Some(HOSTILE) })
}

/// Every page, by its name.
fn pages() -> Vec<(&'static str, String)> {
    let frame = sample::frame();
    let filter = FleetFilter::default();
    let listed = sample::listed();
    let (rounds_shown, names, outcomes) = sample::rounds();
    let devices_shown = ListPage::all(sample::detail().devices);
    let device_shown =
        assay_api::DeviceDetail { device_id: "ab".repeat(16), at: devices_shown.items.clone(), events: Vec::new() };
    let running = sample::running();
    let problem_shown = ProblemDetails::new(ProblemCode::NotFound, HOSTILE).after(3);
    vec![
        ("fleet", fleet_page(24, &filter)),
        ("empty", fleet_page(0, &filter)),
        ("miner", miner_page(Role::Admin)),
        ("pass", verdict_page(&[])),
        ("fail", verdict_page(&[ReasonCode::AuditElement, ReasonCode::TooSlow])),
        ("inconclusive", verdict_page(&[ReasonCode::Disconnected])),
        (
            "challenge",
            challenge(&ChallengeView { frame, running: &running, miner: &"ab".repeat(32), miner_name: None }),
        ),
        (
            "verdicts",
            verdicts(&VerdictsView { frame, verdicts: &listed, next: Some("abc"), filter: &VerdictsFilter::default() }),
        ),
        (
            "rounds",
            rounds(&RoundsView { frame, rounds: &rounds_shown, next: None, names: &names, outcomes: &outcomes }),
        ),
        ("round", round(&RoundView { frame, round: &rounds_shown[0], names: &names, outcomes: &outcomes })),
        (
            "devices",
            devices(&DevicesView {
                frame,
                devices: &devices_shown,
                filter: &DevicesFilter::default(),
                models: &sample::models(),
            }),
        ),
        ("device", device(&DeviceView { frame, device: &device_shown })),
        (
            "login",
            login(&LoginView { frame: Frame { viewer: None, ..frame }, then: "/miners/ab12", refused: Some(HOSTILE) }),
        ),
        ("problem", problem(&ProblemView { frame, problem: &problem_shown, remedy: "Look again." })),
    ]
}

#[test]
fn no_page_has_what_the_policy_of_contents_forbids() {
    for (name, html) in pages() {
        for forbidden in
            [" style=", " onclick=", " onload=\"", "<script>", "javascript:", "<style", "http://", "https://"]
        {
            assert!(!html.contains(forbidden), "{forbidden} on {name}");
        }
        assert_eq!(html.matches("<script").count(), 1, "{name}");
        assert_eq!(html.matches("<h1>").count() + html.matches("<h1 ").count(), 1, "{name}");
        assert!(!html.contains(['\u{1b}', '\u{202e}']), "{name}");
    }
}

#[test]
fn ids_are_unique_and_labels_have_what_they_name() {
    for (name, html) in pages() {
        let ids: Vec<_> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "{name}: {ids:?}");
        for attribute in [" for=\"", " aria-labelledby=\"", " aria-describedby=\"", " href=\"#"] {
            for id in html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(ids.contains(&id), "{attribute}{id} on {name}");
            }
        }
    }
}

#[test]
fn the_fleet_says_who_does_not_pass_and_what_to_do() {
    let html = fleet_page(24, &FleetFilter { state: "failed".to_owned(), ..FleetFilter::default() });
    for part in [
        "of 24 miners</strong> attested",
        "The last verdict failed.",
        "Look at its verdict.",
        "aria-current=\"true\"",
        "href=\"/?state=not_passing\"",
        "8 × <bdi>NVIDIA H200</bdi>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.contains("<option value=\"failed\" selected>Failed</option>"));
}

#[test]
fn an_empty_fleet_has_the_first_three_commands() {
    let html = fleet_page(0, &FleetFilter::default());
    for command in
        ["assay-validator enroll", "--validator 'assay://validator.example:7400#b94e'", "assay-validator challenge"]
    {
        assert!(html.contains(command), "{command}");
    }
    assert!(!html.contains("<table"));
}

#[test]
fn actions_are_for_those_who_may() {
    for (role, can_challenge, can_decide) in
        [(Role::Read, false, false), (Role::Operate, true, false), (Role::Admin, true, true)]
    {
        let html = miner_page(role);
        assert_eq!(html.contains("/challenge\""), can_challenge, "{role}");
        for action in ["suspend", "quarantine"] {
            assert_eq!(html.contains(&format!("/{action}\"")), can_decide, "{action} by {role}");
        }
    }
}

#[test]
fn a_quarantine_is_shown_with_its_cause_and_can_be_ended() {
    let standing = r#"{"state":"quarantined","quarantine":"release","because":"too_fast: 3 fails within 7 days"}"#;
    let mut detail = sample::detail();
    detail.miner.record.standing = Some(serde_json::from_str(standing).unwrap());
    let series = sample::series();
    let view = MinerView { frame: sample::frame(), detail: &detail, series: &series, verdicts: &[], history: &[] };
    let html = miner(&view);
    for part in [
        "Not made yet: <bdi>duty_percent",
        "/release\"",
        "until an operator releases it",
        "too_fast: 3 fails within 7 days",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("/quarantine\""));
}

#[test]
fn a_verdict_has_every_reason_with_its_remedy_and_every_bound_in_a_sentence() {
    let html = verdict_page(&[ReasonCode::AuditElement, ReasonCode::TooSlow]);
    for code in [ReasonCode::AuditElement, ReasonCode::TooSlow] {
        for words in [code.about(), code.advice(), code.name()] {
            assert!(html.contains(&words.replace('\'', "&#39;")) || html.contains(words), "{words}");
        }
    }
    let sentence = "Had 1 % of the work of a device rested on wrong values, it would have passed with a probability of \
         27.7 % at most.";
    assert!(verdict_page(&[]).contains(sentence));
    assert!(html.contains("assay-validator receipt verify receipt.jwt --keys keys.json"));
    assert!(html.contains("/evidence\""));
    let lost = Verdict { n: 0, ..sample::verdict(&[ReasonCode::ValidatorLost]) };
    assert!(html.contains("<dt>Work</dt>") && !page_of_verdict(&lost).contains("<dt>Work</dt>"), "it is not known");
}

#[test]
fn a_long_text_makes_no_long_page() {
    let mut miners = ListPage::all(vec![sample::miner(0)]);
    let short = fleet_of(&miners).len();
    let long = "🦀<b>".repeat(16 << 10);
    miners.items[0].known.name = Some(long.clone());
    miners.items[0].record.labels = (0..64).map(|i| (format!("{i}{long}"), long.clone())).collect();
    miners.items[0].known.models = vec![long; 64];
    let html = fleet_of(&miners);
    assert!(html.len() < short + 64 * 1024, "{} and {short}", html.len());
}

fn fleet_of(miners: &ListPage<assay_api::Miner>) -> String {
    let view = FleetView {
        frame: sample::frame(),
        miners,
        filter: &FleetFilter::default(),
        counts: &sample::counts(&miners.items),
        models: &[],
        connected: 0,
        target: "",
    };
    fleet(&view)
}

#[test]
fn outcomes_of_rounds_are_links() {
    let (rounds_shown, names, outcomes) = sample::rounds();
    assert!(outcomes.values().any(|outcome| *outcome == Outcome::Pass));
    let html =
        round(&RoundView { frame: sample::frame(), round: &rounds_shown[0], names: &names, outcomes: &outcomes });
    assert!(
        html.contains("/verdicts/")
            && html.contains("Absent")
            && html.contains("2 sent together 1.20 s after the start")
    );
}

/// For developers of the pages: `ASSAY_WRITE_PAGES=FOLDER` has them all written there, to be viewed.
#[test]
fn pages_can_be_looked_at() {
    let Some(folder) = std::env::var_os("ASSAY_WRITE_PAGES") else { return };
    let folder = std::path::PathBuf::from(folder);
    std::fs::create_dir_all(folder.join("assets")).unwrap();
    for (name, html) in pages() {
        std::fs::write(folder.join(format!("{name}.html")), html).unwrap();
    }
    for asset in assets() {
        std::fs::write(folder.join("assets").join(asset.name), asset.bytes).unwrap();
    }
}

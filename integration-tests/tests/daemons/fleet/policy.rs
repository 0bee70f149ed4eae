//! The policy of a fleet in a running validator: groups, states, bands, identities and rounds.

use std::fs;

use assay_api::ListPage;
use assay_integration_tests::daemon::{PATIENCE, run};
use assay_integration_tests::dishonest::{Disguise, DishonestMiner, WorkLie};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_integration_tests::web::Caller;
use assay_protocol::message::ValidatorMessage;
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_protocol::wire::v1::Outcome;
use assay_records::RoundRecord;
use assay_work::PublicKey;
use serde_json::Value;
use tempfile::TempDir;

use super::operator::{json, operate};

/// A group for the miners of one site, and the settings for all others.
const SITES: &str = r#"
[[group]]
name = "west"
labels = { site = "west" }
[group.cadence]
at_connect = true
mean = "20s"
[group.light]
n = 512
max_matrices = 6

[[group]]
name = "default"
[group.cadence]
at_connect = false
"#;

/// A validator with this policy, and the folder of its file.
async fn validator_with(policy: &str, flags: &[String]) -> (TestValidator, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.toml");
    fs::write(&file, policy).unwrap();
    let flags = [flags, &[format!("--fleet-policy={}", file.display())]].concat();
    (TestValidator::start(&Policy { flags, ..Policy::default() }).await, folder)
}

fn state(validator: &TestValidator, key: PublicKey) -> String {
    let shown = json(validator, &format!("show {key}"));
    shown["state"].as_str().unwrap_or_else(|| panic!("no state: {shown}")).to_owned()
}

/// Waits until a miner has `count` verdicts; gives them, newest first.
fn verdicts(validator: &TestValidator, key: PublicKey, count: usize) -> Vec<Value> {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let said = operate(validator, &format!("verdicts --json --miner {key}"));
        // A miner that has just connected is not in the records yet.
        assert!(said.code == 0 || said.errors.contains("no miner in the records"), "{}", said.errors);
        let found: Vec<Value> = serde_json::from_str(&said.out).unwrap_or_default();
        if found.len() >= count {
            return found;
        }
        assert!(std::time::Instant::now() < until, "{} of {count} verdicts", found.len());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_is_asked_what_its_group_says() {
    let (validator, _folder) = validator_with(SITES, &[]).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    // It is in no site's group yet, and is not challenged.
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!(operate(&validator, &format!("label {} site=west", miner.key)).code, 0);
    miner.restart();
    validator.wait_for_miner(miner.key, true).await;
    let verdicts = verdicts(&validator, miner.key, 2);
    let [.., by_group, by_operator] = &verdicts[..] else { panic!("{verdicts:?}") };
    assert_eq!(
        (&by_group["group"], &by_group["kind"], &by_group["asked"]),
        (&"west".into(), &"light".into(), &"schedule".into())
    );
    assert_eq!(by_group["verdict"]["n"], 512);
    assert_eq!((&by_operator["kind"], &by_operator["verdict"]["n"]), (&"manual".into(), &256.into()));
    assert_eq!(by_operator["group"], "default", "by which it was judged");
    assert_eq!(state(&validator, miner.key), "passing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_with_a_mistake_is_refused_whole() {
    let (validator, folder) = validator_with(SITES, &[]).await;
    let file = folder.path().join("fleet.toml");
    let wrong = SITES.replace("n = 512", "n = 500").replace("at_connect = false", "at_conect = false");
    fs::write(&file, &wrong).unwrap();
    let line = |part: &str| wrong.lines().position(|line| line.contains(part)).unwrap() + 1;
    let output = run("assay-validator", ["policy", "check", file.to_str().unwrap()].iter());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    for (part, word) in [("n = 500", "light.n"), ("at_conect", "at_connect")] {
        let place = format!("{}:{}: ", file.display(), line(part));
        let told = said.lines().find(|told| told.contains(&place)).unwrap_or_else(|| panic!("no {place} in {said}"));
        assert!(told.contains(word), "{told}");
    }
    let refused = operate(&validator, "reload");
    assert_eq!(refused.code, 78, "{}", refused.errors);
    assert!(refused.errors.contains("nothing has changed") && refused.errors.contains("light.n"), "{}", refused.errors);
    fs::write(&file, SITES.replace("n = 512", "n = 1024")).unwrap();
    let reloaded = operate(&validator, "reload");
    assert_eq!(reloaded.code, 0, "{}", reloaded.errors);
    assert!(reloaded.out.contains("fleet_policy"), "{}", reloaded.out);
}

/// A miner that no challenge was due for is challenged once the policy says so.
#[tokio::test(flavor = "multi_thread")]
async fn another_policy_takes_effect_in_sessions_that_stand() {
    let (validator, folder) = validator_with(SITES, &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let often = SITES.replace("at_connect = false", "at_connect = false\nmean = \"1s\"");
    fs::write(folder.path().join("fleet.toml"), often).unwrap();
    assert_eq!(operate(&validator, "reload").code, 0);
    let verdicts = verdicts(&validator, miner.key, 1);
    assert_eq!((&verdicts[0]["group"], &verdicts[0]["asked"]), (&"default".into(), &"schedule".into()));
}

/// Regression test: a miner that a label gave a cadence was challenged only once it connected again.
#[tokio::test(flavor = "multi_thread")]
async fn a_label_takes_effect_in_sessions_that_stand() {
    let often = SITES.replace("at_connect = true\nmean = \"20s\"", "mean = \"1s\"");
    let (validator, _folder) = validator_with(&often, &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    // By then its first challenge was decided about.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(operate(&validator, &format!("label {} site=west", miner.key)).code, 0);
    let verdicts = verdicts(&validator, miner.key, 1);
    assert_eq!((&verdicts[0]["group"], &verdicts[0]["asked"]), (&"west".into(), &"schedule".into()));
}

/// What a light challenge shows does not attest the host where a heavy one is asked for; rounds are heavy.
#[tokio::test(flavor = "multi_thread")]
async fn a_light_pass_renews_no_heavy_attestation() {
    let policy = "[[group]]\nname = \"default\"\n[group.cadence]\nat_connect = false\n\
        [group.heavy]\nn = 512\nexpires_after = \"7d\"\n";
    let (validator, _folder) = validator_with(policy, &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!(state(&validator, miner.key), "enrolled");
    let said = operate(&validator, "round");
    assert_eq!(said.code, 0, "{}", said.errors);
    assert_eq!(state(&validator, miner.key), "passing");
    let of_round = &verdicts(&validator, miner.key, 2)[0];
    assert_eq!((&of_round["kind"], &of_round["verdict"]["n"]), (&"heavy".into(), &512.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_lasts_no_longer_than_the_attestation_that_it_states() {
    let policy = "[[group]]\nname = \"default\"\nexpires_after = \"1d\"\n[group.receipts]\nlifetime = \"7d\"\n";
    let (validator, _folder) = validator_with(policy, &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let verdict = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().verdict;
    let claims = assay_receipts::read_trusted(verdict.receipt.as_ref().unwrap()).unwrap();
    // Both clocks are read, one after the other.
    assert!((86_398..=86_400).contains(&(claims.exp - claims.iat)), "{} {}", claims.iat, claims.exp);
}

/// After a fail three passes in a row are owed: nothing else pays them.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_is_paid_with_passes() {
    let (validator, _folder) = validator_with("", &[]).await;
    let liar = DishonestMiner::connect(validator.address, &Disguise::new(&[60])).await;
    validator.wait_for_miner(liar.key, true).await;
    validator.challenge(liar.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!(state(&validator, liar.key), "passing");
    liar.lies.in_work(WorkLie::SkipElements);
    validator.challenge(liar.key, Some(Mode::Audit)).await.unwrap().expect(ReasonCode::AuditElement);
    liar.lies.stop();
    for owed in (0..3).rev() {
        assert_eq!(state(&validator, liar.key), "failed");
        validator.challenge(liar.key, Some(Mode::Audit)).await.unwrap().expect_pass();
        assert_eq!(state(&validator, liar.key) == "passing", owed == 0, "{owed} passes are owed");
    }
    let history = json(&validator, &format!("history {}", liar.key)).to_string();
    for change in ["enrolled", "passing", "failed"] {
        assert!(history.contains(change), "{change} in {history}");
    }
}

/// The name of this machine's processor as a device, in quotes.
fn processor() -> String {
    let folder = tempfile::tempdir().unwrap();
    let key_file = format!("--key-file={}", folder.path().join("key").display());
    let listed = run("assay-miner", ["devices", "--json", "--backend=cpu", "--telemetry=off", &key_file]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    listed["devices"][0]["name"].to_string()
}

/// A policy without peaks takes those of the claimed model, which no processor reaches here.
#[tokio::test(flavor = "multi_thread")]
async fn peaks_of_the_claimed_model_bound_hidden_memory() {
    let model = format!(
        "[[model]]\nname = \"fast\"\nnames = [{}]\nint8_dense_tops = 1000\nmemory_gb_per_s = 9000\nsource = \"this test\"\n",
        processor()
    );
    let (validator, _folder) = validator_with(&model, &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect_pass();
    let hiding = ruling.verdict.devices[0].hiding.as_ref().unwrap();
    assert_eq!((hiding.rate_per_s, hiding.rate_is_shown_only), (5e14, false), "half of its operations a second");
    assert!(hiding.operand_bytes_per_s >= 9e12, "what its memory reads at least: {hiding:?}");
    assert_eq!(hiding.bus_bytes_per_s, 64e9, "a GPU's, though its miner calls it a processor");
}

/// Of sizes beyond the policy's a host cannot hold enough, and smaller ones show little.
#[tokio::test(flavor = "multi_thread")]
async fn sizes_that_an_operator_asks_for_change_no_attestation() {
    let (validator, _folder) = validator_with("", &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let asked = operate(&validator, &format!("challenge --miner {} --samples 16", miner.key));
    assert!(asked.out.starts_with("PASS"), "{}", asked.out);
    assert_eq!(state(&validator, miner.key), "enrolled");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!(state(&validator, miner.key), "passing");
    for _ in 0..3 {
        let asked = operate(&validator, &format!("challenge --miner {} --n 32768", miner.key));
        assert_ne!(asked.code, 0, "it has too little memory");
    }
    assert_eq!(state(&validator, miner.key), "passing");
    // So does another kind of work than the policy's.
    let newcomer = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(newcomer.key, true).await;
    let asked = operate(&validator, &format!("challenge --mode audit --miner {} --kind f16", newcomer.key));
    assert!(asked.out.starts_with("PASS"), "{}", asked.out);
    assert_eq!(state(&validator, newcomer.key), "enrolled");
    // A forged answer counts at any size.
    let liar = DishonestMiner::connect(validator.address, &Disguise::new(&[60])).await;
    validator.wait_for_miner(liar.key, true).await;
    validator.challenge(liar.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    liar.lies.in_work(WorkLie::SkipElements);
    let asked = operate(&validator, &format!("challenge --mode audit --miner {} --samples 128", liar.key));
    assert_eq!(asked.code, 1, "{}", asked.out);
    assert_eq!(state(&validator, liar.key), "failed");
}

/// Regression test: an operator's challenge left out the settings of the miner's group, and attested it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_operators_challenge_asks_for_what_the_group_asks_for() {
    let group =
        "[[group]]\nname = \"default\"\nlight = { samples = 17 }\nheavy = { share_percent = 1, samples = 19 }\n";
    let (validator, _folder) = validator_with(group, &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect_pass();
    assert_eq!(ruling.verdict.devices[0].work.as_ref().unwrap().samples, 19, "{:?}", ruling.verdict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_band_is_recorded_until_it_is_enforced() {
    // A processor is hundreds of times as fast as this, and its memory thousands of times, also beside other load.
    let profiles = format!(
        "[[model]]\nname = \"slow\"\nnames = [{}]\nint8_dense_tops = 0.001\nmemory_gb_per_s = 0.001\n\
         source = \"this test\"\n",
        processor()
    );
    let bands = |enforce: bool| {
        format!("[[group]]\nname = \"default\"\n[group.bands]\nenforce_profile = {enforce}\n{profiles}")
    };
    let (validator, policy) = validator_with(&bands(false), &[]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let shown = json(&validator, &format!("show {}", miner.key)).to_string();
    assert!(shown.contains("too_fast"), "it is recorded: {shown}");
    fs::write(policy.path().join("fleet.toml"), bands(true)).unwrap();
    assert_eq!(operate(&validator, "reload").code, 0);
    let verdict = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().verdict;
    let is_too_fast = verdict.reasons.iter().all(|reason| reason.code == ReasonCode::TooFast.name());
    assert!(verdict.outcome() == Outcome::Fail && is_too_fast, "{:?}", verdict.reasons);
    assert_eq!(state(&validator, miner.key), "failed");
}

/// Challenges a miner until its device is disputed: until each was heard while the other one was there.
async fn is_disputed(validator: &TestValidator, asking: &DishonestMiner, until: std::time::Instant) {
    loop {
        let ruling = validator.challenge(asking.key, Some(Mode::Audit)).await.unwrap();
        if ruling.verdict.reasons.iter().any(|reason| reason.code == "device_disputed") {
            assert_eq!(ruling.verdict.outcome(), Outcome::Inconclusive);
            return;
        }
        assert!(std::time::Instant::now() < until, "it passes");
    }
}

/// A miner of a validator, with the device of every other one.
async fn connected(validator: &TestValidator, seed: u8) -> DishonestMiner {
    let miner = DishonestMiner::connect(validator.address, &Disguise { seed, ..Disguise::new(&[60]) }).await;
    validator.wait_for_miner(miner.key, true).await;
    miner
}

/// Declines each challenge after the first ones.
fn declines(miner: &DishonestMiner, mut after: u32) {
    miner.lies.in_what_comes_in(move |mut message| {
        if let ValidatorMessage::Challenge(offer) = &mut message {
            offer.inventory_sequence += u32::from(after == 0);
            after = after.saturating_sub(1);
        }
        message
    });
}

/// Waits for a miner's verdict in a round.
async fn verdict_of_round(validator: &TestValidator, asking: &DishonestMiner) -> Value {
    let until = std::time::Instant::now() + PATIENCE;
    let operator = Caller::at_socket(validator);
    loop {
        let verdicts: Value = operator.read(&format!("/api/v1/verdicts?miner={}", asking.key)).await;
        if let Some(of_round) = verdicts["items"].as_array().unwrap().iter().find(|it| !it["round"].is_null()) {
            return of_round.clone();
        }
        assert!(std::time::Instant::now() < until, "no round");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// Challenges a miner until its device is disputed, then waits until both were challenged in one round, and it passed
/// there: each has memory and a processor of its own.
async fn disputes(validator: &TestValidator, asking: &DishonestMiner, other: &DishonestMiner) {
    let until = std::time::Instant::now() + PATIENCE;
    is_disputed(validator, asking, until).await;
    let operator = Caller::at_socket(validator);
    let is_settled = async |round: &RoundRecord| {
        let verdicts: Value = operator.read(&format!("/api/v1/verdicts?round={}", round.id)).await;
        let of =
            |key: PublicKey| verdicts["items"].as_array().unwrap().iter().find(|it| it["miner"] == key.to_string());
        of(other.key).is_some() && of(asking.key).is_some_and(|verdict| verdict["outcome"] == "pass")
    };
    loop {
        let rounds: ListPage<RoundRecord> = operator.read("/api/v1/rounds").await;
        for round in rounds.items.iter().filter(|round| round.group == "disputed device") {
            if is_settled(round).await {
                return;
            }
        }
        assert!(std::time::Instant::now() < until, "no round");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// Ids are claims: who showed it first decides nothing, and the validator asks both in one round. A miner that is in
/// rounds with others all the time keeps no other one from its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_two_miners_show_is_disputed_until_both_are_asked_in_one_round() {
    let (validator, _folder) = validator_with("", &[]).await;
    let connect = async |seed: u8, first_device: u8, slots: &[u64]| {
        let disguise = Disguise { seed, first_device, ..Disguise::new(slots) };
        let miner = DishonestMiner::connect(validator.address, &disguise).await;
        validator.wait_for_miner(miner.key, true).await;
        miner
    };
    let first = connect(1, 1, &[60]).await;
    validator.challenge(first.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let second = connect(2, 1, &[60, 60]).await;
    disputes(&validator, &second, &first).await;
    let third = connect(3, 2, &[60]).await;
    disputes(&validator, &third, &second).await;
}

/// Two keys of one card: the one that does not hold it would decline, and the other one would be asked alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_an_attested_miner_declines_settles_no_dispute() {
    let (validator, _folder) = validator_with("", &[]).await;
    let first = connected(&validator, 1).await;
    validator.challenge(first.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    declines(&first, 0);
    let second = connected(&validator, 2).await;
    is_disputed(&validator, &second, std::time::Instant::now() + PATIENCE).await;
    let of_round = verdict_of_round(&validator, &second).await;
    assert_eq!(of_round["outcome"], "inconclusive", "{of_round}");
    assert!(of_round["verdict"]["reasons"].to_string().contains("device_disputed"), "{of_round}");
}

/// A stranger shows a miner's device once, and declines from then on: that ends no attestation.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_that_declines_the_round_keeps_no_attestation_from_a_miner() {
    let (validator, _folder) = validator_with("", &[]).await;
    let (miner, stranger) = (connected(&validator, 1).await, connected(&validator, 2).await);
    declines(&stranger, 1);
    // Sessions overlap by whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    validator.challenge(stranger.key, Some(Mode::Audit)).await.unwrap().expect(ReasonCode::DeviceDisputed);
    let of_round = verdict_of_round(&validator, &miner).await;
    assert_eq!(of_round["outcome"], "pass", "{of_round}");
}

/// Work that was wrong shows no device: otherwise anybody would dispute every host at no cost.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_whose_work_is_wrong_disputes_no_device() {
    let (validator, _folder) = validator_with("", &[]).await;
    let (miner, stranger) = (connected(&validator, 1).await, connected(&validator, 2).await);
    stranger.lies.in_work(WorkLie::SkipElements);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    validator.challenge(stranger.key, Some(Mode::Audit)).await.unwrap().expect(ReasonCode::AuditElement);
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_probes_its_members_at_the_same_time() {
    let (mut validator, _folder) = validator_with("", &[]).await;
    let mut miners: Vec<_> = (0..4).map(|_| TestMiner::start(validator.address, 1, &[])).collect();
    for miner in &miners {
        validator.wait_for_miner(miner.key, true).await;
    }
    let mut gone = miners.pop().unwrap();
    validator.challenge(gone.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    gone.daemon.terminate();
    gone.daemon.wait();
    validator.wait_for_miner(gone.key, false).await;
    let said = operate(&validator, "round --json");
    assert_eq!(said.code, 2, "one did not start: {}", said.errors);
    let round: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.errors));
    assert_eq!((&round["group"], &round["probed_together"]), (&"all".into(), &3.into()), "{round}");
    for miner in &miners {
        let member = &round["members"][miner.key.to_string()];
        assert_eq!((&member["state"], &member["outcome"]), (&"judged".into(), &"pass".into()), "{round}");
    }
    let absent = &round["members"][gone.key.to_string()];
    assert_eq!((&absent["state"], &absent["why"]), (&"not_started".into(), &"not connected".into()), "{round}");
    // Every one of them had committed before the first probe went out.
    let lines: Vec<Value> = validator.daemon.log().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_round = |line: &&Value| miners.iter().any(|miner| line["miner"] == miner.key.to_string());
    let phases: Vec<_> = lines.iter().filter(of_round).filter_map(|line| line["phase"].as_str()).collect();
    let (held, probe): (Vec<_>, Vec<_>) =
        (0..phases.len()).filter(|at| matches!(phases[*at], "held" | "probe")).partition(|at| phases[*at] == "held");
    assert_eq!((held.len(), probe.len()), (3, 3), "{phases:?}");
    assert!(held.iter().max() < probe.iter().min(), "{phases:?}");
    let kept = verdicts(&validator, miners[0].key, 1);
    assert_eq!(kept[0]["round"], round["round_id"]);
    let unknown = operate(&validator, "round --group nowhere");
    assert!(unknown.code != 0 && unknown.errors.contains("default"), "{}", unknown.errors);
}

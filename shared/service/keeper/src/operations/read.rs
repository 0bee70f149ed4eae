//! Reads the records as documents of the API.

use assay_api::{
    ChallengeDetail, Cursor, CursorError, DeviceDetail, DevicesQuery, ListPage, Miner, MinerDetail, MinerOrder,
    MinerSnapshot, MinersQuery, PageQuery, ReceiptDetail, ReceiptsQuery, Role, Round, SearchResult, VerdictsQuery,
    parse_label,
};
use assay_listen::bounds::MAX_PAGE;
use assay_policy::rules::Rules;
use assay_policy::state::State;
use assay_policy::{Event, step};
use assay_program::clock::{unix_ms, unix_seconds};
use assay_protocol::verdict::ReasonCode;
use assay_records::{
    ApiTokenCursor, ApiTokenRecord, Approval, DeviceQuery, DeviceRecord, FullVerdict, HistoryCursor, Labels,
    MinerEvent, MinerFilter, MinerRecord, ObjectKind, ReceiptCursor, ReceiptFilter, ReceiptRecord, Records, ResolvedId,
    RoundCursor, RoundRecord, TokenCursor, TokenRecord, VerdictCursor, VerdictFilter, VerdictRecord,
};
use serde::de::DeserializeOwned;

use super::labels;
use super::why::why_not;
use super::{DEFAULT_DOCUMENTS, OperationError, Result, find, running};
use crate::validator::Validator;

/// The most changes of a device, and sessions of a miner, in its document.
const MAX_SHOWN: u32 = 20;
/// The most devices in the document of a miner or a device.
const MAX_SHOWN_DEVICES: u32 = 1024;
/// The most events of a miner in one millisecond that pages pass: a connection makes one for each device.
const MAX_AT_ONCE: u32 = 2048;
/// The most characters of a search text for miners: those of the longest value of a label.
const MAX_TEXT_CHARS: usize = 128;
/// Name that selects all states in which a miner does not pass.
const NOT_PASSING: &str = "not_passing";

impl From<CursorError> for OperationError {
    fn from(error: CursorError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Number of documents on a page.
pub(super) fn page(limit: Option<u32>) -> Result<u32> {
    match limit.unwrap_or(DEFAULT_DOCUMENTS) {
        limit if (1..=MAX_PAGE).contains(&limit) => Ok(limit),
        limit => Err(OperationError::Invalid(format!("limit: {limit} is not from 1 to {MAX_PAGE}"))),
    }
}

fn place<T: DeserializeOwned>(cursor: Option<&Cursor>) -> Result<Option<T>> {
    Ok(cursor.map(Cursor::place).transpose()?)
}

/// Treats an empty text as absent.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn not_found(kind: ObjectKind, id: &str) -> OperationError {
    OperationError::NotFound(format!("no {kind} {id} in the records"))
}

/// Lists miners.
pub async fn miners(validator: &Validator, query: MinersQuery, role: Role) -> Result<ListPage<Miner>> {
    let MinersQuery { status, state, label, model, outcome, connected, order, text, limit, cursor } = query;
    let (limit, order) = (page(limit)?, order.unwrap_or_default());
    let wanted = states(given(state).as_deref(), order)?;
    let mut states = wanted.clone();
    // Records that cannot be written keep attestations that are too old.
    if validator.records.trouble().is_some() && wanted.contains(&Some(State::Expired)) {
        states.extend([State::Passing, State::Suspect].map(Some).into_iter().filter(|state| !wanted.contains(state)));
    }
    if text.as_ref().is_some_and(|text| text.chars().count() > MAX_TEXT_CHARS) {
        return Err(OperationError::Invalid(format!("text: at most {MAX_TEXT_CHARS} characters are looked for")));
    }
    let filter = MinerFilter {
        status,
        labels: given(label).map(|text| labels_of(&text)).transpose()?.unwrap_or_default(),
        connected,
        model: given(model),
        outcome: outcome.map(|outcome| outcome.to_string()),
        text: given(text),
        ..MinerFilter::default()
    };
    let place: Option<(usize, String)> = place(cursor.as_ref())?;
    // Open admission leaves no miner pending.
    let found = match status == Some(Approval::Pending) && validator.access.allowed.lists().is_open() {
        true => Vec::new(),
        false => by_states(&validator.records, &filter, &states, place, limit + 1).await?,
    };
    let ListPage { items, next } = ListPage::page(found, limit, |(at, miner)| (*at, miner.id.clone()));
    let items = items.into_iter().map(|(_, miner)| miner).collect();
    let mut items = shown(validator, items, role).await?;
    items.retain(|miner| wanted.contains(&None) || wanted.contains(&State::named(&miner.record.state)));
    Ok(ListPage { items, next })
}

/// The requested states, in order; `None`: any state, in one pass.
fn states(named: Option<&str>, order: MinerOrder) -> Result<Vec<Option<State>>> {
    let Some(name) = named else {
        return Ok(match order {
            MinerOrder::Id => vec![None],
            MinerOrder::Trouble => State::BY_CONCERN.map(Some).to_vec(),
        });
    };
    if name == NOT_PASSING {
        return Ok(State::BY_CONCERN.into_iter().filter(|state| state.is_concern()).map(Some).collect());
    }
    let unknown = || {
        let names = State::ALL.map(State::name).join(", ");
        OperationError::Invalid(format!("state: {name:?} is none of {names} and {NOT_PASSING}"))
    };
    Ok(vec![Some(State::named(name).ok_or_else(unknown)?)])
}

/// At most `limit` miners of these states, from a position on, each with the index of its state.
async fn by_states(
    records: &Records,
    filter: &MinerFilter,
    states: &[Option<State>],
    place: Option<(usize, String)>,
    limit: u32,
) -> Result<Vec<(usize, MinerRecord)>> {
    let (from, mut after) = place.map_or((0, None), |(at, id)| (at, Some(id)));
    let mut found = Vec::new();
    for (at, state) in states.iter().enumerate().skip(from) {
        let wanted = limit.saturating_sub(found.len() as u32);
        if wanted == 0 {
            break;
        }
        let filter = MinerFilter {
            state: state.map(|state| state.name().to_owned()),
            after: after.take(),
            limit: Some(wanted),
            ..filter.clone()
        };
        found.extend(records.miners(&filter).await?.into_iter().map(|miner| (at, miner)));
    }
    Ok(found)
}

fn labels_of(text: &str) -> Result<Labels> {
    let each: Result<Labels, _> = text.split(',').map(parse_label).collect();
    labels::check(each.map_err(|error| OperationError::Invalid(format!("label: {error}")))?)
}

/// Miners with data beyond their records. The role to read is told no time of a next challenge: a host that knows it
/// can be there for it alone.
async fn shown(validator: &Validator, mut records: Vec<MinerRecord>, role: Role) -> Result<Vec<Miner>> {
    if validator.records.trouble().is_some() {
        for record in records.iter_mut().filter(|it| State::named(&it.state).is_some_and(State::is_attested)) {
            age(record, &validator.fleet.group_of(&*record).await?.rules);
        }
    }
    let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    let mut summaries = validator.records.miner_summaries(&ids).await?;
    let known = |mut record: MinerRecord| {
        record.due = record.due.filter(|_| role >= Role::Operate);
        let summary = summaries.remove(&record.id).unwrap_or_default();
        let admitted = record.key.parse().ok().map(|key| validator.access.allowed.admitted(&key));
        let known = MinerSnapshot {
            admitted: admitted.map_or("unknown", |admitted| admitted.name()).to_owned(),
            name: record.labels.get(find::NAME_LABEL).cloned(),
            device_count: summary.models.values().sum(),
            models: summary.models.keys().filter(|model| !model.is_empty()).cloned().collect(),
            reason: why_not(&record, admitted, &summary),
        };
        Miner { record, known }
    };
    Ok(records.into_iter().map(known).collect())
}

/// Ends an attestation that is too old: records that cannot be written still say that it holds.
fn age(record: &mut MinerRecord, rules: &Rules) {
    let (standing, change) = step(&record.standing(), &Event::Tick, rules, unix_seconds());
    if change.is_some() {
        record.state = standing.state.name().to_owned();
        record.standing = serde_json::value::to_raw_value(&standing).ok();
    }
}

/// Reads a miner by its id.
pub(super) async fn miner_of(validator: &Validator, id: &str, role: Role) -> Result<Miner> {
    let record = validator.records.miner(id).await?;
    let mut shown = shown(validator, record.into_iter().collect(), role).await?;
    shown.pop().ok_or_else(|| not_found(ObjectKind::Miner, id))
}

/// Reads a miner with its history, by the first digits of one of its keys.
pub async fn miner(validator: &Validator, text: &str, role: Role) -> Result<MinerDetail> {
    let id = find::miner_or_name(&validator.records, text).await?;
    detail(validator, &id, role).await
}

async fn detail(validator: &Validator, id: &str, role: Role) -> Result<MinerDetail> {
    let (records, miner) = (&validator.records, miner_of(validator, id, role).await?);
    let devices = DeviceQuery {
        miner: Some(id.to_owned()),
        gone: true,
        limit: Some(MAX_SHOWN_DEVICES),
        ..DeviceQuery::default()
    };
    let connection = running::connection(validator, &miner.record.keys);
    let (record, devices_listed) = (&miner.record, miner.known.device_count as usize);
    let group = validator.fleet.group_of(record).await?;
    let is_due = record.connected_to.is_some() && record.due.as_ref().is_some_and(|due| due.at_ms < unix_ms());
    let delayed = match is_due {
        true => validator.fleet.over_budget(&group, record, devices_listed).await?,
        false => None,
    };
    Ok(MinerDetail {
        group: group.name,
        delayed,
        devices: records.devices(&devices).await?,
        sessions: records.sessions(id, MAX_SHOWN).await?,
        findings: records.findings(Some(id), MAX_SHOWN).await?,
        actions: records.actions(Some(id), 0, MAX_SHOWN).await?,
        connection,
        miner,
    })
}

/// Lists a miner's events, newest first.
pub async fn history(validator: &Validator, text: &str, query: PageQuery) -> Result<ListPage<MinerEvent>> {
    let (limit, after) = (page(query.limit)?, place::<HistoryCursor>(query.cursor.as_ref())?);
    if after.is_some_and(|after| after.shown > MAX_AT_ONCE) {
        return Err(CursorError.into());
    }
    let id = find::miner_or_name(&validator.records, text).await?;
    let found = validator.records.history(&id, after, limit + 1).await?;
    let ListPage { items, next } = ListPage::page(found, limit, |(place, _)| *place);
    Ok(ListPage { items: items.into_iter().map(|(_, event)| event).collect(), next })
}

/// Lists devices, in order of miner and id.
pub async fn devices(validator: &Validator, query: DevicesQuery) -> Result<ListPage<DeviceRecord>> {
    let DevicesQuery { miner, device_id, model, gone, limit, cursor } = query;
    let (records, limit) = (&validator.records, page(limit)?);
    let filter = DeviceQuery {
        miner: miner_named(records, miner).await?,
        device_id: given(device_id).map(|text| find::digits(&text)).transpose()?,
        model: given(model),
        gone: gone.unwrap_or_default(),
        after: place(cursor.as_ref())?,
        limit: Some(limit + 1),
    };
    let found = records.devices(&filter).await?;
    Ok(ListPage::page(found, limit, |device| (device.miner.clone(), device.device_id.clone())))
}

async fn miner_named(records: &Records, text: Option<String>) -> Result<Option<String>> {
    match given(text) {
        Some(text) => find::miner_or_name(records, &text).await.map(Some),
        None => Ok(None),
    }
}

async fn round_named(records: &Records, text: Option<String>) -> Result<Option<String>> {
    match given(text) {
        Some(text) => find::one(records, &text, ObjectKind::Round).await.map(Some),
        None => Ok(None),
    }
}

/// Reads a device, by its id or its first digits.
pub async fn device(validator: &Validator, text: &str) -> Result<DeviceDetail> {
    device_of(validator, find::one(&validator.records, text, ObjectKind::Device).await?).await
}

async fn device_of(validator: &Validator, device_id: String) -> Result<DeviceDetail> {
    let records = &validator.records;
    let filter = DeviceQuery {
        device_id: Some(device_id.clone()),
        gone: true,
        limit: Some(MAX_SHOWN_DEVICES),
        ..DeviceQuery::default()
    };
    let at = records.devices(&filter).await?;
    let events = records.device_events(None, Some(&device_id), MAX_SHOWN).await?;
    Ok(DeviceDetail { device_id, at, events })
}

/// Refuses times that no record has.
pub(super) fn check_times(since: Option<i64>, until: Option<i64>) -> Result<()> {
    let invalid = [("since", since), ("until", until)]
        .into_iter()
        .find_map(|(name, time)| Some((name, time.filter(|time| *time < 0)?)));
    invalid.map_or(Ok(()), |(name, time)| Err(OperationError::Invalid(format!("{name}: {time} is before 1970"))))
}

/// Lists verdicts, newest first.
pub async fn verdicts(validator: &Validator, query: VerdictsQuery) -> Result<ListPage<VerdictRecord>> {
    let VerdictsQuery { miner, outcome, code, round, since, until, limit, cursor } = query;
    let (records, limit) = (&validator.records, page(limit)?);
    let code = given(code);
    if let Some(other) = code.as_deref().filter(|name| ReasonCode::named(name).is_none()) {
        return Err(OperationError::Invalid(format!(
            "code: {other:?} is no code of a reason: docs/verdicts.md lists them"
        )));
    }
    check_times(since, until)?;
    let filter = VerdictFilter {
        miner: miner_named(records, miner).await?,
        outcome: outcome.map(|outcome| outcome.to_string()),
        code,
        round: round_named(records, round).await?,
        since_ms: since,
        until_ms: until,
        before: place::<VerdictCursor>(cursor.as_ref())?,
        limit: Some(limit + 1),
    };
    let found = records.verdicts(&filter).await?;
    Ok(ListPage::page(found, limit, VerdictCursor::of))
}

/// Finds the challenge whose id begins with these digits.
pub async fn challenge_id(validator: &Validator, text: &str) -> Result<String> {
    find::one(&validator.records, text, ObjectKind::Challenge).await
}

/// Reads a verdict with its evidence and receipt.
pub async fn verdict(validator: &Validator, text: &str) -> Result<FullVerdict> {
    let id = challenge_id(validator, text).await?;
    let none = || OperationError::NotFound(format!("challenge {id} has no verdict"));
    validator.records.verdict(&id).await?.ok_or_else(none)
}

/// Reads a challenge, judged or not.
pub async fn challenge(validator: &Validator, text: &str) -> Result<ChallengeDetail> {
    let id = challenge_id(validator, text).await?;
    let record = validator.records.challenge(&id).await?;
    let record = record.ok_or_else(|| not_found(ObjectKind::Challenge, &id))?;
    let running = running::challenge(validator, &record.begun.miner, &id);
    Ok(ChallengeDetail { verdict: validator.records.verdict(&id).await?, record, running })
}

/// Lists receipts of a miner, newest first.
pub async fn receipts(validator: &Validator, query: ReceiptsQuery) -> Result<ListPage<ReceiptRecord>> {
    let ReceiptsQuery { miner, since, until, limit, cursor } = query;
    let (records, limit) = (&validator.records, page(limit)?);
    check_times(since, until)?;
    let missing = || OperationError::Invalid("miner: the first digits of a key are missing".to_owned());
    let miner = miner_named(records, Some(miner)).await?.ok_or_else(missing)?;
    let before = place(cursor.as_ref())?;
    let filter = ReceiptFilter { miner, since_ms: since, until_ms: until, before, limit: Some(limit + 1) };
    let found = records.receipts(&filter).await?;
    Ok(ListPage::page(found, limit, ReceiptCursor::of))
}

pub async fn receipt(validator: &Validator, text: &str) -> Result<ReceiptDetail> {
    receipt_of(validator, find::one(&validator.records, text, ObjectKind::Receipt).await?).await
}

async fn receipt_of(validator: &Validator, id: String) -> Result<ReceiptDetail> {
    let found = validator.records.receipt(&id).await?;
    let (challenge, record) = found.ok_or_else(|| not_found(ObjectKind::Receipt, &id))?;
    let proof = validator.reports.log.proof(&challenge, &record.token).await;
    let log_proof = proof.unwrap_or_else(|error| {
        tracing::warn!(challenge, %error, "no proof of a receipt");
        None
    });
    Ok(ReceiptDetail { record, challenge, log_proof: log_proof.map(|proof| proof.to_string()) })
}

/// Lists rounds, newest first.
pub async fn rounds(validator: &Validator, query: PageQuery) -> Result<ListPage<RoundRecord>> {
    let limit = page(query.limit)?;
    let before: Option<RoundCursor> = place(query.cursor.as_ref())?;
    let found = validator.records.rounds(before.as_ref(), limit + 1).await?;
    Ok(ListPage::page(found, limit, RoundCursor::of))
}

/// Reads a round with its members.
pub async fn round(validator: &Validator, text: &str) -> Result<Round> {
    round_of(validator, find::one(&validator.records, text, ObjectKind::Round).await?).await
}

async fn round_of(validator: &Validator, id: String) -> Result<Round> {
    let found = validator.records.round(&id).await?;
    let (record, members) = found.ok_or_else(|| not_found(ObjectKind::Round, &id))?;
    Ok(Round { record, members })
}

/// Finds the item of an id, or of its first digits.
pub async fn found(validator: &Validator, text: &str, role: Role) -> Result<SearchResult> {
    let ResolvedId { kind, id } = find::any(&validator.records, text).await?;
    Ok(match kind {
        ObjectKind::Challenge => match validator.records.verdict(&id).await? {
            Some(verdict) => SearchResult::Verdict(Box::new(verdict)),
            None => {
                let record = validator.records.challenge(&id).await?;
                SearchResult::Challenge(record.ok_or_else(|| not_found(kind, &id))?)
            }
        },
        ObjectKind::Miner => SearchResult::Miner(Box::new(detail(validator, &id, role).await?)),
        ObjectKind::Device => SearchResult::Device(device_of(validator, id).await?),
        ObjectKind::Receipt => SearchResult::Receipt(receipt_of(validator, id).await?),
        ObjectKind::Round => SearchResult::Round(round_of(validator, id).await?),
    })
}

/// Lists tokens of the API, newest first, without the tokens themselves.
pub async fn api_tokens(validator: &Validator, query: PageQuery) -> Result<ListPage<ApiTokenRecord>> {
    let limit = page(query.limit)?;
    let found = validator.records.api_tokens(place(query.cursor.as_ref())?.as_ref(), limit + 1).await?;
    Ok(ListPage::page(found, limit, ApiTokenCursor::of))
}

/// Lists join tokens, newest first, without the tokens themselves.
pub async fn join_tokens(validator: &Validator, query: PageQuery) -> Result<ListPage<TokenRecord>> {
    let limit = page(query.limit)?;
    let found = validator.records.tokens(place(query.cursor.as_ref())?.as_ref(), limit + 1).await?;
    Ok(ListPage::page(found, limit, TokenCursor::of))
}

#[cfg(test)]
mod tests {
    use assay_policy::Standing;
    use assay_records::{Actor, Location, MinerChange, StandingChange, Transition};

    use serde_json::json;

    use super::*;

    /// Adds a miner in a state.
    async fn put(records: &Records, digit: usize, state: State) {
        let (miner, name) = (digit.to_string().repeat(64), |state: State| state.name().to_owned());
        let transition = Transition {
            miner: miner.clone(),
            at_ms: 1,
            from: name(State::Enrolled),
            to: name(state),
            why: "operator".to_owned(),
            detail: String::new(),
        };
        let standing = StandingChange { before: None, after: "{}".to_owned(), transition: Some(transition) };
        let change = MinerChange { action: "approve", status: None, standing: Some(standing) };
        records.change_miner(&miner, &change, &Actor::validator()).await.unwrap();
    }

    /// Regression test: the verdicts of a round that was named by its first digits were an empty list.
    #[tokio::test]
    async fn a_round_is_named_by_its_first_digits() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let id = "ab12".repeat(8);
        records.plan_round(&crate::tests::round(&id, assay_work::PublicKey([0xee; 32])), &[]).await.unwrap();
        let named = async |text: &str| round_named(&records, Some(text.to_owned())).await;
        assert_eq!((named("").await.unwrap(), named("AB12a").await.unwrap()), (None, Some(id)));
        assert!(matches!(named("cd34").await, Err(OperationError::NotFound(_))));
    }

    #[tokio::test]
    async fn what_does_not_pass_comes_first_on_every_page() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let states =
            [State::Revoked, State::Passing, State::Quarantined, State::Failed, State::Passing, State::Suspect];
        for (digit, state) in states.into_iter().enumerate() {
            put(&records, digit, state).await;
        }
        let listed = async |name: Option<&str>, order: MinerOrder, limit: u32| {
            let (states, mut digits, mut place) = (super::states(name, order).unwrap(), String::new(), None);
            loop {
                let found = by_states(&records, &MinerFilter::default(), &states, place, limit).await.unwrap();
                digits.extend(found.iter().filter_map(|(_, miner)| miner.id.chars().next()));
                let Some((at, last)) = found.last() else { return digits };
                place = Some((*at, last.id.clone()));
            }
        };
        for limit in 1..=7 {
            assert_eq!(listed(None, MinerOrder::Trouble, limit).await, "235140", "{limit}");
            assert_eq!(listed(None, MinerOrder::Id, limit).await, "012345", "{limit}");
            assert_eq!(listed(Some(NOT_PASSING), MinerOrder::Id, limit).await, "235", "{limit}");
            assert_eq!(listed(Some("passing"), MinerOrder::Trouble, limit).await, "14", "{limit}");
        }
        assert!(super::states(Some("nothing"), MinerOrder::Id).is_err());
    }

    /// Regression test: where the records could be read and not written, an attestation had no end.
    #[test]
    fn an_attestation_ends_though_the_records_still_say_that_it_holds() {
        let rules = Rules::default();
        let state_after = |seconds: u64| {
            let last_pass_s = Some(unix_seconds() - seconds);
            let standing = Standing { state: State::Passing, last_pass_s, ..Standing::enrolled(0) };
            let mut record = serde_json::from_value(json!({
                "id": "a", "key": "a", "keys": ["a"], "status": "approved", "labels": {}, "state": "passing",
                "standing": standing, "first_seen_ms": 0, "last_seen_ms": 0, "address": "", "software": "", "due": null,
                "last_verdict": null, "connected_to": null,
            }))
            .unwrap();
            age(&mut record, &rules);
            (record.state.clone(), record.standing().state.name().to_owned())
        };
        let both = |state: State| (state.name().to_owned(), state.name().to_owned());
        assert_eq!(state_after(rules.expires_after_s - 60), both(State::Passing));
        assert_eq!(state_after(rules.expires_after_s + 60), both(State::Expired));
    }
}

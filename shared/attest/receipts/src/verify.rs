//! Checks a receipt with nothing but the keys: no network, no files, no clock.
//!
//! The cheapest checks come first. Nothing of a token is believed before its signature holds; of its header, only the
//! id of the key is used, and only to look it up among those given.

use assay_work::PublicKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::{Deserialize, Deserializer};

use crate::claims::{Claims, EAR_PROFILE, Tier};
use crate::keys::{KeySet, ReceiptKey};
use crate::nonce::EatNonce;

/// Bytes of the largest token that is read: twice that of a host with 64 devices.
pub const MAX_TOKEN_BYTES: usize = assay_protocol::wire::limits::MAX_RECEIPT_BYTES;
/// The type of a signed EAT in a token's header (RFC 9782, without `application/`).
pub(crate) const TOKEN_TYPE: &str = "eat+jwt";
/// Bytes of a word of the token that an error names.
const MAX_NAMED_CHARS: usize = 64;

/// The expectations that a receipt is checked against.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceiptExpectations<'a> {
    /// The nonce that must be in it; `None`: any, or none.
    pub nonce: Option<&'a EatNonce>,
    /// The miner that it must be about; `None`: any.
    pub miner: Option<PublicKey>,
    /// The validator that must have judged; `None`: any whose receipt key is given.
    pub validator: Option<PublicKey>,
    /// The fewest bytes that must be proven to have been in memory; 0: none need be.
    pub min_bytes: u64,
    /// Whether it may have expired: it then states the past.
    pub may_have_expired: bool,
    /// Seconds since 1970.
    pub now_s: u64,
    /// Seconds that the issuer's clock may differ from this one.
    pub leeway_s: u64,
}

/// Why a receipt is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// Too long to be read.
    #[error("the receipt has {0} bytes; at most {MAX_TOKEN_BYTES} are read")]
    TooLarge(usize),
    /// Not three parts of base64url with a JSON object first.
    #[error("this is no JSON Web Token: it must have three parts of base64url, with dots between them")]
    NotToken,
    /// The header says that there is no signature.
    #[error("the receipt is not signed: its header says alg = none")]
    Unsigned,
    /// Another algorithm than the one that receipts are signed with.
    #[error("the receipt claims to be signed with {0}: receipts are signed with EdDSA, and nothing else is accepted")]
    Algorithm(String),
    /// A header that must be understood and is not.
    #[error("the header has extensions that must be understood (crit), and receipts have none")]
    Extensions,
    /// Another type of token.
    #[error("the token is of the type {0:?}: a receipt has the type \"eat+jwt\"")]
    Type(String),
    /// No key is named.
    #[error("the receipt does not say which key signed it (kid)")]
    NoKeyId,
    /// The key is not among those given.
    #[error(
        "the receipt was signed with the key {0:?}, which is not in the JWK set: take the newest set of the validator \
         that you trust; if the key is not there either, the receipt is not that validator's or its key was given up"
    )]
    UnknownKey(String),
    /// The overlap of the key's rotation is over.
    #[error("the key {key_id} was in use until {until_s} (seconds since 1970): ask for a newer receipt")]
    KeyExpired {
        /// The key.
        key_id: String,
        /// The end of its use, in seconds since 1970.
        until_s: u64,
    },
    /// The signature does not hold.
    #[error("the signature does not hold: the receipt was altered, or signed with another key than it names")]
    Signature,
    /// Signed, but no attestation result of this profile.
    #[error("the token is signed, but is no receipt: {0}")]
    NotReceipt(String),
    /// The receipt has expired.
    #[error("the receipt expired {ago_s} s ago: ask for a newer one")]
    Expired {
        /// Seconds since then.
        ago_s: u64,
    },
    /// Issued later than now.
    #[error("the receipt was issued {ahead_s} s in the future: compare the clocks of this host and of the validator")]
    FromFuture {
        /// Seconds until then.
        ahead_s: u64,
    },
    /// Another nonce than expected.
    #[error("the receipt has the nonce {found:?}, expected {expected:?}: it was issued for somebody else's request")]
    OtherNonce {
        /// The expected nonce.
        expected: String,
        /// The receipt's nonce.
        found: String,
    },
    /// About another miner than expected.
    #[error("the receipt is about the miner {0}, and not about the one expected")]
    OtherMiner(PublicKey),
    /// Of another validator than expected.
    #[error("the receipt is of the validator {0}, and not of the one expected")]
    OtherValidator(PublicKey),
    /// Less memory than expected.
    #[error("the receipt proves {found} bytes of memory, expected {expected} or more")]
    TooLittleMemory {
        /// The expected bytes.
        expected: u64,
        /// The receipt's bytes.
        found: u64,
    },
    /// No nonce, where one is expected.
    #[error("the receipt has no nonce, expected {0:?}: it was not issued for your request")]
    NoNonce(String),
}

impl ReceiptError {
    /// The stable, machine-readable name.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::NotToken => "not_a_token",
            Self::Unsigned => "unsigned",
            Self::Algorithm(_) => "algorithm",
            Self::Extensions => "extensions",
            Self::Type(_) => "type",
            Self::NoKeyId => "no_key_id",
            Self::UnknownKey(_) => "unknown_key",
            Self::KeyExpired { .. } => "key_expired",
            Self::Signature => "signature",
            Self::NotReceipt(_) => "not_a_receipt",
            Self::Expired { .. } => "expired",
            Self::FromFuture { .. } => "from_future",
            Self::OtherNonce { .. } => "other_nonce",
            Self::NoNonce(_) => "no_nonce",
            Self::OtherMiner(_) => "other_miner",
            Self::OtherValidator(_) => "other_validator",
            Self::TooLittleMemory { .. } => "too_little_memory",
        }
    }
}

/// The fields of a header that are read before the signature holds.
#[derive(Deserialize)]
struct JwsHeader {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
    /// Also `null` is a value.
    #[serde(default, deserialize_with = "present")]
    crit: Option<serde_json::Value>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(value).map(Some)
}

/// The profile alone: all other claims are ignored.
#[derive(Deserialize)]
struct ProfileClaim {
    eat_profile: Option<String>,
}

/// Checks a receipt, and gives its statements.
///
/// # Errors
/// [`ReceiptError`]: the first thing that is wrong.
pub fn verify(token: &str, keys: &KeySet, expect: &ReceiptExpectations<'_>) -> Result<Claims, ReceiptError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(ReceiptError::TooLarge(token.len()));
    }
    let key = named_key(&header(token)?, keys, expect)?;
    let claims = signed_claims(token, key)?;
    check_result(&claims)?;
    check_times(&claims, expect)?;
    check_nonce(&claims, expect)?;
    check_subject(&claims, expect)?;
    Ok(claims)
}

/// The claims of a token from a trusted place, such as the validator's own records. Nothing is checked.
///
/// # Errors
/// [`ReceiptError::NotToken`], [`ReceiptError::NotReceipt`].
pub fn read_trusted(token: &str) -> Result<Claims, ReceiptError> {
    let payload = token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
    let payload = payload.ok_or(ReceiptError::NotToken)?;
    serde_json::from_slice(&payload).map_err(|error| ReceiptError::NotReceipt(named(&error.to_string())))
}

fn header(token: &str) -> Result<JwsHeader, ReceiptError> {
    let parts: Vec<_> = token.splitn(4, '.').collect();
    let [header, payload, signature] = parts[..] else { return Err(ReceiptError::NotToken) };
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| ReceiptError::NotToken);
    decoded(payload)?;
    decoded(signature)?;
    let header: JwsHeader = serde_json::from_slice(&decoded(header)?).map_err(|_| ReceiptError::NotToken)?;
    if header.alg.eq_ignore_ascii_case("none") {
        return Err(ReceiptError::Unsigned);
    }
    if header.alg != "EdDSA" {
        return Err(ReceiptError::Algorithm(named(&header.alg)));
    }
    if header.crit.is_some() {
        return Err(ReceiptError::Extensions);
    }
    match header.typ.as_deref() {
        Some(TOKEN_TYPE) => Ok(header),
        other => Err(ReceiptError::Type(named(other.unwrap_or_default()))),
    }
}

fn named_key<'a>(
    header: &JwsHeader,
    keys: &'a KeySet,
    expect: &ReceiptExpectations<'_>,
) -> Result<&'a ReceiptKey, ReceiptError> {
    let id = header.kid.as_deref().ok_or(ReceiptError::NoKeyId)?;
    let key = keys.get(id).ok_or_else(|| ReceiptError::UnknownKey(named(id)))?;
    match key.expires_s {
        Some(until_s) if expect.now_s >= until_s.saturating_add(expect.leeway_s) => {
            Err(ReceiptError::KeyExpired { key_id: id.into(), until_s })
        }
        _ => Ok(key),
    }
}

/// The claims of a token whose signature holds.
fn signed_claims(token: &str, key: &ReceiptKey) -> Result<Claims, ReceiptError> {
    let key = DecodingKey::from_ed_der(key.public_key.as_bytes());
    let mut validation = Validation::new(Algorithm::EdDSA);
    // Times are checked below, by the caller's clock.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let json: serde_json::Value = match decode(token, &key, &validation) {
        Ok(decoded) => decoded.claims,
        Err(error) => match error.kind() {
            jsonwebtoken::errors::ErrorKind::Json(_) => {
                return Err(ReceiptError::NotReceipt("its claims are no JSON object".into()));
            }
            _ => return Err(ReceiptError::Signature),
        },
    };
    let profile = ProfileClaim::deserialize(&json).ok().and_then(|profile| profile.eat_profile);
    if profile.as_deref() != Some(EAR_PROFILE) {
        let found = profile.map_or_else(|| "none".into(), |profile| format!("{:?}", named(&profile)));
        return Err(ReceiptError::NotReceipt(format!("its profile is {found}, expected {EAR_PROFILE:?}")));
    }
    if let Some(claim) = ["aud", "nbf"].into_iter().find(|claim| json.get(claim).is_some()) {
        return Err(ReceiptError::NotReceipt(format!("it has {claim}, which no receipt has")));
    }
    // Not from the value, in which the last of two equal names has taken the place of the first.
    read_trusted(token)
}

/// No summary is better than its parts.
fn check_result(claims: &Claims) -> Result<(), ReceiptError> {
    let refused = |what: &str| Err(ReceiptError::NotReceipt(what.into()));
    let host = &claims.submods.host;
    let affirms = |tier| tier == Tier::Affirming;
    let mut parts = claims.submods.devices.values().map(|device| device.ear_status).chain([host.ear_status]);
    if affirms(claims.ear_status) && !parts.all(affirms) {
        return refused("its status is affirming, and that of a part is not");
    }
    if affirms(host.ear_status) && host.ear_verifier_claims.outcome != "pass" {
        return refused("its status is affirming, and its verdict is no pass");
    }
    Ok(())
}

fn check_times(claims: &Claims, expect: &ReceiptExpectations<'_>) -> Result<(), ReceiptError> {
    if !expect.may_have_expired && expect.now_s >= claims.exp.saturating_add(expect.leeway_s) {
        return Err(ReceiptError::Expired { ago_s: expect.now_s - claims.exp });
    }
    if claims.iat > expect.now_s.saturating_add(expect.leeway_s) {
        return Err(ReceiptError::FromFuture { ahead_s: claims.iat - expect.now_s });
    }
    Ok(())
}

fn check_nonce(claims: &Claims, expect: &ReceiptExpectations<'_>) -> Result<(), ReceiptError> {
    match (expect.nonce, &claims.eat_nonce) {
        (None, _) => Ok(()),
        (Some(expected), Some(found)) if expected == found => Ok(()),
        (Some(expected), None) => Err(ReceiptError::NoNonce(expected.to_string())),
        (Some(expected), Some(found)) => {
            Err(ReceiptError::OtherNonce { expected: expected.to_string(), found: found.to_string() })
        }
    }
}

fn check_subject(claims: &Claims, expect: &ReceiptExpectations<'_>) -> Result<(), ReceiptError> {
    if expect.miner.is_some_and(|miner| miner != claims.sub) {
        return Err(ReceiptError::OtherMiner(claims.sub));
    }
    if expect.validator.is_some_and(|validator| validator != claims.iss) {
        return Err(ReceiptError::OtherValidator(claims.iss));
    }
    let found = claims.submods.host.ear_verifier_claims.proven.map_or(0, |proven| proven.bytes);
    let expected = expect.min_bytes;
    if found < expected { Err(ReceiptError::TooLittleMemory { expected, found }) } else { Ok(()) }
}

/// A word of somebody else's, as an error names it.
fn named(text: &str) -> String {
    assay_work::text::printable(text, MAX_NAMED_CHARS)
}

//! Certificates: a validator's own, made from its key; those of an authority, from files; and their facts.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assay_protocol::identity::Identity;
use assay_protocol::successor::{Successor, decode_all, encode_all};
use assay_work::PublicKey;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::provider::provider;

/// The extension with the statements by which a key follows older ones. The number is not registered with IANA.
const SUCCESSORS_OID: [u64; 8] = [1, 3, 6, 1, 4, 1, 58_270, 1];
/// The largest file of certificates that is read: the authorities of a whole system take 250 kB.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The longest chain that is presented: an authority's have two or three.
const MAX_CHAIN: usize = 8;
/// The algorithm of Ed25519 keys (RFC 8410).
const ED25519_OID: &str = "1.3.101.112";

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file has another content.
    #[error("{path}: {problem}")]
    Content {
        path: PathBuf,
        /// The requirement that it misses.
        problem: String,
    },
    /// The system has no authorities.
    #[error("this machine has no certificates of authorities (package ca-certificates){0}")]
    System(String),
    /// The key makes no certificate.
    #[error("no certificate can be made from the validator's key: {0}")]
    Own(String),
}

/// A certificate of an authority with its key, as files have them.
#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    /// The chain and the key.
    pub certified: Arc<CertifiedKey>,
    /// When it is valid, in seconds since 1970.
    pub valid_unix_seconds: std::ops::RangeInclusive<u64>,
    /// The names and addresses that it is for.
    pub names: Vec<String>,
}

/// The facts of a certificate, unverified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its key, where that is one of Ed25519.
    pub key: Option<PublicKey>,
    /// The statements that it carries.
    pub successors: Vec<Successor>,
    /// When it is valid, in seconds since 1970.
    pub valid_unix_seconds: std::ops::RangeInclusive<u64>,
    /// The names and addresses that it is for.
    pub names: Vec<String>,
}

/// A certificate of the validator's own key, signed by that key. It has no name and never ends: a client that knows the
/// key checks nothing else.
///
/// # Errors
/// [`CertificateError::Own`].
pub fn own(identity: &Identity, successors: &[Successor]) -> Result<CertifiedKey, CertificateError> {
    let failed = |error: &dyn std::fmt::Display| CertificateError::Own(error.to_string());
    let der = identity.pkcs8_der();
    let key = PrivatePkcs8KeyDer::from(&der[..]);
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519).map_err(|e| failed(&e))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "assay validator");
    if !successors.is_empty() {
        params.custom_extensions = vec![CustomExtension::from_oid_content(&SUCCESSORS_OID, encode_all(successors))];
    }
    let certificate = params.self_signed(&pair).map_err(|e| failed(&e))?;
    let signer = rustls::crypto::ring::sign::any_eddsa_type(&key).map_err(|e| failed(&e))?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], signer))
}

impl IssuedCertificate {
    /// Reads a chain of certificates and its key, both PEM.
    ///
    /// # Errors
    /// [`CertificateError`], with the file and its problem.
    pub fn load(certificates: &Path, key: &Path) -> Result<Self, CertificateError> {
        let wrong = |path: &Path, problem: String| CertificateError::Content { path: path.into(), problem };
        let chain = read_certificates(certificates)?;
        if chain.len() > MAX_CHAIN {
            return Err(wrong(certificates, format!("has {} certificates, at most {MAX_CHAIN} are sent", chain.len())));
        }
        let facts =
            Facts::of(&chain[0]).ok_or_else(|| wrong(certificates, "its first certificate is malformed".into()))?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| wrong(key, format!("has no private key in PEM: {error}")))?;
        check_mode(key)?;
        let certified = CertifiedKey::from_der(chain, secret, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                wrong(key, format!("is not the key of the first certificate of {}", certificates.display()))
            }
            error => wrong(key, error.to_string()),
        })?;
        let Facts { valid_unix_seconds, names, .. } = facts;
        Ok(Self { certified: Arc::new(certified), valid_unix_seconds, names })
    }
}

/// Reads the certificates of authorities to trust, PEM.
///
/// # Errors
/// [`CertificateError`]: also where the file has none that can be trusted.
pub fn authorities(path: &Path) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| CertificateError::Content {
            path: path.into(),
            problem: format!("has a certificate that is no authority's: {error}"),
        })?;
    }
    Ok(roots)
}

/// The certificates of authorities that this machine trusts, where its system keeps them.
///
/// # Errors
/// [`CertificateError::System`] where it has none.
pub fn system_authorities() -> Result<RootCertStore, CertificateError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Malformed certificates of the system, and those that are not an authority's, are passed over.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let problems: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
    Err(CertificateError::System(if problems.is_empty() {
        String::new()
    } else {
        format!(": {}", problems.join("; "))
    }))
}

impl Facts {
    /// The facts of a certificate; `None` where it is malformed.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(certificate).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let key = certificate.public_key();
        let is_ed25519 = key.algorithm.algorithm.to_id_string() == ED25519_OID;
        let key = is_ed25519.then(|| <[u8; 32]>::try_from(key.subject_public_key.as_ref()).ok().map(PublicKey));
        let oid = SUCCESSORS_OID.map(|number| number.to_string()).join(".");
        let statements = certificate.extensions().iter().find(|extension| extension.oid.to_id_string() == oid);
        // Malformed ones say nothing.
        let successors = statements.and_then(|extension| decode_all(extension.value).ok()).unwrap_or_default();
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|names| names.value.general_names.iter().filter_map(name).collect());
        let [begins, ends] = [certificate.validity().not_before, certificate.validity().not_after]
            .map(|moment| u64::try_from(moment.timestamp()).unwrap_or(0));
        Some(Self {
            key: key.flatten(),
            successors,
            valid_unix_seconds: begins..=ends,
            names: names.unwrap_or_default(),
        })
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let wrong = |problem: String| CertificateError::Content { path: path.into(), problem };
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| wrong(format!("is no PEM file: {error}")))?;
    if certificates.is_empty() {
        return Err(wrong("has no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::File { path: path.into(), source };
    // Anything but a regular file may have no end.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("is no regular file")));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(io::Error::other("is larger than 4 MiB")));
    }
    Ok(bytes)
}

/// A key must not be readable for everyone on the machine. A group may read it: services share certificates that way.
#[cfg(unix)]
fn check_mode(path: &Path) -> Result<(), CertificateError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).map_err(|source| CertificateError::File { path: path.into(), source })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        let problem = format!("can be read by every user (mode {mode:03o}): chmod 640 it");
        return Err(CertificateError::Content { path: path.into(), problem });
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_mode(_path: &Path) -> Result<(), CertificateError> {
    Ok(())
}

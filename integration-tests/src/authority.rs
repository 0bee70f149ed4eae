//! An authority that issues certificates, in files. The tests of `transport` compile this file too.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

/// An authority of its own.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// The files of a certificate and of its key.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// Makes a new authority.
    ///
    /// # Panics
    /// Where no key can be made.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        // No two have the same name.
        let name: String = key.public_key_raw().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Writes its certificate to a file, for those who trust it.
    ///
    /// # Panics
    /// Where the file cannot be written.
    pub fn file(&self, folder: &Path) -> PathBuf {
        let path = folder.join("authority.pem");
        std::fs::write(&path, self.0.pem()).expect("a file");
        path
    }

    /// Issues a certificate for names and addresses, until the end of a year.
    ///
    /// # Panics
    /// Where the files cannot be written.
    pub fn issue(&self, folder: &Path, names: &[&str], last_year: i32) -> CertificateFiles {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_after = date_time_ymd(last_year, 12, 31);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let files = CertificateFiles { certificate: folder.join("server.pem"), key: folder.join("server.key") };
        std::fs::write(&files.certificate, certificate.pem()).expect("a file");
        std::fs::write(&files.key, key.serialize_pem()).expect("a file");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        }
        files
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

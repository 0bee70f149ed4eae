//! Reaching a validator: TCP, a proxy's CONNECT where there is one, TLS, and HTTP/2 on top.

use std::sync::Arc;
use std::time::Duration;

use assay_program::address::Address;
use assay_program::clock::unix_seconds;
use assay_program::exit::chain;
use assay_protocol::channel::Channel;
use assay_transport::certificate::{CertificateError, authorities};
use assay_transport::client::{SecuredStream, secure};
use assay_transport::dial::{DialError, dial};
use assay_transport::failure::TlsFailure;
use assay_transport::known::{ChangedKey, KnownError, KnownValidators};
use assay_transport::proxy::{Proxies, ProxyError};
use assay_transport::trust::Trust;
use assay_work::PublicKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::config::MinerConfig;
use crate::first_byte::FirstByte;
use crate::http2;
use crate::target::{Security, ValidatorTarget};

/// How long a connection may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The file beside the key file, in which validators' keys are kept.
const KNOWN_VALIDATORS: &str = "known_validators";

#[derive(Debug)]
pub struct Reach {
    address: Address,
    means: Means,
    known: Arc<KnownValidators>,
    proxies: Proxies,
}

/// The transport, and how the validator is authenticated.
#[derive(Debug)]
enum Means {
    /// In plaintext.
    Plaintext,
    /// By TLS with a key of the validator's own: one that was given, or the one that it had first.
    Key(Option<PublicKey>),
    /// By TLS with a certificate of an authority; only this key may sign the session.
    Authorities { trust: Trust, key: Option<PublicKey>, is_proxied: bool },
}

/// A connection to a validator on which nothing was said yet.
#[derive(Debug)]
pub struct ValidatorConnection {
    pub http: tonic::transport::Channel,
    /// The channel that the session's signatures cover.
    pub channel: Channel,
    /// Whether TLS showed that the server is the configured or known validator, or its proxy.
    pub is_authenticated: bool,
    /// The only key that may sign the session.
    pub pinned: Option<PublicKey>,
    /// The key to keep once the session stands.
    pub to_keep: Option<PendingKey>,
    /// The first byte of the answer to plaintext.
    pub first_byte: FirstByte,
}

/// A key that is kept once its holder has proved it in a session.
#[derive(Debug)]
pub struct PendingKey {
    known: Arc<KnownValidators>,
    address: Address,
    key: PublicKey,
    given: Option<PublicKey>,
}

/// Why a validator was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("no connection to {0} within {CONNECT_LIMIT:?}")]
    Slow(Address),
    #[error("no TLS connection to {address}: {failure}")]
    Tls {
        /// The dialled address.
        address: Address,
        failure: TlsFailure,
    },
    /// It has another key than before.
    #[error(transparent)]
    Changed(Box<ChangedKey>),
    /// The file of known validators cannot be used.
    #[error(transparent)]
    Known(#[from] KnownError),
    #[error("no connection: {0}")]
    Http(String),
}

/// Why nothing can be reached with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("validator_ca: {0}")]
    Authorities(#[from] CertificateError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The file of known validators.
    #[error(transparent)]
    Known(#[from] KnownError),
}

impl ReachError {
    /// Whether dialling again is pointless until an operator changes something.
    pub const fn needs_operator(&self) -> bool {
        match self {
            Self::Tls { failure, .. } => failure.needs_operator(),
            Self::Changed(_) | Self::Known(KnownError::Line { .. }) => true,
            // A read that fails, as without a free descriptor, may succeed later.
            Self::Known(KnownError::File { .. }) | Self::Dial(_) | Self::Slow(_) | Self::Http(_) => false,
        }
    }
}

impl PendingKey {
    /// Keeps the key; where it cannot be written, until this process ends.
    pub fn keep(self) {
        let Self { known, address, key, given } = self;
        let (file, validator) = (known.path().display(), &key);
        match known.keep(&address, key, given, unix_seconds()) {
            Ok(()) if given.is_some() => {
                tracing::info!(%address, %validator, %file, "the validator's key follows the configured one, and is kept: \
                     put it in this miner's settings");
            }
            Ok(()) => tracing::warn!(%address, %validator, %file, "trusted on first use: the validator's key is kept"),
            Err(error) => {
                tracing::error!(%address, %validator, %error, "the validator's key cannot be written: the miner keeps it \
                     until it ends, and tries again at the next session");
            }
        }
    }
}

/// Reaches each validator of a configuration; their keys are kept beside the miner's own.
///
/// # Errors
/// [`SetupError`]: a file or a variable that cannot be used.
pub fn each(config: &MinerConfig) -> Result<Vec<Reach>, SetupError> {
    let known = Arc::new(KnownValidators::new(config.key_file.with_file_name(KNOWN_VALIDATORS)));
    config.validators.iter().map(|validator| Reach::new(validator.clone(), known.clone())).collect()
}

impl Reach {
    fn new(target: ValidatorTarget, known: Arc<KnownValidators>) -> Result<Self, SetupError> {
        let means = match target.security {
            Security::Plaintext => Means::Plaintext,
            Security::Key(key) => Means::Key(Some(key)),
            Security::FirstUse => Means::Key(None),
            Security::Authorities { file, key, is_proxied } => {
                Means::Authorities { trust: Trust::Authorities(Arc::new(authorities(&file)?)), key, is_proxied }
            }
        };
        // A file that is malformed is found before the first session.
        known.find(&target.target.address, None)?;
        Ok(Self { address: target.target.address, means, known, proxies: Proxies::from_environment()? })
    }

    /// The dialled address, for the log.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    pub async fn connect(&self) -> Result<ValidatorConnection, ReachError> {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, self.connect_slowly());
        connecting.await.unwrap_or_else(|_| Err(ReachError::Slow(self.address.clone())))
    }

    async fn connect_slowly(&self) -> Result<ValidatorConnection, ReachError> {
        match &self.means {
            Means::Plaintext => self.plaintext().await,
            Means::Key(given) => self.own_key(*given).await,
            Means::Authorities { trust, key, is_proxied } => self.authority(trust, *key, *is_proxied).await,
        }
    }

    async fn plaintext(&self) -> Result<ValidatorConnection, ReachError> {
        let first_byte = FirstByte::default();
        let http = self.http(first_byte.watch(self.dial().await?)).await?;
        let (channel, is_authenticated) = (Channel::Plaintext, false);
        Ok(ValidatorConnection { http, channel, is_authenticated, pinned: None, to_keep: None, first_byte })
    }

    /// A validator that presents a certificate of its own key.
    async fn own_key(&self, given: Option<PublicKey>) -> Result<ValidatorConnection, ReachError> {
        // Read first: where that fails, no connection is made.
        let known = self.known.find(&self.address, given)?;
        let expected = known.as_ref().map(|known| known.key).or(given);
        let is_unwritten = known.as_ref().is_some_and(|known| known.line.is_none());
        let stream = self.dial().await?;
        let secured = self.secure(stream, &expected.map_or(Trust::FirstUse, Trust::Key)).await;
        let SecuredStream { stream, channel, key } = match (secured, known) {
            (Err(ReachError::Tls { failure: TlsFailure::WrongKey { found, .. }, .. }), Some(known)) => {
                let (address, file) = (self.address.clone(), self.known.path().into());
                return Err(ReachError::Changed(Box::new(ChangedKey { address, known, found, file })));
            }
            (secured, _) => secured?,
        };
        let to_keep = key.filter(|key| Some(*key) != expected || is_unwritten).map(|key| self.to_keep(key, given));
        let http = self.http(stream).await?;
        let (is_authenticated, first_byte) = (expected.is_some(), FirstByte::default());
        Ok(ValidatorConnection { http, channel, is_authenticated, pinned: key, to_keep, first_byte })
    }

    /// A host with a certificate of an authority: the validator, or a proxy in front of it.
    async fn authority(
        &self,
        trust: &Trust,
        pinned: Option<PublicKey>,
        is_proxied: bool,
    ) -> Result<ValidatorConnection, ReachError> {
        let SecuredStream { stream, channel, .. } = self.secure(self.dial().await?, trust).await?;
        let channel = if is_proxied { Channel::Proxied } else { channel };
        let (http, first_byte) = (self.http(stream).await?, FirstByte::default());
        Ok(ValidatorConnection { http, channel, is_authenticated: true, pinned, to_keep: None, first_byte })
    }

    fn to_keep(&self, key: PublicKey, given: Option<PublicKey>) -> PendingKey {
        PendingKey { known: self.known.clone(), address: self.address.clone(), key, given }
    }

    async fn dial(&self) -> Result<TcpStream, DialError> {
        dial(&self.address, &self.proxies, CONNECT_LIMIT).await
    }

    async fn secure(&self, stream: TcpStream, trust: &Trust) -> Result<SecuredStream<TcpStream>, ReachError> {
        let secured = secure(stream, &self.address.host, trust).await;
        secured.map_err(|failure| ReachError::Tls { address: self.address.clone(), failure })
    }

    /// Speaks HTTP/2 on a stream.
    async fn http<S>(&self, stream: S) -> Result<tonic::transport::Channel, ReachError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let is_secured = !matches!(self.means, Means::Plaintext);
        let connected = http2::connect(&self.address.to_string(), is_secured, stream).await;
        connected.map_err(|error| ReachError::Http(chain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use assay_program::exit::{Exit, of_file_error};
    use assay_protocol::identity::Identity;
    use assay_transport::certificate::own;
    use assay_transport::server::ServerTls;
    use tokio::net::TcpListener;

    use super::*;

    /// A miner of this folder that trusts on first use.
    fn reach(address: Address, folder: &Path) -> Reach {
        let known = Arc::new(KnownValidators::new(folder.join(KNOWN_VALIDATORS)));
        Reach { address, means: Means::Key(None), known, proxies: Proxies::from_variables(|_| None).unwrap() }
    }

    /// Accepts a connection as the validator with this key, until the stream ends.
    async fn serve(listener: &TcpListener, key: u8) {
        let tls = ServerTls::new(own(&Identity::from_seed(&[key; 32]), &[]).unwrap(), None).unwrap();
        let Ok(mut stream) = tls.accept(listener.accept().await.unwrap().0).await else { return };
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }

    #[tokio::test]
    async fn known_validators_that_cannot_be_read_are_read_again_and_malformed_ones_end_the_miner() {
        let folder = tempfile::tempdir().unwrap();
        let reach = reach("127.0.0.1:1".parse().unwrap(), folder.path());
        let file = folder.path().join(KNOWN_VALIDATORS);
        fs::create_dir(&file).unwrap();
        let error = reach.connect().await.unwrap_err();
        assert!(matches!(error, ReachError::Known(KnownError::File { .. })) && !error.needs_operator(), "{error}");
        fs::remove_dir(&file).unwrap();
        fs::write(&file, "a:1\n").unwrap();
        let error = reach.connect().await.unwrap_err();
        assert!(matches!(error, ReachError::Known(KnownError::Line { .. })) && error.needs_operator(), "{error}");
    }

    /// A start without a permission ends with a sentence for its operator; one on a disk that fails is tried again.
    #[test]
    fn a_start_ends_for_good_where_no_restart_mends_the_file() {
        let start = |source: std::io::Error| SetupError::from(KnownError::File { path: "a".into(), source });
        assert_eq!(of_file_error(&start(std::io::ErrorKind::PermissionDenied.into())), Exit::Config);
        assert_eq!(of_file_error(&start(std::io::ErrorKind::StorageFull.into())), Exit::Io);
    }

    #[tokio::test]
    async fn a_first_use_that_cannot_be_written_is_one_first_use() {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let reach = reach(listener.local_addr().unwrap().to_string().parse().unwrap(), folder.path());
        // As on a full disk: the new file cannot be written.
        fs::create_dir(folder.path().join("known_validators.new")).unwrap();
        for is_known in [false, true] {
            let connect = async {
                let connected = reach.connect().await.unwrap();
                (connected.is_authenticated, connected.to_keep)
            };
            let (_, (is_authenticated, to_keep)) = tokio::join!(serve(&listener, 1), connect);
            assert_eq!(is_authenticated, is_known, "a first use takes any server");
            to_keep.expect("it is not in the file").keep();
        }
        let (_, connected) = tokio::join!(serve(&listener, 2), reach.connect());
        let error = connected.unwrap_err();
        assert!(matches!(error, ReachError::Changed(_)) && error.needs_operator(), "{error}");
    }
}

//! The address of a validator's HTTP API, as people type it.

use assay_transport::http::{Url, UrlError};

/// Reasons why a text is not a server's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerUrlError {
    /// The address of the gRPC service, which is for miners.
    #[error(
        "assay:// is what miners connect to: take the port of http_listen, and https:// in its place, as in \
         https://HOST:7480#KEY"
    )]
    Miners,
    #[error(transparent)]
    Url(#[from] UrlError),
}

/// Reads a server: `https://HOST:PORT#KEY`, `https://HOST[:PORT]` or `http://HOST[:PORT]`.
pub fn server(text: &str) -> Result<Url, ServerUrlError> {
    if text.starts_with("assay://") {
        return Err(ServerUrlError::Miners);
    }
    Ok(Url::without_path(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_miners_is_refused_with_the_form() {
        assert_eq!(server("https://a").unwrap().to_string(), "https://a:443");
        assert_eq!(server("assay://a:1"), Err(ServerUrlError::Miners));
        assert_eq!(server("https://a:1/api"), Err(ServerUrlError::Url(UrlError::Path)));
    }
}

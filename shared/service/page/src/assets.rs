//! The stylesheet, the script and the sign of the pages: all that a browser fetches beside them.

use std::sync::LazyLock;

/// A file that pages name.
#[derive(Debug)]
pub struct Asset {
    /// Its name below `/assets/`.
    pub name: &'static str,
    pub media_type: &'static str,
    pub bytes: &'static [u8],
    /// The entity tag, in quotes, made from the content.
    pub etag: String,
}

impl Asset {
    fn new(name: &'static str, media_type: &'static str, text: &'static str) -> Self {
        let etag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..16]);
        Self { name, media_type, bytes: text.as_bytes(), etag }
    }

    /// Where it is fetched from: another address for other contents, so that a browser never has an old one.
    pub fn address(&self) -> String {
        format!("/assets/{}?v={}", self.name, self.etag.trim_matches('"'))
    }
}

pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("assay.css", "text/css; charset=utf-8", include_str!("assets/assay.css")));
pub static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("assay.js", "text/javascript; charset=utf-8", include_str!("assets/assay.js")));
/// The sign in the browser's tab.
pub static SIGN: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("assay.svg", "image/svg+xml", include_str!("assets/assay.svg")));

/// Every file that pages name.
pub fn assets() -> [&'static Asset; 3] {
    [&STYLE, &SCRIPT, &SIGN]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_names_nothing_elsewhere() {
        for asset in assets() {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("//") || asset.name.ends_with(".js"), "{}", asset.name);
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("@import"), "{}", asset.name);
            assert!(asset.address().ends_with(asset.etag.trim_matches('"')));
        }
    }
}

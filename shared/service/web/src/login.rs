//! Logins of pages: one-time codes, and the cookies that they are exchanged for. Both live in memory: after a restart a
//! page must log in anew.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use assay_api::Role;
use assay_records::Actor;
use axum::http::HeaderValue;
use parking_lot::Mutex;

use super::caller::cookie_name;
use assay_judge::entropy::{Entropy, EntropyError};
use assay_listen::bounds::{LOGIN_CODE_LIMIT, LOGIN_LIMIT, MAX_LOGIN_CODES, MAX_LOGINS, MAX_TOKEN_LOGINS};

/// A logged-in caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Author of the changes that it makes.
    pub actor: Actor,
    pub role: Role,
    /// The token that created the login and ends it; `None`: a code of the control socket.
    pub token: Option<String>,
}

/// Codes and logins, indexed by the BLAKE3 hash of their secrets: comparing hashes leaks nothing about them.
#[derive(Debug, Default)]
pub struct Logins(Mutex<LoginState>);

#[derive(Debug, Default)]
struct LoginState {
    codes: VecDeque<StoredLogin>,
    logins: VecDeque<StoredLogin>,
}

#[derive(Debug)]
struct StoredLogin {
    hash: blake3::Hash,
    until: Instant,
    login: Login,
}

impl Logins {
    /// Creates a one-time code.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn code(&self, login: Login, entropy: &mut impl Entropy, now: Instant) -> Result<String, EntropyError> {
        let code = blake3::Hash::from(entropy.bytes()?).to_hex().to_string();
        add(&mut self.0.lock().codes, MAX_LOGIN_CODES, &code, login, now + LOGIN_CODE_LIMIT);
        Ok(code)
    }

    /// Consumes a code; returns its login.
    pub fn redeem(&self, code: &str, now: Instant) -> Option<Login> {
        let mut state = self.0.lock();
        let hash = blake3::hash(code.as_bytes());
        let at = state.codes.iter().position(|entry| entry.hash == hash)?;
        state.codes.remove(at).filter(|entry| now < entry.until).map(|entry| entry.login)
    }

    /// Logs in; returns the value of the cookie.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn begin(&self, login: Login, entropy: &mut impl Entropy, now: Instant) -> Result<String, EntropyError> {
        let cookie = blake3::Hash::from(entropy.bytes()?).to_hex().to_string();
        let logins = &mut self.0.lock().logins;
        logins.retain(|entry| now < entry.until);
        if let Some(token) = &login.token {
            let of_token = |entry: &StoredLogin| entry.login.token.as_ref() == Some(token);
            if logins.iter().filter(|entry| of_token(entry)).count() >= MAX_TOKEN_LOGINS
                && let Some(oldest) = logins.iter().position(of_token)
            {
                logins.remove(oldest);
            }
        }
        add(logins, MAX_LOGINS, &cookie, login, now + LOGIN_LIMIT);
        Ok(cookie)
    }

    /// Finds the current login of a cookie.
    pub fn find(&self, cookie: &str) -> Option<Login> {
        self.find_at(cookie, Instant::now())
    }

    fn find_at(&self, cookie: &str, now: Instant) -> Option<Login> {
        let hash = blake3::hash(cookie.as_bytes());
        let state = self.0.lock();
        state.logins.iter().find(|entry| entry.hash == hash && now < entry.until).map(|entry| entry.login.clone())
    }

    /// Logs out.
    pub fn end(&self, cookie: &str) {
        let hash = blake3::hash(cookie.as_bytes());
        self.0.lock().logins.retain(|entry| entry.hash != hash);
    }
}

fn add(entries: &mut VecDeque<StoredLogin>, most: usize, text: &str, login: Login, until: Instant) {
    if entries.len() >= most {
        entries.pop_front();
    }
    entries.push_back(StoredLogin { hash: blake3::hash(text.as_bytes()), until, login });
}

/// The header that sets or removes the cookie of a login.
pub fn set_cookie(value: Option<&str>, is_encrypted: bool) -> HeaderValue {
    let lifetime = value.map_or(Duration::ZERO, |_| LOGIN_LIMIT).as_secs();
    let (name, secure) = (cookie_name(is_encrypted), if is_encrypted { "; Secure" } else { "" });
    let value = value.unwrap_or("");
    let header = format!("{name}={value}; Path=/; Max-Age={lifetime}; HttpOnly; SameSite=Strict{secure}");
    // The value is hexadecimal.
    HeaderValue::from_str(&header).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_judge::entropy::OsEntropy;

    fn login(name: &str) -> Login {
        Login { actor: Actor { name: name.to_owned(), uid: None }, role: Role::Operate, token: None }
    }

    #[test]
    fn a_code_logs_in_once_and_in_time() {
        let (logins, now) = (Logins::default(), Instant::now());
        let code = logins.code(login("a"), &mut OsEntropy, now).unwrap();
        assert_eq!(logins.redeem("other", now), None);
        assert_eq!(logins.redeem(&code, now), Some(login("a")));
        assert_eq!(logins.redeem(&code, now), None, "it was used");
        let late = logins.code(login("b"), &mut OsEntropy, now).unwrap();
        assert_eq!(logins.redeem(&late, now + LOGIN_CODE_LIMIT), None);
    }

    #[test]
    fn a_login_lasts_until_it_ends_or_is_ended() {
        let (logins, now) = (Logins::default(), Instant::now());
        let cookie = logins.begin(login("a"), &mut OsEntropy, now).unwrap();
        assert_eq!(logins.find_at(&cookie, now), Some(login("a")));
        assert_eq!(logins.find_at(&cookie, now + LOGIN_LIMIT), None);
        logins.end(&cookie);
        assert_eq!(logins.find_at(&cookie, now), None);
    }

    #[test]
    fn a_token_signs_nobody_else_out() {
        let (logins, now) = (Logins::default(), Instant::now());
        let other = logins.begin(login("a"), &mut OsEntropy, now).unwrap();
        let of_token = Login { token: Some("t".to_owned()), ..login("b") };
        let begin = |_| logins.begin(of_token.clone(), &mut OsEntropy, now).unwrap();
        let cookies: Vec<_> = (0..2 * MAX_LOGINS).map(begin).collect();
        assert!(logins.find_at(&other, now).is_some());
        let stand = cookies.iter().filter(|cookie| logins.find_at(cookie, now).is_some()).count();
        assert_eq!(stand, MAX_TOKEN_LOGINS);
        assert!(logins.find_at(&cookies[cookies.len() - 1], now).is_some(), "the newest");
    }

    #[test]
    fn the_oldest_makes_room() {
        let (logins, now) = (Logins::default(), Instant::now());
        let cookies: Vec<_> =
            (0..=MAX_LOGINS).map(|_| logins.begin(login("a"), &mut OsEntropy, now).unwrap()).collect();
        assert_eq!(logins.0.lock().logins.len(), MAX_LOGINS);
        assert_eq!(logins.find_at(&cookies[0], now), None);
        assert!(logins.find_at(&cookies[1], now).is_some());
    }

    #[test]
    fn a_cookie_is_for_this_site_alone_and_not_for_scripts() {
        let header = set_cookie(Some("ab"), true);
        let text = header.to_str().unwrap();
        assert!(["HttpOnly", "SameSite=Strict", "Secure", "Path=/"].iter().all(|part| text.contains(part)), "{text}");
        assert!(text.starts_with("__Host-assay_login=ab;") && !text.contains("Domain"), "{text}");
        assert!(!set_cookie(Some("ab"), false).to_str().unwrap().contains("Secure"));
        assert!(set_cookie(None, true).to_str().unwrap().contains("Max-Age=0"));
    }
}

//! The commands that let others in: tokens, and a login on the page.

use std::net::SocketAddr;
use std::process::Output;

use assay_api::ProblemCode;
use assay_integration_tests::daemon::run;
use assay_integration_tests::validator::TestValidator;
use assay_integration_tests::web::Caller;
use hyper::Method;
use hyper::body::Bytes;

use super::serving;

/// The exit code, standard output and standard error.
fn operate(validator: &TestValidator, words: &str) -> (i32, String, String) {
    let socket = format!("--control-socket={}", validator.socket.display());
    let Output { status, stdout, stderr } = run("assay-validator", words.split(' ').chain([socket.as_str()]));
    let text = |bytes| String::from_utf8(bytes).expect("programs print text");
    (status.code().expect("it ends by itself"), text(stdout), text(stderr))
}

fn holder(address: SocketAddr, token: &str) -> Caller {
    Caller::at(address).with("authorization", &format!("Bearer {token}"))
}

#[tokio::test]
async fn a_token_counts_from_its_command_until_it_is_revoked() {
    let (validator, address) = serving(&["--http-anonymous-read=false"]).await;
    let (code, token, said) = operate(&validator, "token create --role operate --name laptop --expires 1h");
    assert_eq!(code, 0, "{said}");
    // Alone, so that it can go into a file.
    let token = token.strip_suffix('\n').unwrap();
    assert!(!token.contains(char::is_whitespace) && !said.contains(token), "{token}: {said}");
    let holder = holder(address, token);
    assert_eq!(holder.get("/api/v1/status").await.status, 200);
    let admin = serde_json::json!({ "role": "read", "name": "x", "expires_s": 60 });
    assert_eq!(holder.post("/api/v1/tokens", &admin).await.problem().code, ProblemCode::Forbidden, "it operates");

    let (_, listed, _) = operate(&validator, "token list --json");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["role"]), (&"laptop".into(), &"operate".into()));
    assert!(listed[0]["last_used_ms"].is_i64() && !listed.to_string().contains(token), "{listed}");
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(operate(&validator, "token revoke 0123456789abcdef0123456789abcdef").0, 2, "no such token");
    let (code, said, _) = operate(&validator, &format!("token revoke {}", &id[..8]));
    assert_eq!((code, said), (0, format!("token {}, laptop, is revoked\n", &id[..8])));
    assert_eq!(holder.get("/api/v1/status").await.problem().code, ProblemCode::Unauthorized);
    // A join token, by the digits that its list shows.
    assert_eq!(operate(&validator, "enroll").0, 0);
    let (_, listed, _) = operate(&validator, "enroll --list --json");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let short = &listed[0]["hash"].as_str().unwrap()[..8];
    let (code, said, _) = operate(&validator, &format!("token revoke {short}"));
    assert_eq!((code, said), (0, format!("token {short}, a join token, is revoked\n")));
    assert_eq!(operate(&validator, "enroll --list --json").1.trim(), "[]");
    // Invalid ones fail.
    assert_ne!(operate(&validator, "token create --role everything --name x").0, 0);
    assert_ne!(operate(&validator, "token create").0, 0, "it has a name");
}

#[tokio::test]
async fn an_address_of_the_page_logs_in_once() {
    let (validator, address) = serving(&["--http-anonymous-read=false"]).await;
    let (code, url, said) = operate(&validator, "page --role read");
    assert_eq!(code, 0, "{said}");
    let path = url.trim_end().strip_prefix(&format!("http://{address}")).expect("an address of the page");
    assert!(path.starts_with("/login?code=") && said.contains("once"), "{url}{said}");
    let browser = Caller::at(address);
    assert_eq!(browser.get("/api/v1/status").await.status, 401);
    let looked_at = browser.send(Method::HEAD, path, Bytes::new()).await.expect(200);
    assert!(looked_at.header("set-cookie").is_none(), "a preview logs nobody in: {looked_at:?}");
    let answer = browser.get(path).await.expect(303);
    let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let logged_in = browser.clone().with("cookie", cookie.split(';').next().unwrap());
    assert_eq!(logged_in.get("/api/v1/status").await.status, 200);
    let again = browser.get(path).await.expect(403);
    assert!(again.header("set-cookie").is_none(), "a code counts once: {again:?}");
}

#[tokio::test]
async fn without_a_page_there_is_no_address() {
    let validator = TestValidator::start(&assay_integration_tests::validator::Policy::default()).await;
    let (code, out, said) = operate(&validator, "page");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(said.contains("http_listen"), "{said}");
}

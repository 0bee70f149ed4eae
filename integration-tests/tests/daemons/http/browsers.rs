//! Attempts of other sites' pages in a browser on the validator's machine.

use assay_api::{LoginCode, ProblemCode, Role, ServerStatus};
use assay_integration_tests::web::Caller;

use super::serving;

/// A page whose name its owner points at this machine (DNS rebinding) would be of the same site.
#[tokio::test]
async fn a_name_that_is_not_the_validators_is_not_served() {
    let (_validator, address) = serving(&["--http-anonymous-read=true", "--http-hosts=gpu-audit.example"]).await;
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1].evil.example:1"] {
        let answer = Caller::at(address).with("host", host).get("/api/v1/status").await;
        let code = answer.problem().code;
        assert!([ProblemCode::WrongHost, ProblemCode::Malformed].contains(&code), "{host}: {code:?}");
    }
    for host in ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:7480", "gpu-audit.example", "Gpu-Audit.Example:443"] {
        let _: ServerStatus = Caller::at(address).with("host", host).read("/api/v1/status").await;
    }
}

#[tokio::test]
async fn another_sites_page_changes_nothing_and_reads_nothing() {
    let (validator, address) = serving(&["--http-anonymous-read=true"]).await;
    let admin = Caller::of_role(&validator, address, Role::Admin).await;
    let body = serde_json::json!({ "labels": {}, "expires_s": 60 });
    let own = format!("http://{address}");
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        let problem = admin.clone().with(name, value).post("/api/v1/join-tokens", &body).await.problem();
        assert_eq!(problem.code, ProblemCode::CrossSite, "{name}: {value}");
    }
    let page = admin.clone().with("origin", &own).with("sec-fetch-site", "same-origin");
    let _ = page.post("/api/v1/join-tokens", &body).await.expect(201);
    let image = Caller::at(address).with("sec-fetch-site", "cross-site").with("sec-fetch-mode", "no-cors");
    assert_eq!(image.get("/api/v1/status").await.problem().code, ProblemCode::CrossSite);
    let preflight = admin.clone().with("origin", "https://evil.example").with("access-control-request-method", "POST");
    let answer = preflight.send(hyper::Method::OPTIONS, "/api/v1/join-tokens", hyper::body::Bytes::new()).await;
    assert!(answer.status >= 400 && answer.header("access-control-allow-origin").is_none(), "{answer:?}");
}

/// A browser adds a cookie to each request: such a request is checked more closely than one with a token.
#[tokio::test]
async fn a_login_is_for_the_page_and_ends_with_the_validator() {
    let (validator, address) = serving(&[]).await;
    let role = serde_json::json!({ "role": "operate" });
    let code: LoginCode = Caller::at_socket(&validator).post("/api/v1/login-codes", &role).await.expect(201).json();
    assert_eq!(code.url.as_deref(), Some(format!("http://{address}/login?code={}", code.code).as_str()));
    let stranger = Caller::at(address).with("cookie", &format!("assay_login={}", code.code));
    assert_eq!(stranger.get("/api/v1/status").await.problem().code, ProblemCode::Unauthorized, "a code is no login");
}

#[tokio::test]
async fn every_answer_tells_browsers_to_be_careful() {
    let (_validator, address) = serving(&[]).await;
    let nobody = Caller::at(address);
    for path in ["/healthz", "/api/v1/openapi.json", "/api/v1/status", "/no-such-path"] {
        let answer = nobody.get(path).await;
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}: {name}");
        }
        assert!(answer.header("content-security-policy").is_some_and(|policy| !policy.contains("unsafe")), "{path}");
    }
    assert_eq!(nobody.get("/api/v1/status").await.header("cache-control"), Some("no-store"));
}

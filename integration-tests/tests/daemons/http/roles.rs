//! The rights of callers.

use assay_api::{ApiToken, ListPage, ProblemCode, Role, ServerStatus};
use assay_integration_tests::web::Caller;
use assay_records::{ApiTokenRecord, OperatorAction};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;

use super::serving;

/// Every operation of the document: method, path with its variable parts filled, and role.
async fn operations(caller: &Caller) -> Vec<(Method, String, Option<Role>)> {
    let document: Value = caller.read("/api/v1/openapi.json").await;
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let filled: Vec<_> =
            path.split('/').map(|part| if part.starts_with('{') { "0123abcd" } else { part }).collect();
        for (method, operation) in item.as_object().expect("operations") {
            let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
            let role = operation["security"][0]["token"][0].as_str().map(|role| role.parse().expect("a role"));
            found.push((method, filled.join("/"), role));
        }
    }
    found
}

/// Every operation is refused without a token and with one of a lesser role, before anything else is looked at.
#[tokio::test]
async fn every_operation_takes_the_role_that_its_description_says() {
    let (validator, address) = serving(&[]).await;
    let nobody = Caller::at(address);
    let mut callers = Vec::new();
    for role in Role::ALL {
        callers.push((role, Caller::of_role(&validator, address, role).await));
    }
    let operations = operations(&nobody).await;
    assert!(operations.len() >= 40, "{operations:?}");
    for (method, path, needed) in operations {
        let body = || Bytes::from_static(b"nonsense");
        let Some(needed) = needed else {
            assert_eq!(nobody.send(method, &path, Bytes::new()).await.status, 200, "{path} is for everybody");
            continue;
        };
        let problem = nobody.send(method.clone(), &path, body()).await;
        assert_eq!(problem.header("www-authenticate"), Some("Bearer realm=\"assay\""), "{method} {path}");
        assert_eq!(problem.problem().code, ProblemCode::Unauthorized, "{method} {path}");
        for (role, caller) in callers.iter().filter(|(role, _)| *role < needed) {
            let problem = caller.send(method.clone(), &path, body()).await.problem();
            assert_eq!(problem.code, ProblemCode::Forbidden, "{method} {path} with {role}");
        }
    }
}

#[tokio::test]
async fn what_writes_files_is_for_the_control_socket_alone() {
    let (validator, address) = serving(&[]).await;
    let admin = Caller::of_role(&validator, address, Role::Admin).await;
    let file = validator.file("copy.db");
    let backup = serde_json::json!({ "file": file.display().to_string() });
    assert_eq!(admin.post("/api/v1/backup", &backup).await.problem().code, ProblemCode::LocalOnly);
    assert!(!file.exists());
    let code = serde_json::json!({ "role": "admin" });
    assert_eq!(admin.post("/api/v1/login-codes", &code).await.problem().code, ProblemCode::LocalOnly);
    let local = Caller::at_socket(&validator);
    let written: assay_api::WrittenFile = local.post("/api/v1/backup", &backup).await.expect(200).json();
    assert!(file.is_file() && written.bytes > 0);
    let relative = serde_json::json!({ "file": "copy.db" });
    assert_eq!(local.post("/api/v1/backup", &relative).await.problem().code, ProblemCode::Invalid);
}

#[tokio::test]
async fn a_token_is_good_until_it_is_revoked_and_nothing_else_is() {
    let (validator, address) = serving(&[]).await;
    let local = Caller::at_socket(&validator);
    let ApiToken { token, record } = Caller::make_token(&validator, Role::Read).await;
    let holder = Caller::at(address).with("authorization", &format!("Bearer {token}"));
    let status: ServerStatus = holder.read("/api/v1/status").await;
    assert_eq!(status.validator_key, validator.key);
    let listed: ListPage<ApiTokenRecord> = local.read("/api/v1/tokens").await;
    assert_eq!((listed.items.len(), &listed.items[0].id), (1, &record.id));
    assert!(!format!("{listed:?}").contains(&token[20..]), "a token is shown once");
    let changed = token.replacen(&token[20..21], if &token[20..21] == "A" { "B" } else { "A" }, 1);
    for wrong in [
        changed.as_str(),
        &token.replace("read", "admin"),
        &token[..token.len() - 1],
        "assay_read_",
        "",
        &"x".repeat(4000),
    ] {
        let wrong = Caller::at(address).with("authorization", &format!("Bearer {wrong}"));
        assert_eq!(wrong.get("/api/v1/status").await.problem().code, ProblemCode::Unauthorized);
    }
    let revoked = local.send(Method::DELETE, &format!("/api/v1/tokens/{}", record.id), Bytes::new()).await;
    assert_eq!((revoked.status, revoked.body.len()), (204, 0));
    assert_eq!(holder.get("/api/v1/status").await.problem().code, ProblemCode::Unauthorized, "at once");
    let again = local.send(Method::DELETE, &format!("/api/v1/tokens/{}", record.id), Bytes::new()).await;
    assert_eq!(again.problem().code, ProblemCode::NotFound);
}

/// Each change has its author in the records: the user at the socket, the token from elsewhere.
#[tokio::test]
async fn a_change_is_noted_with_who_made_it() {
    let (validator, address) = serving(&[]).await;
    let key = "ab".repeat(32);
    let admin = Caller::of_role(&validator, address, Role::Admin).await;
    let local = Caller::at_socket(&validator);
    for (caller, decision) in [(&admin, "approve"), (&local, "suspend")] {
        let path = format!("/api/v1/miners/{key}/{decision}");
        let _ = caller.send(Method::POST, &path, Bytes::new()).await.expect(200);
    }
    let miner: Value = admin.read(&format!("/api/v1/miners/{}", &key[..8])).await;
    let actions: Vec<OperatorAction> = serde_json::from_value(miner["actions"].clone()).unwrap();
    let made: Vec<_> = actions.iter().map(|action| (action.action.as_str(), action.actor.name.as_str())).collect();
    let user = String::from_utf8(std::process::Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    assert_eq!(made[0], ("suspend", user.trim()));
    assert!(made[1].0 == "approve" && made[1].1.starts_with("token test admin ("), "{made:?}");
    assert!(actions[0].actor.uid.is_some() && actions[1].actor.uid.is_none());
}

#[tokio::test]
async fn wrong_tokens_are_too_many_after_some() {
    let (_validator, address) = serving(&[]).await;
    let wrong = Caller::at(address).with("authorization", "Bearer assay_admin_nonsense");
    let mut codes = Vec::new();
    for _ in 0..200 {
        let answer = wrong.get("/api/v1/status").await;
        let problem = answer.problem();
        if problem.code == ProblemCode::TooManyRequests {
            assert!(answer.header("retry-after").is_some_and(|after| after.parse::<u64>().is_ok()));
        }
        codes.push(problem.code);
    }
    assert!(codes.contains(&ProblemCode::Unauthorized) && codes.contains(&ProblemCode::TooManyRequests), "{codes:?}");
}

#[tokio::test]
async fn anonymous_readers_only_read() {
    let (_validator, address) = serving(&["--http-anonymous-read=true"]).await;
    let nobody = Caller::at(address);
    let _: ServerStatus = nobody.read("/api/v1/status").await;
    let round = serde_json::json!({});
    assert_eq!(nobody.post("/api/v1/rounds", &round).await.problem().code, ProblemCode::Forbidden);
    assert_eq!(nobody.get("/api/v1/tokens").await.problem().code, ProblemCode::Forbidden);
}

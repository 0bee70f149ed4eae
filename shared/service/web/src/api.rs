//! The routes of the API, by subject. Each is described at its handler: the OpenAPI document is generated from there.

mod challenges;
mod fleet;
mod rounds;
mod tokens;
mod validator;
mod verdicts;
mod webhooks;

use std::sync::Arc;

use assay_api::{Gap, ListPage, LiveEvent, ProblemDetails};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Deserialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Info, License, OpenApi, Ref, ResponseBuilder, Server};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Json;
use super::problem::Result;
use super::{Web, WebState};

/// The miner in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct MinerPath {
    /// One of its keys, or the first digits of one, at least 4; to look, also its label `name`.
    #[param(min_length = 1, max_length = 128)]
    miner: String,
}

/// The challenge in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct ChallengePath {
    /// Its id, or the first digits.
    #[param(min_length = 4, max_length = 32, pattern = "^[0-9a-fA-F]{4,32}$")]
    challenge: String,
}

/// Answer of a handler.
type ApiResult<T> = Result<Json<T>>;
/// Answer of a handler of a list.
type ListResult<T> = ApiResult<ListPage<T>>;
/// Answer of a handler with a status of its own.
type StatusResult<T> = Result<(StatusCode, Json<T>)>;

pub fn routes() -> OpenApiRouter<Arc<Web>> {
    let router = OpenApiRouter::with_openapi(about())
        .routes(routes!(document))
        .merge(validator::routes())
        .merge(fleet::routes())
        .merge(verdicts::routes())
        .merge(challenges::routes())
        .merge(rounds::routes())
        .merge(tokens::routes())
        .merge(webhooks::routes());
    with_problems(router)
}

/// The document's contents beside the routes.
fn about() -> OpenApi {
    let mut info = Info::new("Assay validator", "1");
    info.description = Some(
        "Miners, verdicts, receipts and rounds of an Assay validator. Lists come in pages: `next` of one is `cursor` of \
         the following. Times are milliseconds since 1970, keys and ids lower-case hexadecimal. Where a path or a \
         parameter takes a key or an id, its first digits do, at least 4, if they are of one thing only."
            .to_owned(),
    );
    info.license = Some(License::new("MIT OR Apache-2.0"));
    let mut document = OpenApi::new(info, utoipa::openapi::Paths::new());
    document.servers = Some(vec![Server::new("/")]);
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("assay_ROLE_…").build();
    let mut components = utoipa::openapi::Components::new();
    components.add_security_scheme("token", SecurityScheme::Http(scheme));
    // Schemas used by answers without being an answer's type.
    let mut beside = vec![
        (ProblemDetails::name().into_owned(), ProblemDetails::schema()),
        (LiveEvent::name().into_owned(), LiveEvent::schema()),
        (Gap::name().into_owned(), Gap::schema()),
    ];
    ProblemDetails::schemas(&mut beside);
    LiveEvent::schemas(&mut beside);
    components.schemas.extend(beside);
    document.components = Some(components);
    document
}

/// Adds the problem answer to every operation.
fn with_problems(mut router: OpenApiRouter<Arc<Web>>) -> OpenApiRouter<Arc<Web>> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemDetails::name()))).build();
    let problem = ResponseBuilder::new()
        .description("It was not done: `code` says why.")
        .content(assay_api::PROBLEM_MEDIA_TYPE, content)
        .build();
    for item in router.get_openapi_mut().paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete, &mut item.put];
        for operation in operations.into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), problem.clone().into());
        }
    }
    router
}

/// This document
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "validator",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)), security(()))]
async fn document(State(web): WebState) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], web.document.get().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use assay_api::MAX_LABELS;
    use assay_policy::fields::{Bounds, FIELDS};

    use super::*;
    use assay_api::{parse_label, parse_name};

    /// Every operation of the document, with its method and path.
    fn operations() -> Vec<(String, utoipa::openapi::path::Operation)> {
        let document = routes().to_openapi();
        let mut found = Vec::new();
        for (path, item) in document.paths.paths {
            let methods = [
                ("GET", item.get),
                ("POST", item.post),
                ("PATCH", item.patch),
                ("DELETE", item.delete),
                ("PUT", item.put),
            ];
            for (method, operation) in methods {
                found.extend(operation.map(|operation| (format!("{method} {path}"), operation)));
            }
        }
        found
    }

    #[test]
    fn the_document_has_every_route_that_is_promised() {
        let names: Vec<_> = operations().into_iter().map(|(name, _)| name).collect();
        let api = "/api/v1";
        for promised in [
            "GET /openapi.json",
            "GET /status",
            "GET /counts",
            "GET /connected",
            "GET /policy",
            "GET /find/{prefix}",
            "GET /miners",
            "GET /miners/{miner}",
            "GET /miners/{miner}/history",
            "GET /miners/{miner}/series",
            "GET /devices",
            "GET /devices/{device}",
            "GET /verdicts",
            "GET /verdicts/{challenge}",
            "GET /verdicts/{challenge}/evidence",
            "GET /receipts",
            "GET /receipts/{receipt}",
            "GET /challenges",
            "GET /challenges/{challenge}",
            "GET /challenges/{challenge}/events",
            "GET /rounds",
            "GET /rounds/{round}",
            "GET /events",
            "GET /join-tokens",
            "GET /tokens",
            "POST /challenges",
            "POST /rounds",
            "POST /join-tokens",
            "POST /tokens",
            "POST /reload",
            "POST /login-codes",
            "POST /export",
            "POST /backup",
            "POST /miners/{miner}/approve",
            "POST /miners/{miner}/suspend",
            "POST /miners/{miner}/resume",
            "POST /miners/{miner}/revoke",
            "POST /miners/{miner}/quarantine",
            "POST /miners/{miner}/release",
            "PATCH /miners/{miner}/labels",
            "DELETE /miners/{miner}/known-devices",
            "DELETE /challenges/{challenge}",
            "DELETE /tokens/{token}",
            "GET /webhooks",
            "POST /webhooks",
            "DELETE /webhooks/{webhook}",
            "POST /webhooks/{webhook}/test",
        ] {
            let (method, path) = promised.split_once(' ').unwrap();
            assert!(names.contains(&format!("{method} {api}{path}")), "{promised} of {names:?}");
        }
    }

    /// Two types with one name would share one schema, which would be wrong for one of them.
    #[test]
    fn what_has_one_name_elsewhere_has_two_here() {
        let schemas = routes().to_openapi().components.expect("schemas").schemas;
        let of = |name: &str| serde_json::to_value(&schemas[name]).unwrap();
        assert!(of("Status")["properties"]["validator_key"].is_object(), "of a validator");
        assert!(of("MinerStatus")["enum"].is_array(), "of a miner");
    }

    /// What the schemas allowed and the API refused: another matrix size, an empty cursor, a short nonce, an address
    /// without a scheme.
    #[test]
    fn the_document_allows_no_more_than_the_api() {
        let schemas = routes().to_openapi().components.expect("schemas").schemas;
        let of = |name: &str| serde_json::to_value(&schemas[name]).unwrap();
        let challenge = of("BeginChallenge")["properties"].clone();
        let sizes = serde_json::json!([256, 512, 1024, 2048, 4096, 8192, 16384, 32768, null]);
        assert_eq!((&challenge["n"]["enum"], &challenge["eat_nonce"]["minLength"]), (&sizes, &12.into()));
        assert_eq!(of("Cursor")["minLength"], 2);
        let url = of("AddWebhook")["properties"]["url"]["pattern"].clone();
        assert!(url.as_str().is_some_and(|pattern| pattern.contains("://")), "{url}");
    }

    /// The characters of a class of a pattern, of those that ASCII has.
    fn class(text: &str) -> Vec<char> {
        let rest = text.trim_start_matches("A-Za-z0-9");
        assert_ne!(rest, text, "letters and digits come first");
        ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(rest.chars()).collect()
    }

    #[test]
    fn labels_have_the_same_bounds_in_the_document_and_the_api() {
        let schemas = routes().to_openapi().components.expect("schemas").schemas;
        let of = |name: &str| serde_json::to_value(&schemas[name]).unwrap();
        let either = of("ChangeLabels")["anyOf"].clone();
        let [set, remove] = [&either[0], &either[1]];
        assert_eq!((&set["required"][0], &set["properties"]["set"]["minProperties"]), (&"set".into(), &1.into()));
        assert_eq!(
            (&remove["required"][0], &remove["properties"]["remove"]["minItems"]),
            (&"remove".into(), &1.into())
        );
        assert!([set, remove].iter().all(|change| change["additionalProperties"] == false), "{either}");
        let labels = &of("CreateJoinToken")["properties"]["labels"];
        let name = &labels["propertyNames"]["pattern"];
        assert_eq!(
            (name, name),
            (
                &set["properties"]["set"]["propertyNames"]["pattern"],
                &remove["properties"]["remove"]["items"]["pattern"]
            )
        );
        let (first, rest) = name.as_str().and_then(|name| name.strip_prefix("^[")?.split_once("][")).unwrap();
        let (rest, length) = rest.split_once(']').unwrap();
        for c in (0..128_u8).map(char::from) {
            assert_eq!(parse_name(&c.to_string()).is_ok(), class(first).contains(&c), "{c:?} alone");
            assert_eq!(parse_name(&format!("a{c}")).is_ok(), class(rest).contains(&c), "{c:?}");
        }
        assert!(parse_name("ä").is_err() && parse_name("").is_err() && length == "{0,62}$", "{length}");
        assert!(parse_name(&"a".repeat(63)).is_ok() && parse_name(&"a".repeat(64)).is_err());
        let value = &labels["additionalProperties"];
        let is_value = |length: u64| parse_label(&format!("a={}", "ä".repeat(length as usize))).is_ok();
        let most = value["maxLength"].as_u64().unwrap();
        assert!(value["minLength"] == 1 && !is_value(0) && is_value(1) && is_value(most) && !is_value(most + 1));
        assert_eq!(labels["maxProperties"], MAX_LABELS);
    }

    #[test]
    fn what_a_challenge_may_ask_has_the_bounds_of_the_policy() {
        let schemas = routes().to_openapi().components.expect("schemas").schemas;
        let asked = serde_json::to_value(&schemas["BeginChallenge"]).unwrap()["properties"].clone();
        let mut numbers = 0;
        for field in FIELDS.iter().filter(|field| asked[field.name].is_object()) {
            let schema = &asked[field.name];
            let found = match field.bounds {
                Bounds::Whole(..) => (schema["minimum"].as_u64(), schema["maximum"].as_u64()),
                Bounds::Power(..) => (schema["enum"][0].as_u64(), schema["enum"][7].as_u64()),
                _ => continue,
            };
            let (Bounds::Whole(least, most) | Bounds::Power(least, most)) = field.bounds else { continue };
            assert_eq!(found, (Some(least.into()), Some(most.into())), "{}", field.name);
            numbers += 1;
        }
        assert_eq!(numbers, 4, "n, iterations, samples, fill_percent");
    }

    #[test]
    fn every_operation_says_what_it_does_which_role_it_takes_and_how_it_fails() {
        for (name, operation) in operations() {
            assert!(operation.summary.is_some_and(|summary| !summary.is_empty()), "{name} has no summary");
            assert!(operation.security.is_some(), "{name} does not say which role it takes");
            assert!(operation.responses.responses.contains_key("default"), "{name} does not say how it fails");
        }
    }

    /// All routes are made by the macro that documents them, as this test proves: no route is undocumented.
    #[test]
    fn no_route_is_made_beside_the_document() {
        for source in [
            include_str!("api/challenges.rs"),
            include_str!("api/fleet.rs"),
            include_str!("api/rounds.rs"),
            include_str!("api/tokens.rs"),
            include_str!("api/validator.rs"),
            include_str!("api/verdicts.rs"),
            include_str!("api/webhooks.rs"),
        ] {
            assert!(!source.contains(".route(") && source.contains(".routes(routes!("));
        }
    }
}

//! The routes of the API, by what they are about. Each is described where it is written: the OpenAPI document is made
//! of that.

mod challenges;
mod fleet;
mod rounds;
mod tokens;
mod validator;
mod verdicts;
mod webhooks;

use std::sync::Arc;

use assay_api::{Gap, LiveEvent, Problem};
use axum::extract::State;
use serde::Deserialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Info, License, OpenApi, Ref, ResponseBuilder, Server};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Web;
use super::extract::Json;

/// The miner in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct MinerPath {
    /// One of its keys, or the first digits of one.
    #[param(min_length = 4, max_length = 64, pattern = "^[0-9a-fA-F]{4,64}$")]
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

/// What handlers answer with.
type Answer<T> = Result<Json<T>, super::problem::Refused>;

/// The routes, and their description.
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

/// What the document says beside the routes.
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
    // What answers have in them without being one.
    let mut beside = vec![
        (Problem::name().into_owned(), Problem::schema()),
        (LiveEvent::name().into_owned(), LiveEvent::schema()),
        (Gap::name().into_owned(), Gap::schema()),
    ];
    Problem::schemas(&mut beside);
    LiveEvent::schemas(&mut beside);
    components.schemas.extend(beside);
    document.components = Some(components);
    document
}

/// Every request can be answered with a problem.
fn with_problems(mut router: OpenApiRouter<Arc<Web>>) -> OpenApiRouter<Arc<Web>> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
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
async fn document(State(web): State<Arc<Web>>) -> Json<Option<OpenApi>> {
    Json(web.document.get().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation of the document, as method and path.
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

    /// Two types of one name would be one schema, and the answers of either wrong by it.
    #[test]
    fn what_has_one_name_elsewhere_has_two_here() {
        let schemas = routes().to_openapi().components.expect("schemas").schemas;
        let of = |name: &str| serde_json::to_value(&schemas[name]).unwrap();
        assert!(of("Status")["properties"]["validator_key"].is_object(), "of a validator");
        assert!(of("MinerStatus")["enum"].is_array(), "of a miner");
    }

    #[test]
    fn every_operation_says_what_it_does_which_role_it_takes_and_how_it_fails() {
        for (name, operation) in operations() {
            assert!(operation.summary.is_some_and(|summary| !summary.is_empty()), "{name} has no summary");
            assert!(operation.security.is_some(), "{name} does not say which role it takes");
            assert!(operation.responses.responses.contains_key("default"), "{name} does not say how it fails");
        }
    }

    /// The router has no route beside those of the document: all are made by the same macro, of which this is the proof.
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

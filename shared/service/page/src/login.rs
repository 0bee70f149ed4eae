//! Signing in, and refused requests.

use assay_api::ProblemDetails;
use maud::{Markup, html};

use crate::address;
use crate::frame::{Frame, LiveFilter, NavSection, page};
use crate::text::detail;

#[derive(Debug, Clone, Copy)]
pub struct LoginView<'a> {
    pub frame: Frame<'a>,
    /// The page to go on to.
    pub then: &'a str,
    /// Why the last try did not succeed.
    pub refused: Option<&'a str>,
}

/// The address of the page to sign in on, that goes on to another one.
pub fn login_address(then: &str) -> String {
    address::with("/login", &[("then", if then == "/" { "" } else { then })])
}

/// The page to sign in on.
pub fn login(view: &LoginView<'_>) -> String {
    let body = html! {
        div.login {
            h1 { "Sign in" }
            @if let Some(why) = view.refused { div.callout.bad role="alert" id="refused" { p { (detail(why)) } } }
            form method="post" action="/login" {
                input type="hidden" name="then" value=(view.then);
                div.field {
                    label for="token" { "Token" }
                    input id="token" name="token" type="password" required autocomplete="current-password"
                        spellcheck="false"
                        aria-describedby="about" autofocus aria-invalid=[view.refused.map(|_| "true")];
                }
                button.primary type="submit" { "Sign in" }
            }
            div id="about" {
                p.muted {
                    "The validator's operator makes a token, for whoever only reads or for whoever operates too:"
                }
            }
            pre tabindex="0" { code data-copy="the command" { "assay-validator token create --role read --name NAME" } }
            p.muted { "On the validator's own machine, this prints a link that signs a browser in, once:" }
            pre tabindex="0" { code data-copy="the command" { "assay-validator page" } }
        }
    };
    page(&view.frame, NavSection::Elsewhere, LiveFilter::Not, "Sign in", &body)
}

/// Something that was not done.
#[derive(Debug, Clone, Copy)]
pub struct ProblemView<'a> {
    pub frame: Frame<'a>,
    /// The reason for the refusal.
    pub problem: &'a ProblemDetails,
    pub remedy: &'a str,
}

/// The page that says so.
pub fn problem(view: &ProblemView<'_>) -> String {
    let ProblemView { frame, problem, remedy } = view;
    let body: Markup = html! {
        div.title { h1 { (problem.title) } }
        div.callout.warn {
            @if !problem.detail.is_empty() && problem.detail != problem.title { p { (detail(&problem.detail)) } }
            @if let Some(seconds) = problem.retry_after_s { p { "It may be tried again in " (seconds) " s." } }
            @if !remedy.is_empty() { p.remedy { (remedy) } }
            p.muted { "Status " (problem.status) ", " code { (problem.code.name()) } "." }
        }
        p { a.button href="/" { "To the fleet" } }
    };
    page(frame, NavSection::Elsewhere, LiveFilter::Not, &problem.title, &body)
}

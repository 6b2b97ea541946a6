//! Page that the browser shows at the end of a sign-in.
//!
//! A page is self-contained: it loads and runs nothing. No cache stores it, because its address contains a code.

use hyper::{
    Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use nexus_http::response::{ResponseBody, with_body};

/// Page that shows the outcome in the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BrowserPage {
    /// The person is signed in.
    SignedIn,
    /// The person or the issuer declined. Contains the code and message of the issuer.
    Declined(String),
    /// The code arrived, but could not be exchanged. Contains the reason.
    Failed(String),
    /// The redirect has another state, or none.
    WrongState,
    /// An earlier request already brought the answer.
    AlreadyAnswered,
    /// The redirect contains neither a code nor an error.
    Incomplete,
    /// The `Host` of the request is not this server.
    WrongHost,
    /// The method of the request is not supported.
    WrongMethod,
    /// Nothing exists at this path.
    NotFound,
}

/// Forbids the page to load, run, frame or submit anything.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl BrowserPage {
    fn status(&self) -> StatusCode {
        match self {
            Self::SignedIn | Self::Declined(_) => StatusCode::OK,
            Self::Failed(_) => StatusCode::BAD_GATEWAY,
            Self::WrongState | Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::AlreadyAnswered => StatusCode::CONFLICT,
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotFound => StatusCode::NOT_FOUND,
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Self::SignedIn => "You are signed in",
            Self::Declined(_) => "The sign-in was declined",
            Self::Failed(_) => "The sign-in did not succeed",
            Self::WrongState => "This page belongs to another sign-in",
            Self::AlreadyAnswered => "This sign-in was answered already",
            Self::Incomplete => "The answer is incomplete",
            Self::WrongHost => "This address is not served here",
            Self::WrongMethod => "This request method is not supported here",
            Self::NotFound => "There is no such page",
        }
    }

    fn text(&self) -> &'static str {
        match self {
            Self::SignedIn => {
                "Nexus has received the answer. You can close this page and return to the program that \
                started the sign-in."
            }
            Self::Declined(_) => "Nexus was not given access. You can close this page; nothing was changed.",
            Self::Failed(_) => {
                "The answer arrived, but Nexus could not finish the sign-in. You can close this page; the \
                 program that started the sign-in shows the next step."
            }
            Self::WrongState => {
                "Nexus did not request this answer, and has not used it. If you have just signed in, return \
                 to the program that started it and open its newest link. You can close this page."
            }
            Self::AlreadyAnswered => {
                "Only the first answer counts, so this one was not used. You can close this page."
            }
            Self::Incomplete => {
                "The answer neither grants nor declines access, and was not used. You can \
                close this page."
            }
            Self::WrongHost | Self::WrongMethod | Self::NotFound => {
                "Nothing was done. You can close this page."
            }
        }
    }

    /// Returns the issuer's message or the reason of the failure.
    fn details(&self) -> Option<&str> {
        match self {
            Self::Declined(details) | Self::Failed(details) => Some(details),
            _ => None,
        }
    }

    /// Returns the page as HTML.
    fn html(&self) -> String {
        let details = self.details().map(|details| format!("<p><code>{}</code></p>\n", escaped(details)));
        let (title, text, details) =
            (escaped(self.title()), escaped(self.text()), details.unwrap_or_default());
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} - Nexus</title>\n</head>\n\
             <body>\n<h1>{title}</h1>\n<p>{text}</p>\n{details}</body>\n</html>\n"
        )
    }

    /// Returns the response to the browser.
    pub(super) fn response(&self) -> Response<ResponseBody> {
        let mut response = with_body(self.status(), "text/html; charset=utf-8", self.html());
        // The page repeats words of the issuer, and its address contains the code, which must not reach other sites.
        let headers: [(HeaderName, &'static str); 4] = [
            (CONTENT_SECURITY_POLICY, POLICY),
            (CACHE_CONTROL, "no-store"),
            (REFERRER_POLICY, "no-referrer"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        response.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
        if *self == Self::WrongMethod {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}

/// Escapes text for HTML, within an element or an attribute.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            _ => html.push(character),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [fn(String) -> BrowserPage; 9] = [
        |_| BrowserPage::SignedIn,
        BrowserPage::Declined,
        BrowserPage::Failed,
        |_| BrowserPage::WrongState,
        |_| BrowserPage::AlreadyAnswered,
        |_| BrowserPage::Incomplete,
        |_| BrowserPage::WrongHost,
        |_| BrowserPage::WrongMethod,
        |_| BrowserPage::NotFound,
    ];

    #[test]
    fn words_of_a_stranger_stay_words() {
        let attack = "</code><script src=//evil.test>alert('x')</script>\"&amp;";
        let html = BrowserPage::Declined(attack.into()).html();
        assert!(html.contains("&lt;/code&gt;&lt;script src=//evil.test&gt;"), "{html}");
        assert!(html.contains("&#39;x&#39;") && html.contains("&quot;&amp;amp;"), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }

    #[test]
    fn every_page_says_that_it_can_be_closed_and_loads_nothing() {
        for page in PAGES.map(|page| page("reason".into())) {
            let html = page.html();
            assert!(html.contains("close this page"), "{html}");
            for reference in ["src=", "href=", "url(", "<script", "<style", "<form", "http"] {
                assert!(!html.contains(reference), "{reference} in {html}");
            }
            let response = page.response();
            let header = |name: HeaderName| response.headers()[name].to_str().unwrap().to_owned();
            assert!(header(CONTENT_SECURITY_POLICY).starts_with("default-src 'none'"));
            assert_eq!(
                (header(CACHE_CONTROL), header(REFERRER_POLICY)),
                ("no-store".into(), "no-referrer".into())
            );
            assert_eq!(
                page == BrowserPage::SignedIn || matches!(page, BrowserPage::Declined(_)),
                response.status().is_success()
            );
        }
    }
}

//! The pages that a person sees.

use super::fields::Fields;

/// Page that asks the person to let `client` sign in. Its form posts all parameters of the request to the same path.
pub(super) fn agree(path: &str, asked: &Fields) -> String {
    let hidden: String = asked
        .iter()
        .map(|(name, value)| {
            format!("<input type=\"hidden\" name=\"{}\" value=\"{}\">\n", escape(name), escape(value))
        })
        .collect();
    let client = escape(asked.value("client_id").unwrap_or_default());
    page(&format!(
        "<p><b>{client}</b> wants to sign in.</p>\n<form method=\"post\" action=\"{}\">\n{hidden}{BUTTONS}</form>",
        escape(path)
    ))
}

/// Asks for a device's code.
pub(super) fn device(path: &str, user_code: &str) -> String {
    page(&format!(
        "<form method=\"post\" action=\"{}\">\n<p>Code of the device: \
         <input name=\"user_code\" value=\"{}\"></p>\n{BUTTONS}</form>",
        escape(path),
        escape(user_code)
    ))
}

/// Says something.
pub(super) fn say(text: &str) -> String {
    page(&format!("<p>{}</p>", escape(text)))
}

const BUTTONS: &str = "<button name=\"decision\" value=\"approve\">Approve</button>\n\
                       <button name=\"decision\" value=\"decline\">Decline</button>\n";

fn page(inside: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Simulated issuer</title></head>\n\
         <body><h1>Simulated issuer</h1>\n{inside}\n</body></html>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! The address of an issuer, as it may stand on a command line.

use url::{Host, Url};

/// Takes an address that a login may be sent to: by `https`, or by `http` to this very machine.
pub(super) fn issuer_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("no URL: {error}"))?;
    // A password on the command line ends up in the list of processes and in the history of the shell.
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a name or a password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it must end with its path, because the endpoints are appended to it".to_owned());
    }
    match url.scheme() {
        "https" => Ok(text.to_owned()),
        "http" if is_this_machine(&url) => Ok(text.to_owned()),
        "http" => Err("others can read http traffic: use https, or a loopback address".to_owned()),
        _ => Err("it must begin with https://".to_owned()),
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // Source: RFC 6761 section 6.3, which keeps this name to the machine itself.
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_reached_by_https_or_is_this_machine() {
        for good in [
            "https://issuer.test",
            "https://issuer.test/realm/",
            "http://127.0.0.1:8080",
            "http://[::1]:8080/realm",
            "http://localhost:8080",
        ] {
            assert_eq!(issuer_url(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "notaurl",
            "issuer.test",
            "http://issuer.test",
            "http://localhost.issuer.test",
            "http://10.0.0.1",
            "ftp://127.0.0.1",
            "file:///issuer",
            "https://me:secret@issuer.test",
            "https://issuer.test/?realm=1",
            "https://issuer.test/#realm",
        ] {
            assert!(issuer_url(bad).is_err(), "{bad}");
        }
    }
}

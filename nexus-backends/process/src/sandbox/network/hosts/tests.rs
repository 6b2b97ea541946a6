use super::*;

fn hosts(entries: &[&str]) -> AllowedHosts {
    AllowedHosts::parse(entries.iter().copied()).unwrap()
}

fn allows(hosts: &AllowedHosts, authority: &str) -> bool {
    hosts.allows(&RelayTarget::of_authority(authority, None).unwrap())
}

#[test]
fn an_entry_allows_what_it_names_and_nothing_else() {
    let hosts = hosts(&[
        "PyPI.org.",
        "*.crates.io",
        "git.example.com:22",
        "localhost:8080",
        "10.0.0.5",
        "[2001:db8::1]:8443",
        "::ffff:10.0.0.6",
    ]);
    for allowed in [
        "pypi.org:443",
        "PYPI.ORG.:80",
        "static.crates.io:443",
        "a.b.crates.io:80",
        "git.example.com:22",
        "localhost:8080",
        "10.0.0.5:80",
        "[::ffff:10.0.0.5]:443",
        "[2001:db8::1]:8443",
        "10.0.0.6:443",
    ] {
        assert!(allows(&hosts, allowed), "{allowed}");
    }
    for refused in [
        "pypi.org:8443",
        "files.pypi.org:443",
        "evilpypi.org:443",
        "pypi.org.evil.test:443",
        "crates.io:443",
        "evilcrates.io:443",
        "git.example.com:443",
        "localhost:80",
        "127.0.0.1:8080",
        "10.0.0.7:80",
        "[2001:db8::1]:443",
    ] {
        assert!(!allows(&hosts, refused), "{refused}");
    }
    let text =
        "pypi.org, *.crates.io, git.example.com:22, localhost:8080, 10.0.0.5, [2001:db8::1]:8443, 10.0.0.6";
    assert_eq!(hosts.to_string(), text);
    assert_eq!(AllowedHosts::parse(text.split(", ")).unwrap(), hosts);
}

#[test]
fn a_wrong_entry_is_named_with_its_fault() {
    for (entry, fault) in [
        ("*", "has a wildcard that is not supported"),
        ("*.com", "would allow a whole top-level domain"),
        ("a.*.com", "has a wildcard that is not supported"),
        ("*.", "has no valid name after"),
        ("https://pypi.org", "is not a host"),
        ("me@pypi.org", "is not a host"),
        ("pypi.org:0", "has no valid port"),
        ("pypi.org:http", "has no valid port"),
        ("pypi.org:99999", "has no valid port"),
        ("", "is neither a host name nor an address"),
        ("a b", "is neither a host name nor an address"),
        ("1.2.3", "is neither a host name nor an address"),
        ("0x7f000001", "is neither a host name nor an address"),
        ("[::1", "has no valid port"),
        ("[pypi.org]", "has no valid IPv6 address"),
        ("bücher.example", "is not ASCII"),
        ("0.0.0.0", "is not the address of one host"),
        ("127.0.8.9:80", "is an address that sandboxes use"),
        ("fe80::1", "is a link-local IPv6 address"),
        ("me.localhost", "is a name of this machine"),
    ] {
        let error = entry.parse::<AllowedHost>().unwrap_err();
        assert!(error.to_string().contains(fault), "{entry}: {error}");
        assert_eq!(error.entry, if entry == "me@pypi.org" { "…@pypi.org" } else { entry });
    }
    let many: Vec<String> = (0..33).map(|number| format!("host-{number}.test")).collect();
    assert!(AllowedHosts::parse(many.iter().map(String::as_str)).is_err());
}

#[test]
fn a_name_leads_to_public_and_named_addresses_alone() {
    let hosts = hosts(&["registry.corp", "10.0.0.5", "93.184.216.40"]);
    let own = OwnNetworks::from([("93.184.216.34", 24)]);
    for (address, expected) in [
        ("1.1.1.1", true),
        ("10.0.0.5", true),
        ("::ffff:10.0.0.5", true),
        ("10.0.0.6", false),
        ("127.0.0.1", false),
        ("93.184.216.34", false),
        ("93.184.216.40", true),
    ] {
        assert_eq!(hosts.allows_resolved(address.parse().unwrap(), 443, &own), expected, "{address}");
    }
    assert!(!hosts.allows_resolved("10.0.0.5".parse().unwrap(), 22, &own));
}

#[test]
fn an_error_has_no_secret_of_the_entry() {
    for (entry, expected) in [
        ("https://user:canary@pypi.org", "…@pypi.org"),
        ("https://user:can/canary@pypi.org/simple/canary", "…@pypi.org/…"),
        ("canary@pypi.org:443", "…@pypi.org:443"),
        ("https://pypi.org/?token=canary#canary", "https://pypi.org/…"),
        ("pypi.org/?mail=me@a.test&token=canary", "…@…"),
        ("me@a://canary!/", "a://…@…"),
    ] {
        let error = entry.parse::<AllowedHost>().unwrap_err();
        assert!(!error.to_string().contains("canary"), "{error}");
        assert!(error.entry.starts_with(expected) || error.entry.ends_with(expected), "{error}");
    }
}

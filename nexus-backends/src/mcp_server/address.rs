//! The address of a server, and what a request may call it.

/// Where everything is served.
const PATH: &str = "/mcp";

/// Address of a server: a port of 127.0.0.1.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopbackAddress {
    port: u16,
}

impl LoopbackAddress {
    pub(super) fn new(port: u16) -> Self {
        Self { port }
    }

    /// The URL that a client is given.
    pub(super) fn url(self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Whether a path is the one that is served. There are no parameters.
    pub(super) fn serves(self, path_and_query: &str) -> bool {
        path_and_query == PATH
    }

    /// Whether this host and port are the server's own. Any other name that leads here was made to do so.
    pub(super) fn is_host(self, host: &str) -> bool {
        host.rsplit_once(':').is_some_and(|(name, port)| {
            matches!(name, "127.0.0.1" | "localhost") && port == self.port.to_string()
        })
    }

    /// Whether a page of this origin would be the server's own. It has none, but some clients name their server.
    pub(super) fn is_origin(self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_host(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_names_and_the_own_port_are_the_server() {
        let address = LoopbackAddress::new(4000);
        assert!(address.is_host("127.0.0.1:4000") && address.is_host("localhost:4000"));
        for host in [
            "",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:4001",
            "127.0.0.1:04000",
            "127.0.0.1:+4000",
            "127.0.0.1.example:4000",
            "[::1]:4000",
            "LOCALHOST:4000",
            "user@localhost:4000",
            "localhost:4000 ",
        ] {
            assert!(!address.is_host(host), "{host:?}");
            assert!(!address.is_origin(&format!("http://{host}")), "{host:?}");
        }
        assert!(address.is_origin("http://127.0.0.1:4000"));
        assert!(!address.is_origin("https://127.0.0.1:4000") && !address.is_origin("null"));
    }

    #[test]
    fn one_path_is_served() {
        let address = LoopbackAddress::new(1);
        assert!(address.serves("/mcp"));
        for path in ["/", "/mcp/", "//mcp", "/mcp?x=1", "/MCP", "*", "/mcp/../mcp", "/%6dcp"] {
            assert!(!address.serves(path), "{path}");
        }
    }
}

//! Access control: admits requests to an address of this host from the server's own page.

use std::net::{IpAddr, SocketAddr};

use super::http::Head;

/// The names of this host that requests may contain.
pub(super) struct Guard {
    /// Whether it is bound to an address that others reach.
    open: bool,
    names: Vec<String>,
}

impl Guard {
    pub(super) fn new(bound: SocketAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Guard { open: !bound.ip().to_canonical().is_loopback(), names }
    }

    /// Refuses requests that another site may have sent, and names that another site's owner may have directed here
    /// (DNS rebinding). An address instead of a name cannot be redirected.
    pub(super) fn check(&self, head: &Head) -> Result<(), &'static str> {
        let host = head.one("host").ok_or("a request has one Host")?;
        if !self.is_ours(host_name(host)) {
            return Err(
                "Host is no address of this server; open the address that pktgen serve printed (--name NAME admits a name)",
            );
        }
        if head.has("origin") && head.one("origin").and_then(|origin| origin.strip_prefix("http://")) != Some(host) {
            return Err("Origin is another site");
        }
        let own_site = head.one("sec-fetch-site").is_some_and(|site| ["same-origin", "none"].contains(&site));
        let from_elsewhere = head.has("sec-fetch-site") && !own_site;
        // A link on another page may lead only to the front page.
        let link = head.path == "/" && head.one("sec-fetch-mode") == Some("navigate");
        if from_elsewhere && !link {
            return Err("the request comes from another site");
        }
        Ok(())
    }

    fn is_ours(&self, name: &str) -> bool {
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) => self.open || address.to_canonical().is_loopback(),
            Err(_) => {
                let name = name.to_ascii_lowercase();
                name == "localhost" || self.names.contains(&name)
            }
        }
    }
}

/// Returns the name without the port, which a tunnel may change.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bound: &str, names: &[&str], request: &str) -> bool {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let head = Head::parse(format!("GET / HTTP/1.1\r\n{request}\r\n\r\n").as_bytes()).expect("a request");
        Guard::new(bound.parse().expect("an address"), &names).check(&head).is_ok()
    }

    #[test]
    fn only_addresses_of_this_host_and_names_that_were_given_are_let_in() {
        let loopback = "127.0.0.1:80";
        for (bound, names, request, admitted) in [
            (loopback, &[][..], "Host: 127.0.0.1:80", true),
            (loopback, &[], "Host: 127.0.0.1", true),
            (loopback, &[], "host: LocalHost:8080", true),
            (loopback, &[], "Host: [::1]:80", true),
            (loopback, &[], "Host: ::1", true),
            (loopback, &[], "Host: 192.0.2.1:80", false),
            (loopback, &[], "Host: evil.example:80", false),
            (loopback, &[], "Host: 127.0.0.1.evil.example", false),
            (loopback, &[], "Host: localhost.evil.example", false),
            (loopback, &[], "Host: ", false),
            (loopback, &[], "X: y", false),
            (loopback, &[], "Host: localhost\r\nHost: evil.example", false),
            (loopback, &[], "Host: localhost:80\r\nOrigin: http://localhost:80", true),
            (loopback, &[], "Host: localhost:80\r\nOrigin: http://localhost:81", false),
            (loopback, &[], "Host: localhost:80\r\nOrigin: null", false),
            (loopback, &[], "Host: localhost:80\r\nOrigin: https://localhost:80", false),
            (loopback, &[], "Host: localhost\r\nSec-Fetch-Site: same-origin", true),
            (loopback, &[], "Host: localhost\r\nSec-Fetch-Site: cross-site", false),
            (loopback, &[], "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate", true),
            ("0.0.0.0:80", &[], "Host: 192.0.2.1:80", true),
            ("0.0.0.0:80", &[], "Host: evil.example", false),
            ("0.0.0.0:80", &["Testbed"], "Host: testbed:80", true),
        ] {
            assert_eq!(check(bound, names, request), admitted, "{bound} {request}");
        }
        let head = Head::parse(
            b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\r\n",
        );
        assert!(Guard::new(loopback.parse().expect("an address"), &[]).check(&head.expect("a request")).is_err());
    }
}

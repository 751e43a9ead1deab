//! Which names the server answers to, and which web pages may use it.
//!
//! A browser sends requests to any address for any page. A page of another site cannot read the
//! answers, but it need not in order to change something; and a page whose own name is made to
//! lead to this server can read them, too. So a server that asks for no token looks at the name it
//! is called by, and every server looks at where a change comes from. Programs that are no
//! browsers send neither `Origin` nor `Sec-Fetch-Site`, and notice nothing.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use axum::http::{Method, Version};
use ff_api::problem::{HttpCode, Problem};

use crate::config::{Authority, HostName, ServerConfig};
use crate::extract::shorten;
use crate::refusal::Refusal;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a server is known by.
pub(crate) struct OriginRules {
    listen: IpAddr,
    allowed: Vec<Authority>,
    tls: bool,
}

/// A page's origin, with its port said.
struct Origin {
    authority: Authority,
    default_port: u16,
}

impl OriginRules {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self {
            listen: config.listen.ip().to_canonical(),
            allowed: allowed(config),
            tls: config.tls.is_some(),
        }
    }

    /// Refuses what was meant for another server or comes from another site's page. `guarded`
    /// servers have tokens, which no such page knows.
    pub(crate) fn check(&self, request: &Request, guarded: bool) -> Result<(), Refusal> {
        let called = called(request)?;
        if let Some(stranger) = called.iter().find(|name| !guarded && !self.is_own(name)) {
            return Err(wrong_host(stranger));
        }
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let origins = request.headers().get_all(ORIGIN);
        if changes || !guarded {
            let foreign = |value: &&HeaderValue| !self.is_own_page(value, &called);
            origins.iter().find(foreign).map_or(Ok(()), |value| Err(wrong_origin(value)))?;
        }
        let sites = request.headers().get_all(SEC_FETCH_SITE);
        let allowed = origins.iter().any(|value| self.is_allowed_page(value));
        match sites.iter().find(|value| changes && !allowed && is_elsewhere(value)) {
            Some(_) => Err(Problem::new(HttpCode::ForbiddenOrigin, ELSEWHERE).into()),
            None => Ok(()),
        }
    }

    /// A name that leads here whatever a name server says, or one of the settings. An address
    /// cannot be made to lead elsewhere, so any will do where any is listened on.
    fn is_own(&self, called: &Authority) -> bool {
        let by_itself = match &called.host {
            HostName::Name(name) => name == "localhost",
            HostName::Address(address) => {
                address.is_loopback() || self.listen.is_unspecified() || *address == self.listen
            }
        };
        by_itself || self.allows(called)
    }

    fn allows(&self, called: &Authority) -> bool {
        self.allowed.iter().any(|allowed| allowed.covers(called))
    }

    /// A page that came from the name and port that the request calls, or from an allowed one.
    fn is_own_page(&self, value: &HeaderValue, called: &[Authority]) -> bool {
        let Some(origin) = origin(value) else { return false };
        let unsaid = if self.tls { TLS_PORT } else { origin.default_port };
        let same = |called: &Authority| {
            let port = Some(called.port.unwrap_or(unsaid));
            origin.authority == Authority { host: called.host.clone(), port }
        };
        called.iter().any(same) || self.allows(&origin.authority)
    }

    fn is_allowed_page(&self, value: &HeaderValue) -> bool {
        origin(value).is_some_and(|origin| self.allows(&origin.authority))
    }
}

/// The hosts of the settings: further ones, and the one in links.
fn allowed(config: &ServerConfig) -> Vec<Authority> {
    let public = config.public_url.as_ref().map(|url| url.authority.clone());
    config.allowed_hosts.iter().cloned().chain(public).collect()
}

/// The port of an `https` address that names none.
const TLS_PORT: u16 = 443;

/// The names that a request calls the server by: the one in its target, if any, and its `Host`,
/// which only HTTP/1.0 may leave out.
fn called(request: &Request) -> Result<Vec<Authority>, Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(malformed("the request has more than one Host"));
    }
    if host.is_none() && request.version() > Version::HTTP_10 {
        return Err(malformed("the request has no Host"));
    }
    let host = host.map(|value| std::str::from_utf8(value.as_bytes()).unwrap_or_default());
    let target = request.uri().authority().map(|authority| authority.as_str());
    let read = |text: &str| text.parse().map_err(|_| malformed("the Host is not one"));
    target.into_iter().chain(host).map(read).collect()
}

fn origin(value: &HeaderValue) -> Option<Origin> {
    let (scheme, rest) = value.to_str().ok()?.split_once("://")?;
    let default_port = match scheme {
        "http" => 80,
        "https" => TLS_PORT,
        _ => return None,
    };
    let mut authority: Authority = rest.parse().ok()?;
    authority.port.get_or_insert(default_port);
    Some(Origin { authority, default_port })
}

/// What is not from this origin itself or from the person at the browser is from elsewhere.
fn is_elsewhere(site: &HeaderValue) -> bool {
    !matches!(site.as_bytes(), b"same-origin" | b"none")
}

const ELSEWHERE: &str = "the browser says that a page of another origin sent this \
    (Sec-Fetch-Site); name that page's host in allowed_hosts if it may";

fn wrong_host(called: &Authority) -> Refusal {
    let name = match &called.host {
        HostName::Name(name) => shorten(name.clone()),
        HostName::Address(address) => address.to_string(),
    };
    let advice = "call it localhost, give it tokens, or name the host in allowed_hosts";
    Problem::new(HttpCode::ForbiddenHost, format!("{name} is not one of them; {advice}")).into()
}

fn wrong_origin(value: &HeaderValue) -> Refusal {
    let origin = shorten(String::from_utf8_lossy(value.as_bytes()).into_owned());
    let advice = "name its host in allowed_hosts if it may";
    Problem::new(HttpCode::ForbiddenOrigin, format!("{origin} is another site; {advice}")).into()
}

fn malformed(detail: &str) -> Refusal {
    Problem::new(HttpCode::MalformedRequest, detail).about("Host").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::response::IntoResponse;

    fn rules(listen: &str, allowed: &[&str]) -> OriginRules {
        let allowed = allowed.iter().map(|text| text.parse().expect("a host"));
        OriginRules {
            listen: listen.parse().expect("an address"),
            allowed: allowed.collect(),
            tls: false,
        }
    }

    /// A request in one line: method, target and headers, separated by bars.
    fn request(line: &str) -> Request {
        let mut parts = line.split(" | ");
        let (method, target) = parts.next().and_then(|head| head.split_once(' ')).expect("a head");
        let mut request = Request::builder().method(method).uri(target);
        for header in parts {
            let (name, value) = header.split_once(": ").expect("a header");
            request = request.header(name, value);
        }
        request.body(Body::empty()).expect("a request")
    }

    fn status(rules: &OriginRules, guarded: bool, line: &str) -> u16 {
        let checked = rules.check(&request(line), guarded);
        checked.map_or_else(|refusal| refusal.into_response().status().as_u16(), |()| 200)
    }

    #[track_caller]
    fn table(rules: &OriginRules, guarded: bool, rows: &[(u16, &str)]) {
        for (wanted, line) in rows {
            assert_eq!(status(rules, guarded, line), *wanted, "{line}");
        }
    }

    #[test]
    fn a_server_without_tokens_answers_to_its_own_names_only() {
        table(
            &rules("127.0.0.1", &["flow.example.com", "proxy:8080"]),
            false,
            &[
                (200, "GET / | host: localhost"),
                (200, "GET / | host: LOCALHOST:7480"),
                (200, "GET / | host: localhost.:7480"),
                (200, "GET / | host: 127.0.0.1:7480"),
                (200, "GET / | host: 127.9.9.9"),
                (200, "GET / | host: [::1]:7480"),
                (200, "GET / | host: [::ffff:127.0.0.1]"),
                (200, "GET / | host: flow.example.com"),
                (200, "POST / | host: Flow.Example.Com.:443"),
                (200, "GET / | host: proxy:8080"),
                (403, "GET / | host: proxy:80"),
                (403, "GET / | host: evil.example"),
                (403, "POST / | host: evil.example:7480"),
                (403, "OPTIONS / | host: evil.example"),
                (403, "GET / | host: localhost.evil.example"),
                (403, "GET / | host: a.localhost"),
                (403, "GET / | host: a.flow.example.com"),
                (403, "GET / | host: 127.0.0.1.evil.example"),
                (403, "GET / | host: 0.0.0.0:7480"),
                (403, "GET / | host: 192.168.1.7:7480"),
                (403, "GET / | host: [2001:db8::1]:7480"),
                (403, "GET / | host: 127.1"),
                (403, "GET / | host: 2130706433"),
                (400, "GET / | host: "),
                (400, "GET / | host: user@localhost"),
                (400, "GET / | host: localhost/"),
                (400, "GET / | host: localhost, evil.example"),
                (400, "GET / | host: [::1"),
            ],
        );
    }

    #[test]
    fn the_target_and_the_host_must_both_be_right() {
        table(
            &rules("127.0.0.1", &[]),
            false,
            &[
                (200, "GET http://localhost:7480/v1/workers | host: localhost:7480"),
                (200, "GET http://127.0.0.1/ | host: localhost"),
                (403, "GET http://evil.example/ | host: localhost"),
                (403, "GET http://localhost/ | host: evil.example"),
                (400, "GET http://localhost@evil.example/ | host: localhost"),
            ],
        );
    }

    #[test]
    fn there_is_one_host_and_only_old_clients_may_leave_it_out() {
        for guarded in [false, true] {
            table(
                &rules("127.0.0.1", &[]),
                guarded,
                &[
                    (400, "GET /"),
                    (400, "GET / | host: localhost | host: localhost"),
                    (400, "GET / | host: localhost | host: evil.example"),
                ],
            );
            let mut old = request("GET /");
            *old.version_mut() = Version::HTTP_10;
            assert!(rules("127.0.0.1", &[]).check(&old, guarded).is_ok());
        }
    }

    #[test]
    fn beyond_loopback_the_bound_address_is_a_name_and_everywhere_any_address() {
        table(
            &rules("192.168.1.7", &[]),
            false,
            &[
                (200, "GET / | host: 192.168.1.7:7480"),
                (200, "GET / | host: localhost:7480"),
                (403, "GET / | host: 192.168.1.8:7480"),
                (403, "GET / | host: box.local:7480"),
            ],
        );
        for everywhere in ["0.0.0.0", "::"] {
            table(
                &rules(everywhere, &[]),
                false,
                &[
                    (200, "GET / | host: 192.168.1.8:7480"),
                    (200, "GET / | host: [2001:db8::1]:7480"),
                    (403, "GET / | host: evil.example"),
                ],
            );
        }
    }

    #[test]
    fn a_server_with_tokens_may_be_called_anything() {
        table(
            &rules("127.0.0.1", &[]),
            true,
            &[
                (200, "GET / | host: evil.example"),
                (200, "POST / | host: evil.example"),
                (400, "GET / | host: a b"),
            ],
        );
    }

    const PAGES: &[(u16, &str)] = &[
        (200, "POST / | host: localhost:7480"),
        (200, "POST / | host: localhost:7480 | origin: http://localhost:7480"),
        (200, "POST / | host: LOCALHOST:7480 | origin: http://localhost:7480"),
        (200, "POST / | host: [::1]:7480 | origin: http://[::1]:7480"),
        (200, "POST / | host: localhost | origin: http://localhost"),
        (200, "POST / | host: localhost:443 | origin: https://localhost"),
        (200, "POST / | host: localhost | origin: https://localhost"),
        (200, "POST / | host: localhost | sec-fetch-site: same-origin"),
        (200, "POST / | host: localhost | sec-fetch-site: none"),
        (200, "GET / | host: localhost | sec-fetch-site: cross-site"),
        (200, "POST / | host: localhost | origin: https://ui.example | sec-fetch-site: same-site"),
        (403, "POST / | host: localhost:7480 | origin: http://evil.example"),
        (403, "POST / | host: localhost:7480 | origin: http://localhost:3000"),
        (403, "POST / | host: localhost:7480 | origin: http://localhost"),
        (403, "POST / | host: localhost:7480 | origin: http://127.0.0.1:7480"),
        (403, "POST / | host: localhost:7480 | origin: null"),
        (403, "POST / | host: localhost:7480 | origin: "),
        (403, "POST / | host: localhost:7480 | origin: file://localhost:7480"),
        (403, "POST / | host: localhost:7480 | origin: http://localhost:7480/"),
        (403, "PUT / | host: localhost | origin: http://evil.example"),
        (403, "DELETE / | host: localhost | origin: http://evil.example"),
        (403, "POST / | host: localhost | origin: http://localhost | origin: http://evil.example"),
        (403, "POST / | host: localhost | sec-fetch-site: cross-site"),
        (403, "POST / | host: localhost | sec-fetch-site: same-site"),
        (
            403,
            "POST / | host: localhost | sec-fetch-site: same-origin | sec-fetch-site: cross-site",
        ),
        (403, "POST / | host: localhost | origin: http://localhost | sec-fetch-site: cross-site"),
        (
            403,
            "POST / | host: localhost | origin: http://evil.example | sec-fetch-site: same-origin",
        ),
    ];

    #[test]
    fn pages_of_other_sites_change_nothing_on_any_server() {
        let rules = rules("127.0.0.1", &["ui.example"]);
        table(&rules, false, PAGES);
        table(&rules, true, PAGES);
    }

    #[test]
    fn pages_of_other_sites_read_nothing_without_tokens() {
        let read = "GET / | host: localhost | origin: http://evil.example";
        let rules = rules("127.0.0.1", &[]);
        assert_eq!((status(&rules, false, read), status(&rules, true, read)), (403, 200));
    }

    #[test]
    fn over_tls_a_page_without_it_is_another_one() {
        let rules = OriginRules { tls: true, ..rules("127.0.0.1", &[]) };
        table(
            &rules,
            false,
            &[
                (200, "POST / | host: localhost | origin: https://localhost"),
                (403, "POST / | host: localhost | origin: http://localhost"),
            ],
        );
    }
}

//! Approval links on servers with settings of their own, and what becomes of a link elsewhere.

use ff_server::Token;
use serde_json::json;

use crate::client::{Client, encoded};
use crate::limits::send_raw;
use crate::server::{TestServer, in_memory};
use crate::suite::approvals::{Asked, ask, decisions, html, links, page, submit_form, votes};
use crate::suite::path;

const TOKEN: &str = "a-secret-token";

fn one(client: &Client) -> (Asked, String) {
    let asked = ask(client, "default", &json!({"question": "Ship it?"}), &votes(1));
    let link = links(client, &asked, &json!({"approvers": ["ann"]})).remove(0);
    (asked, link)
}

#[test]
fn a_link_is_the_only_credential_that_it_needs() {
    let server = in_memory(|config| config.tokens = vec![Token(TOKEN.to_owned())]);
    let (owner, stranger) = (server.client().with_token(TOKEN), server.client());
    let (asked, link) = one(&owner);
    stranger.post(&path(&asked.id, "/approval-links"), &json!({})).problem(401, "unauthorized");
    stranger.get(&path(&asked.id, "/approvals")).problem(401, "unauthorized");
    stranger.post("/v1/admin/rotate-link-key", &json!({})).problem(401, "unauthorized");
    assert!(html(&page(&stranger, &link).expect(200)).contains("Ship it?"));
    submit_form(&stranger, &link, "approved").expect(200);
    assert_eq!(decisions(&owner, &asked.id), [("ann".into(), "approved".into())]);
}

#[test]
fn a_page_of_another_site_cannot_send_the_form() {
    for tokens in [Vec::new(), vec![Token(TOKEN.to_owned())]] {
        let server = in_memory(|config| config.tokens = tokens);
        let client = server.client().with_token(TOKEN);
        let (asked, link) = one(&client);
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let headers = [(name, value), ("content-type", "application/x-www-form-urlencoded")];
            let answer = client.send("POST", &link, &headers, b"choice=approved");
            answer.problem(403, "forbidden_origin");
        }
        assert!(decisions(&client, &asked.id).is_empty());
    }
}

#[test]
fn a_link_of_another_deployment_leads_nowhere() {
    let (here, there) = (in_memory(|_| {}), in_memory(|_| {}));
    let (_, link) = one(&here.client());
    one(&there.client());
    there.client().get(&link).problem(404, "link_not_found");
    // Nor does one where no link was ever made.
    in_memory(|_| {}).client().get(&link).problem(404, "link_not_found");
    here.client().get(&link).expect(200);
}

#[test]
fn links_begin_with_the_address_that_people_see() {
    let public = "https://flow.example.com/ff";
    let server = in_memory(|config| config.public_url = Some(public.parse().expect("a url")));
    let client = server.client();
    let asked = ask(&client, "default", &json!({}), &votes(1));
    let request = json!({"approvers": ["ann"]});
    let made = client.post(&path(&asked.id, "/approval-links"), &request).expect(200).json();
    let url = made["links"][0]["url"].as_str().expect("a url").to_owned();
    let link = url.strip_prefix(public).expect("the public address");
    // A proxy may pass the name on that people see, or put in its own.
    for host in ["flow.example.com".to_owned(), server.address().to_string()] {
        let body = "choice=approved";
        let request = format!(
            "POST {link} HTTP/1.1\r\nhost: {host}\r\norigin: https://flow.example.com\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = crate::client::read_answer(&mut send_raw(&client, &request), "POST");
        answer.expect("an answer").expect(200);
    }
}

#[test]
fn a_server_that_does_not_know_its_address_makes_no_links() {
    let server = in_memory(|config| {
        config.listen = "0.0.0.0:0".parse().expect("an address");
        config.tokens = vec![Token(TOKEN.to_owned())];
    });
    let client = Client::new(([127, 0, 0, 1], server.address().port()).into()).with_token(TOKEN);
    let asked = ask(&client, "default", &json!({}), &votes(1));
    let request = json!({"approvers": ["ann"]});
    // What the request calls the server is no address to send to anybody.
    let made = client.post(&path(&asked.id, "/approval-links"), &request);
    made.problem(409, "no_public_url");
}

#[test]
fn a_link_is_found_in_no_number_list_or_description() {
    let server = in_memory(|_| {});
    let client = server.client();
    let (asked, link) = one(&client);
    let secret = link.trim_start_matches("/approve/").to_owned();
    client.get(&link).expect(200);
    submit_form(&client, &link, "approved").expect(200);
    let metrics = client.get("/metrics").expect(200).body;
    let metrics = String::from_utf8(metrics).expect("text");
    assert!(metrics.contains("route=\"/approve/{link}\""), "{metrics}");
    for told in [
        metrics,
        told(&client, &format!("/v1/executions/{}", encoded(&asked.id))),
        told(&client, &path(&asked.id, "/history")),
        told(&client, &path(&asked.id, "/approvals")),
        told(&client, "/v1/suspended"),
        told(&client, &format!("{link}x")),
    ] {
        assert!(!told.contains(&secret) && !told.contains(&asked.token), "{told}");
    }
}

/// Whoever answers: the handler, what surrounds it, or what answers where nobody else does.
#[test]
fn every_answer_to_a_link_is_protected_and_a_page_for_browsers() {
    let server = in_memory(|_| {});
    let client = server.client();
    let (_, link) = one(&client);
    let evil = ("origin", "http://evil.example");
    for (method, path, more, status) in [
        ("GET", link.clone(), None, 200),
        ("GET", format!("{link}x"), None, 404),
        ("GET", format!("{link}/"), None, 404),
        ("GET", "/approve/%ff".to_owned(), None, 404),
        ("POST", "/approve/%ff".to_owned(), None, 415),
        ("PUT", link.clone(), None, 405),
        ("POST", link.clone(), Some(evil), 403),
        ("POST", link.clone(), None, 415),
    ] {
        for accept in ["text/html", "application/json"] {
            let headers: Vec<_> = more.into_iter().chain([("accept", accept)]).collect();
            let answer = client.send(method, &path, &headers, b"");
            let asked = format!("{method} {path} {headers:?}");
            assert_eq!(answer.status, status, "{asked}");
            let policy = answer.header("content-security-policy").unwrap_or_default();
            assert!(policy.contains("frame-ancestors 'none'"), "{asked}: {policy}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{asked}");
            assert_eq!(answer.header("referrer-policy"), Some("same-origin"), "{asked}");
            let content_type = answer.header("content-type").unwrap_or_default();
            let page = content_type.starts_with("text/html");
            assert_eq!(page, accept == "text/html", "{asked}: {content_type}");
            let body = String::from_utf8(answer.body).expect("text");
            let secret = link.trim_start_matches("/approve/");
            assert!(!body.contains(secret), "{asked}: {body}");
        }
    }
}

fn told(client: &Client, path: &str) -> String {
    String::from_utf8(client.get(path).body).expect("text")
}

/// Every server of a deployment takes the links that another one made.
#[test]
fn servers_of_one_deployment_share_their_keys() {
    let valkey = crate::deployment::valkey();
    let servers: [TestServer; 2] = std::array::from_fn(|_| crate::server::on(&valkey.url()));
    let (asked, link) = one(&servers[0].client());
    submit_form(&servers[1].client(), &link, "approved").expect(200);
    assert_eq!(decisions(&servers[0].client(), &asked.id).len(), 1);
}

//! Who is let in.

use ff_server::{ServerConfig, StartError, StoreConfig, Token};
use serde_json::Value;

use crate::client::Client;
use crate::server::{TestServer, config, in_memory};

const TOKENS: [&str; 2] = ["first-secret-token", "second-secret-token"];

fn guarded() -> TestServer {
    in_memory(|config| config.tokens = TOKENS.map(|token| Token(token.to_owned())).to_vec())
}

/// Every route of the document, with its path made concrete.
fn routes() -> Vec<(String, String, bool)> {
    let document: Value = serde_json::from_str(&ff_server::openapi_json()).expect("json");
    let paths = document["paths"].as_object().expect("paths").clone();
    let id = "%7Bfp:1%7D:550e8400-e29b-41d4-a716-446655440000";
    paths
        .iter()
        .flat_map(|(path, operations)| {
            let path =
                path.replace("{execution_id}", id).replace("{worker}", "w").replace("{link}", "x");
            operations.as_object().expect("operations").iter().map(move |(method, operation)| {
                let open = operation["security"].is_null();
                (method.to_uppercase(), path.clone(), open)
            })
        })
        .collect()
}

#[test]
fn every_route_but_probes_the_reference_and_those_with_credentials_of_their_own_wants_a_token() {
    let server = guarded();
    let strangers = [
        server.client(),
        server.client().with_token("wrong-secret-token"),
        server.client().with_token(&TOKENS[0][..10]),
    ];
    let routes = routes();
    assert!(routes.len() > 30, "{} routes", routes.len());
    let open: Vec<_> =
        routes.iter().filter(|route| route.2).map(|route| route.1.as_str()).collect();
    let signal = "/v1/executions/%7Bfp:1%7D:550e8400-e29b-41d4-a716-446655440000/signal";
    assert_eq!(open, ["/approve/x", "/approve/x", "/healthz", "/readyz", "/reference", signal]);
    for (method, path, open) in &routes {
        for stranger in &strangers {
            let answer = stranger.send(method, path, &[], b"");
            if *open {
                let probe = path.ends_with('z') || path == "/reference";
                assert_eq!(answer.status == 200, probe, "{path}");
                assert_eq!(
                    answer.header("www-authenticate"),
                    None,
                    "{path} has its own credential"
                );
                continue;
            }
            let problem = answer.problem(401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{path}");
            assert!(!problem.to_string().contains("secret"), "{problem}");
        }
    }
    // Whoever has no token does not learn which paths exist.
    strangers[0].get("/nowhere").problem(401, "unauthorized");
    strangers[0].send("DELETE", "/v1/claims", &[], b"").problem(401, "unauthorized");
}

#[test]
fn every_configured_token_opens() {
    let server = guarded();
    for token in TOKENS {
        server.client().with_token(token).get("/v1/workers").expect(200);
        server.client().with_token(token).get("/metrics").expect(200);
    }
    let open = in_memory(|config| {
        config.tokens = vec![Token(TOKENS[0].to_owned())];
        config.open_metrics = true;
    });
    open.client().get("/metrics").expect(200);
    open.client().get("/v1/workers").expect(401);
}

#[test]
fn a_server_beyond_loopback_without_a_token_does_not_start() {
    let everywhere = ServerConfig {
        listen: "0.0.0.0:0".parse().expect("an address"),
        ..config(StoreConfig::memory())
    };
    let refused = TestServer::try_start(everywhere.clone()).err().expect("refused");
    assert!(matches!(refused, StartError::Config(_)), "{refused}");
    assert!(refused.to_string().contains("token"), "{refused}");
    let allowed = TestServer::start(ServerConfig { allow_insecure: true, ..everywhere });
    let address = (std::net::Ipv4Addr::LOCALHOST, allowed.address().port());
    Client::new(address.into()).get("/healthz").expect(200);
}

#[test]
fn a_taken_port_and_a_taken_directory_are_start_errors() {
    let first = crate::server::embedded();
    let taken = ServerConfig { listen: first.address(), ..config(StoreConfig::memory()) };
    let refused = TestServer::try_start(taken).err().expect("refused");
    assert!(matches!(refused, StartError::Listen { .. }), "{refused}");
    let directory = tempfile::TempDir::new().expect("a directory");
    let store = StoreConfig::parse(&directory.path().display().to_string()).expect("a store");
    let _second = TestServer::start(config(store.clone()));
    let refused = TestServer::try_start(config(store)).err().expect("refused");
    assert!(refused.to_string().contains("in use"), "{refused}");
    let nowhere = StoreConfig::parse("valkey://127.0.0.1:1/").expect("a store");
    let refused = TestServer::try_start(config(nowhere)).err().expect("refused");
    assert!(matches!(refused, StartError::Store(_)), "{refused}");
}

#[test]
fn the_banner_has_five_lines_and_no_secret() {
    let server = guarded();
    let banner = server.running().banner();
    assert_eq!(banner.lines().count(), 5, "{banner}");
    assert!(banner.contains(&server.address().to_string()), "{banner}");
    assert!(!banner.contains("secret"), "{banner}");
}

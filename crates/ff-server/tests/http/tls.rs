//! TLS.

use std::io::{BufReader, Write};
use std::process::Command;
use std::sync::Arc;

use ff_server::{StartError, StoreConfig, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Client, read_answer};
use crate::server::{TestServer, config, in_memory};

/// A certificate for the loopback address that signs itself.
fn certificate(directory: &std::path::Path) -> TlsFiles {
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
        -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out certificate.pem";
    let made = Command::new("openssl")
        .args(words.split_ascii_whitespace())
        .current_dir(directory)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    TlsFiles {
        certificate_file: directory.join("certificate.pem"),
        key_file: directory.join("key.pem"),
    }
}

fn trusting(files: &TlsFiles) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate =
        CertificateDer::from_pem_file(&files.certificate_file).expect("a certificate");
    roots.add(certificate).expect("trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("known versions");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn a_server_with_a_certificate_speaks_tls_only() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let files = certificate(directory.path());
    let server = in_memory(|config| config.tls = Some(files.clone()));
    assert!(server.running().banner().contains("https://"));
    let stream = server.client().connect().expect("a connection");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let session = ClientConnection::new(trusting(&files), name).expect("a session");
    let mut stream = StreamOwned::new(session, stream);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let answer = read_answer(&mut BufReader::new(stream), "GET").expect("an answer");
    answer.expect(200);
    let plain = Client::new(server.address()).try_send("GET", "/healthz", &[], b"");
    assert!(plain.is_err(), "{plain:?}");
}

#[test]
fn files_that_are_not_there_or_not_right_are_start_errors() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let files = certificate(directory.path());
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    for wrong in [
        TlsFiles { certificate_file: directory.path().join("missing.pem"), ..files.clone() },
        TlsFiles { certificate_file: empty.clone(), ..files.clone() },
        TlsFiles { key_file: empty, ..files },
    ] {
        let mut config = config(StoreConfig::memory());
        config.tls = Some(wrong.clone());
        let refused = TestServer::try_start(config).err().expect("refused");
        assert!(matches!(refused, StartError::Tls(_)), "{refused}");
    }
}

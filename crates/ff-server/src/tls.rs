//! TLS by rustls with ring.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;

/// Reads the files. Answers what is wrong with them in words.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let certificates = certificates(files)?;
    let key = PrivateKeyDer::from_pem_file(&files.key_file)
        .map_err(|error| format!("{}: {error}", files.key_file.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| format!("certificate and key do not make a server: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(files: &TlsFiles) -> Result<Vec<CertificateDer<'static>>, String> {
    let name = files.certificate_file.display();
    let read = CertificateDer::pem_file_iter(&files.certificate_file)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|error| format!("{name}: {error}"))?;
    if read.is_empty() {
        return Err(format!("{name} holds no certificate"));
    }
    Ok(read)
}

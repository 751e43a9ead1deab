//! Whom we trust over TLS, and why a conversation did not even begin.

use std::error::Error;
use std::io;
use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore};
use rustls::{SignatureScheme, client};

use crate::error::HttpErrorKind;

/// Puts TLS around connections where the address asks for it. The system's certificates are read
/// only where they are needed; if authorities are named, only they are trusted.
pub(super) fn connector(
    plain: HttpConnector,
    secure: bool,
    authorities: Option<&[u8]>,
) -> Result<HttpsConnector<HttpConnector>, io::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = HttpsConnectorBuilder::new();
    let builder = match (secure, authorities) {
        (true, None) => builder.with_provider_and_native_roots(provider)?,
        (true, Some(pem)) => builder.with_tls_config(trust(provider, certificates(pem)?)?),
        (false, _) => builder.with_tls_config(trust_nobody(provider)?),
    };
    Ok(builder.https_or_http().enable_http1().wrap_connector(plain))
}

/// The certificates in a file of authorities.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, io::Error> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| io::Error::other(format!("no certificate: {error}")))?;
    match found.is_empty() {
        true => Err(io::Error::other("no certificate: there is none in PEM form")),
        false => Ok(found),
    }
}

fn trust_nobody(provider: Arc<CryptoProvider>) -> Result<ClientConfig, io::Error> {
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn trust(
    provider: Arc<CryptoProvider>,
    named: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(named.iter().cloned());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let usual = verifier.build().map_err(io::Error::other)?;
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let named = Arc::new(Named { certificates: named, usual });
    Ok(builder.dangerous().with_custom_certificate_verifier(named).with_no_client_auth())
}

/// Trusts what the named authorities signed, and a named certificate itself: the usual way to make
/// one for oneself calls it an authority, and an authority may not be a server by the usual rules.
#[derive(Debug)]
struct Named {
    certificates: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let usual = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match usual {
            Err(_) if self.certificates.iter().any(|named| named == end_entity) => {
                let parsed = ParsedCertificate::try_from(end_entity)?;
                client::verify_server_name(&parsed, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            usual => usual,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// What is wrong with the address or the trust rather than with the way there, if it is that.
pub(super) fn explain(error: &(dyn Error + 'static)) -> Option<(HttpErrorKind, String)> {
    if let Some(error) = find::<rustls::Error>(error) {
        return explain_tls(error);
    }
    let not_http = find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse);
    let hint = "what answers there is not HTTP; does the address begin with https://?";
    not_http.then(|| (HttpErrorKind::Untrusted, hint.to_owned()))
}

fn explain_tls(error: &rustls::Error) -> Option<(HttpErrorKind, String)> {
    let said = match error {
        rustls::Error::InvalidCertificate(wrong) => {
            format!("its certificate is not trusted: {}", of_certificate(wrong))
        }
        rustls::Error::InvalidMessage(_) => {
            "what answers there is not TLS; does the address begin with http://?".to_owned()
        }
        _ => return None,
    };
    Some((HttpErrorKind::Untrusted, said))
}

fn of_certificate(wrong: &CertificateError) -> String {
    use CertificateError::{Expired, ExpiredContext, NotValidForName, NotValidForNameContext};
    match wrong {
        CertificateError::UnknownIssuer => {
            "nobody whom this machine trusts has signed it; name who has".to_owned()
        }
        Expired | ExpiredContext { .. } => "it has expired".to_owned(),
        NotValidForName | NotValidForNameContext { .. } => "it is for another name".to_owned(),
        // Made by somebody for themselves: signed by itself, and called an authority.
        CertificateError::Other(_) => "it is signed by itself; name it to trust it".to_owned(),
        other => format!("{other:?}"),
    }
}

/// An error of this type among the causes of another one. Those of the system hide theirs.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

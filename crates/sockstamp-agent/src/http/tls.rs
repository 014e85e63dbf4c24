//! Encryption of what the agent serves and sends, by rustls.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result, anyhow, bail};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore,
    ServerConfig, SignatureScheme, WantsVerifier,
};

use crate::config::TlsTable;
use crate::files::{PEM, content, secret};

/// The agent's certificate and key, which may be replaced while it serves.
#[derive(Debug)]
pub(crate) struct Identity(RwLock<Arc<CertifiedKey>>);

impl Identity {
    pub(crate) fn new(key: CertifiedKey) -> Self {
        Self(RwLock::new(Arc::new(key)))
    }

    /// Show this certificate from the next connection on.
    pub(crate) fn replace(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
    }

    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let key = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&key))
    }
}

/// Read certificate and key; they must belong together.
pub(crate) fn certified(table: &TlsTable) -> Result<CertifiedKey> {
    let chain = certificates(&table.certificate_file)?;
    let key = PrivateKeyDer::from_pem_slice(&secret(&table.key_file, PEM, "the key")?)
        .map_err(|error| anyhow!("{} has no key: {error}", table.key_file.display()))?;
    CertifiedKey::from_der(chain, key, &provider()).with_context(|| {
        let [certificate, key] =
            [&table.certificate_file, &table.key_file].map(|path| path.display());
        format!("cannot use {certificate} with {key}")
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let content = content(path, PEM)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    match found {
        Ok(found) if found.is_empty() => bail!("{} has no certificate", path.display()),
        found => found.map_err(|error| anyhow!("{} has no certificate: {error}", path.display())),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn client() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    Ok(ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?)
}

/// Trust servers whose certificate comes from an authority in this file, or else from one that the
/// host trusts.
pub(crate) fn trusting_authorities(
    file: Option<&Path>,
    protocol: &str,
) -> Result<Arc<ClientConfig>> {
    let authorities = match file {
        Some(file) => certificates(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(authorities);
    if added == 0 {
        bail!("no certificate authority is known: name a file of CA certificates in ca_file");
    }
    let mut config = client()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(Arc::new(config))
}

/// Trust the server that shows the very certificate of this file: the host reaches its own agent by
/// an address, which few certificates name.
pub(crate) fn trusting_itself(table: &TlsTable) -> Result<Arc<ClientConfig>> {
    let own = certificates(&table.certificate_file)?.swap_remove(0);
    let verifier = Arc::new(Itself {
        own,
        provider: provider(),
    });
    let config = client()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Itself {
    own: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Itself {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match *shown == self.own {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

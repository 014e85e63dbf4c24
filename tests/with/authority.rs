//! Certificates.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// An authority that openssl made, and a certificate for localhost that it signed.
pub struct Authority(TempDir);

impl Authority {
    pub fn new() -> Authority {
        let authority = Authority(TempDir::new().unwrap());
        authority.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test \
             -keyout ca.key -out ca.crt",
        );
        authority.openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=agent \
             -keyout own.key -out own.csr",
        );
        let names = authority.0.path().join("names");
        fs::write(names, "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        authority.openssl(
            "x509 -req -in own.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 1 -extfile names \
             -out own.crt",
        );
        authority
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {errors}");
    }
}

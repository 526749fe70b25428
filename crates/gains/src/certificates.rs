//! Certificates of verdicts: files for `gains-check` (docs/certificates.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ciborium::Value;
use gains_core::Network;
use gains_verify::certificate::{Certificate, NotWritten, encode};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sha2::{Digest, Sha256};

use crate::cli::CertificateArgs;
use crate::failure::Failure;
use crate::files;
use crate::results::{CertificatePart, Line};

/// How a line says that there is no certificate.
const NOT_WRITTEN: &str = "not written: ";

/// Where certificates go, and what is done with them.
pub struct Certificates {
    folder: PathBuf,
    model: [u8; 32],
    /// The network as the checker reads it, if certificates are to be checked.
    checker: Option<gains_check::Model>,
}

/// A certificate that is ready to be written, or why there is none.
pub struct Sealed {
    file: Option<(String, Vec<u8>)>,
    part: CertificatePart,
    /// What the checker has against it.
    pub complaint: Option<String>,
}

impl Sealed {
    /// No verdict, no certificate.
    pub const NOTHING: Self = Self::without(None);

    const fn without(certificate: Option<String>) -> Self {
        Self { file: None, part: CertificatePart { certificate, checked: None }, complaint: None }
    }
}

impl Certificates {
    /// Makes the folder, if there is to be one.
    pub fn open(args: &CertificateArgs, model: Option<&Path>) -> Result<Option<Self>, Failure> {
        let Some(folder) = &args.certificates else { return Ok(None) };
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::writing(folder, &error)
                .hint("--certificates takes a folder; it is made if it is not there")
        })?;
        let bytes = files::model_bytes(model)?;
        let checker = match args.check {
            true => Some(gains_check::Model::read(&bytes).map_err(|problem| {
                Failure::usage(format!("the checker cannot read this network: {problem}")).hint(
                    "leave --check out; docs/certificates.md says which layers certificates speak about",
                )
            })?),
            false => None,
        };
        Ok(Some(Self { folder: folder.clone(), model: Sha256::digest(&bytes).into(), checker }))
    }

    /// Makes a file of a certificate.
    pub fn seal(
        &self,
        network: &Network,
        index: usize,
        eps: f64,
        certificate: Result<Certificate, NotWritten>,
    ) -> Sealed {
        let certificate = match certificate {
            Ok(certificate) => certificate,
            Err(NotWritten::NoVerdict) => return Sealed::NOTHING,
            Err(why) => return Sealed::without(Some(format!("{NOT_WRITTEN}{why}"))),
        };
        let about = [
            ("network", Value::Text(network.description.name.clone())),
            ("sample", (index as u64).into()),
            ("eps", Value::Float(eps)),
            ("version", Value::Text(env!("CARGO_PKG_VERSION").into())),
        ];
        let plain = encode::to_cbor(&certificate, &self.model, &about);
        let bytes = compress_to_vec(&plain[..], CompressionLevel::Fastest);
        // Names of files have an end: 1e-300 has 302 characters otherwise.
        let short = eps.to_string().len() <= 24;
        let radius = if short { eps.to_string() } else { format!("{eps:e}") };
        let name = format!("sample-{index:06}-eps-{radius}.cert");
        let found = self.checker.as_ref().map(|model| gains_check::check(model, &bytes));
        let checked = found.as_ref().map(Result::is_ok);
        let complaint = found.and_then(Result::err).map(|fault| fault.to_string());
        let part = CertificatePart { certificate: Some(name.clone()), checked };
        Sealed { file: Some((name, bytes)), part, complaint }
    }

    /// Writes what was made, and tells what a line says about it.
    pub fn keep(&self, sealed: Sealed) -> Result<CertificatePart, Failure> {
        if let Some((name, bytes)) = &sealed.file {
            files::write_atomically(&self.folder.join(name), bytes)?;
        }
        Ok(sealed.part)
    }

    /// What came of all certificates, in a few lines.
    pub fn summary(&self, lines: &[Line]) -> String {
        let parts = || lines.iter().filter_map(|line| line.certificate.as_ref());
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        let mut written = 0;
        for said in parts().filter_map(|part| part.certificate.as_deref()) {
            match said.strip_prefix(NOT_WRITTEN) {
                Some(why) => *missing.entry(why).or_default() += 1,
                None => written += 1,
            }
        }
        let checked = |wanted: bool| parts().filter(|part| part.checked == Some(wanted)).count();
        let (accepted, refused) = (checked(true), checked(false));
        let verdict = match accepted + refused {
            0 => String::new(),
            all => format!(", {accepted} of {all} accepted by the checker"),
        };
        let mut text = format!("certificates: {written} in {}{verdict}\n", self.folder.display());
        for (why, count) in missing {
            text.push_str(&format!("certificate: not written: {count} × {why}\n"));
        }
        text
    }
}

//! Certificates are written by this crate and checked by `gains-check`, which shares no code with it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod faults;
mod forms;
mod grammar;
mod parts;
mod random;
mod series;
mod view;

use gains_check::{Holds, Model as Checked, check};
use gains_core::Network;
use gains_core::model_file::{read_model, write_model};
use gains_ode::Observations;
use gains_testkit::Model;
use gains_verify::certificate::prove::certificate;
use gains_verify::certificate::{Evidence, NotWritten, encode};
use gains_verify::{Budget, Clock, Problem, Settings, Verdict, Verifier};
use sha2::{Digest, Sha256};

/// A network as a file, for both programs.
struct Both {
    hash: [u8; 32],
    network: Network,
    checked: Checked,
    file: Vec<u8>,
}

/// What came of a question.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// There is no verdict.
    Undecided,
    /// There is one, and a certificate that both programs agree about; the number of its nodes.
    Verified(usize),
    Falsified,
    NotWritten(NotWritten),
}

impl Both {
    fn new(model: &Model) -> Self {
        Self::read(&write_model(&model.description, &model.tensors).unwrap())
    }

    /// Keeps a small network with its certificate, where `GAINS_CERTIFICATE_KEEP` names a folder: for the tests of
    /// `gains-check`.
    fn keep(&self, certificate: &[u8]) {
        let Ok(folder) = std::env::var("GAINS_CERTIFICATE_KEEP") else { return };
        let name = self.hash[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let folder = std::path::Path::new(&folder);
        if self.file.len() + certificate.len() < 12_000 {
            std::fs::write(folder.join(format!("{name}.safetensors")), &self.file).unwrap();
            std::fs::write(folder.join(format!("{name}-0-holds.cert")), certificate).unwrap();
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let hash = Sha256::digest(bytes).into();
        let (network, checked) = (read_model(bytes).unwrap(), Checked::read(bytes).unwrap());
        Self { hash, network, checked, file: bytes.to_vec() }
    }

    /// Decides a problem of the network and has the certificate checked.
    fn ask(&self, problem: &Problem<'_>, settings: Settings, budget: Budget<'_>) -> Outcome {
        self.ask_about(None, problem, settings, budget)
    }

    /// The same of a network that was laid out for a series.
    fn ask_about(
        &self,
        series: Option<&Observations>,
        problem: &Problem<'_>,
        settings: Settings,
        budget: Budget<'_>,
    ) -> Outcome {
        let verifier = Verifier::new(settings);
        let report = verifier.decide(problem, budget);
        let written = certificate(problem, series, &verifier.settings, &report, Clock::start(budget));
        let certificate = match written {
            Err(NotWritten::NoVerdict) => return Outcome::Undecided,
            Err(why) => return Outcome::NotWritten(why),
            Ok(certificate) => certificate,
        };
        let bytes = encode::to_cbor(&certificate, &self.hash, &[]);
        self.keep(&bytes);
        match (&report.verdict, check(&self.checked, &bytes)) {
            (Verdict::Verified, Ok(Holds::Verified(count))) => Outcome::Verified(count.nodes),
            (Verdict::Falsified { .. }, Ok(Holds::Falsified(_))) => {
                assert!(matches!(certificate.evidence, Evidence::Witness { .. }));
                Outcome::Falsified
            }
            (verdict, found) => panic!("{verdict:?} by {:?}, but {found:?}", report.stages),
        }
    }
}

//! `gains-check MODEL CERTIFICATE…`

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use gains_check::fault::Fault;
use gains_check::interval::Interval;
use gains_check::{Holds, Model, check_within};

/// Largest model file.
const MAX_MODEL: u64 = 1 << 30;
/// Largest certificate file.
const MAX_CERTIFICATE: u64 = 256 << 20;

/// Decides whether certificates hold: proofs that `gains certify --certificates` wrote, checked by a program that shares
/// no code with it.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 all certificates hold, 1 some are refused, 2 some cannot be read or are not decided in time."
)]
struct Arguments {
    /// The model file (safetensors) the certificates are about
    model: PathBuf,
    /// Certificates
    #[arg(required = true)]
    certificates: Vec<PathBuf>,
    /// One line of JSON for each certificate
    #[arg(long)]
    json: bool,
    /// Give up on a certificate after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| error.to_string();
    // Asked before it is opened: a pipe would wait for whoever writes into it.
    if !std::fs::metadata(path).map_err(told)?.is_file() {
        return Err("not a plain file".into());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(told)?.take(limit + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > limit { Err(format!("more than {limit} bytes are too many")) } else { Ok(bytes) }
}

/// One line that reads as it is written, whatever names and keys of files have in them: nothing that ends a line somewhere,
/// turns text around or is not seen.
fn plain(line: &str) -> String {
    line.chars().map(|c| if is_odd(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Whether a character is not one that is seen.
fn is_odd(c: char) -> bool {
    let is_escaped = c.escape_debug().nth(1).is_some();
    c.is_control() || (is_escaped && !matches!(c, '\'' | '"' | '\\'))
}

/// The same of a line of JSON, which has its own way to write characters.
fn plain_json(line: &str) -> String {
    let units = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    line.chars().map(|c| if is_odd(c) { units(c) } else { c.to_string() }).collect()
}

/// Seven digits of a number where that many are known, else its ends.
fn known(y: &Interval) -> String {
    let rounded: f64 = format!("{:.6e}", y.middle()).parse().unwrap_or(f64::NAN);
    match y.high - y.low <= 1e-7 * y.middle().abs() {
        true => rounded.to_string(),
        false => format!("from {} to {}", y.low, y.high),
    }
}

/// What is printed of a certificate, and what it adds to the exit code.
fn report(path: &Path, outcome: &Result<(Holds, String), Fault>, seconds: f64, json: bool) -> (String, u8) {
    let (word, detail, code) = match outcome {
        Ok((Holds::Verified(count), about)) => {
            let detail = format!(
                "verified: {about} ({} nodes, {} vertices, {} edges, {} rows)",
                count.nodes, count.vertices, count.edges, count.rows
            );
            ("holds", detail, 0)
        }
        Ok((Holds::Falsified(outputs), about)) => {
            let outputs: Vec<String> = outputs.iter().map(known).collect();
            ("holds", format!("falsified: {about} (outputs {})", outputs.join(", ")), 0)
        }
        Err(fault @ Fault::Malformed(_)) => ("unreadable", fault.to_string(), 2),
        Err(Fault::Late) => ("unfinished", Fault::Late.to_string(), 2),
        Err(fault) => ("refused", fault.to_string(), 1),
    };
    let path = path.display().to_string();
    if !json {
        return (plain(&format!("{path}: {word}: {detail} [{seconds:.2} s]")), code);
    }
    let mut line =
        serde_json::json!({"certificate": path, "outcome": word, "detail": detail, "seconds": seconds});
    if let Err(Fault::Refused { place, what, amount }) = outcome {
        line["place"] = place.clone().into();
        line["what"] = what.clone().into();
        line["amount"] = amount.filter(|amount| amount.is_finite()).into();
    }
    (plain_json(&line.to_string()), code)
}

#[expect(clippy::print_stderr, reason = "this is the program that prints")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let model = read(&arguments.model, MAX_MODEL).and_then(|bytes| Model::read(&bytes));
    let model = match model {
        Ok(model) => model,
        Err(error) => {
            eprintln!("{}", plain(&format!("error: {}: {error}", arguments.model.display())));
            return ExitCode::from(2);
        }
    };
    let mut worst = 0;
    for path in &arguments.certificates {
        let start = Instant::now();
        let bytes = read(path, MAX_CERTIFICATE).map_err(Fault::Malformed);
        let outcome = bytes.and_then(|bytes| check_within(&model, &bytes, arguments.timeout));
        let (line, code) = report(path, &outcome, start.elapsed().as_secs_f64(), arguments.json);
        // Whoever reads no further learns nothing of the rest.
        if writeln!(std::io::stdout(), "{line}").is_err() {
            return ExitCode::from(2);
        }
        worst = worst.max(code);
    }
    ExitCode::from(worst)
}

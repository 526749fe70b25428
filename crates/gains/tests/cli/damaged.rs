//! Files of every kind with bytes changed: the program reads them or says in one line what is wrong and what helps. It never
//! panics, never goes on for long, and leaves nothing half-written behind.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::stderr;

const TUTORIAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tutorial/");

/// What the small networks of the tutorial need at most, and far less than a header can claim.
const MOST_MEMORY_KB: usize = 2_000_000;

/// No damaged file is worth more time.
const LONGEST: Duration = Duration::from_secs(30);

/// A good file, and the command that reads it where `@` stands.
struct Door {
    name: &'static str,
    good: Vec<u8>,
    command: Vec<String>,
}

fn tutorial(name: &str) -> Vec<u8> {
    std::fs::read(format!("{TUTORIAL}{name}")).unwrap()
}

/// An IDX file of the first inputs of two moons.
fn idx() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x0E, 2, 0, 0, 0, 3, 0, 0, 0, 2];
    bytes.extend([0.5_f64, -0.25, 1.0, 0.75, -1.0, 0.125].iter().flat_map(|v| v.to_be_bytes()));
    bytes
}

/// One way in for every format, each through a command that writes a file.
fn doors(folder: &Path) -> Vec<Door> {
    let model = folder.join("moons.gains");
    let words = |text: &str| -> Vec<String> {
        let fill = |word: &str| match word {
            "MODEL" => model.to_str().unwrap().to_owned(),
            "X" => format!("{TUTORIAL}moons.x.npy"),
            "W" => format!("{TUTORIAL}moons.safetensors"),
            "D" => format!("{TUTORIAL}moons.json"),
            "OUT" => folder.join("out").to_str().unwrap().to_owned(),
            word => word.to_owned(),
        };
        text.split_whitespace().map(fill).collect()
    };
    let import = words("model import W --description D --out MODEL --quiet");
    assert!(Command::new(env!("CARGO_BIN_EXE_gains")).args(&import).status().unwrap().success());
    let rest = "--samples 0 --eps 0.001 --method box --attack-steps 0 --out OUT";
    let certify = |given: &str| words(&format!("certify --model MODEL {given} {rest}"));
    let csv = b"a,b,class\n0.5,-0.25,0\n1.0,0.75,1\n".to_vec();
    let lines = b"{\"x\": [0.5, -0.25], \"y\": 0}\n{\"x\": [1.0, 0.75]}\n".to_vec();
    let property = br#"{"require": {"any": [{"lead": 0.5}, {"output": 1, "between": [-9, 9]}]}}"#.to_vec();
    let door = |name, good, command| Door { name, good, command };
    vec![
        door("x.npy", tutorial("moons.x.npy"), certify("--inputs @")),
        door("y.npy", tutorial("moons.y.npy"), certify("--inputs X --labels @")),
        door("x.csv", csv, certify("--inputs @ --label-column class")),
        door("x-idx2-double", idx(), certify("--inputs @")),
        door("x.jsonl", lines, certify("--inputs @")),
        door("p.json", property, certify("--inputs X --property @")),
        door(
            "m.gains",
            std::fs::read(&model).unwrap(),
            words(&format!("certify --model @ --inputs X {rest}")),
        ),
        door(
            "w.safetensors",
            tutorial("moons.safetensors"),
            words("model import @ --description D --out OUT"),
        ),
        door("d.json", tutorial("moons.json"), words("model import W --description @ --out OUT")),
    ]
}

fn damaged(good: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..1 + random.usize(..3) {
        let at = random.usize(..bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        // Headers are where most can go wrong.
        let at = if random.bool() { at % 160 } else { at }.min(bytes.len().saturating_sub(1));
        match random.u8(..6) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] = random.u8(..),
            2 if !bytes.is_empty() => bytes[at] ^= 1 << random.u8(..8),
            3 => drop(bytes.splice(at..at, *b"999999999999")),
            4 => drop(bytes.drain(at..(at + random.usize(..16)).min(bytes.len()))),
            _ => {
                let again = bytes[at..(at + 32).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, again));
            }
        }
    }
    bytes
}

/// Runs a command with bounded memory; what it said, and its exit code.
fn run(command: &[String]) -> (Option<i32>, String) {
    let limited = format!("ulimit -v {MOST_MEMORY_KB}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(limited).arg(env!("CARGO_BIN_EXE_gains")).args(command);
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > LONGEST {
            child.kill().unwrap();
            return (None, format!("no end after {LONGEST:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stderr(&output))
}

/// What is wrong with how a damaged file was received.
fn complaint(code: Option<i32>, said: &str, left: &[PathBuf]) -> Option<String> {
    if said.contains("panicked") {
        return Some("a panic".into());
    }
    match code {
        Some(0) => None,
        Some(1 | 2) => {
            let errors = said.lines().filter(|line| line.starts_with("error:")).count();
            let hints = said.lines().filter(|line| line.starts_with("hint:")).count();
            if errors != 1 || hints > 1 {
                return Some(format!("{errors} errors, {hints} hints"));
            }
            if said.lines().any(|line| line.chars().count() > 600) {
                return Some("a very long line".into());
            }
            (!left.is_empty()).then(|| format!("left behind: {left:?}"))
        }
        code => Some(format!("exit code {code:?}")),
    }
}

fn attack(files: usize, seed: u64) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let doors = doors(folder.path());
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut read, mut refused) = (0, 0);
    for number in 0..files {
        let door = &doors[number % doors.len()];
        let bytes = damaged(&door.good, &mut random);
        let inner = tempfile::tempdir_in(folder.path()).unwrap();
        let (file, out) = (inner.path().join(door.name), inner.path().join("out"));
        std::fs::write(&file, &bytes).unwrap();
        let fill = |word: &String| match word.as_str() {
            "@" => file.to_str().unwrap().to_owned(),
            word if word.ends_with("/out") => out.to_str().unwrap().to_owned(),
            word => word.to_owned(),
        };
        let command: Vec<String> = door.command.iter().map(fill).collect();
        let (code, said) = run(&command);
        let left: Vec<PathBuf> = std::fs::read_dir(inner.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| *path != file)
            .collect();
        if let Some(what) = complaint(code, &said, &left) {
            let kept = std::env::temp_dir().join(format!("damaged-{seed}-{number}-{}", door.name));
            std::fs::write(&kept, &bytes).unwrap();
            panic!("{what}: {} in {}\n{said}", command.join(" "), kept.display());
        }
        match code {
            Some(0) => read += 1,
            _ => refused += 1,
        }
    }
    (read, refused)
}

#[test]
fn damaged_files_are_read_or_refused_in_a_line() {
    let (read, refused) = attack(180, 1);
    assert!(read > 5 && refused > 60, "{read} read, {refused} refused");
}

/// `GAINS_DAMAGED` files, a hundred thousand without it.
#[test]
#[ignore = "runs for hours"]
fn a_hundred_thousand_damaged_files() {
    let files = std::env::var("GAINS_DAMAGED").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let (read, refused) = attack(files, 2);
    println!("{read} read, {refused} refused");
}

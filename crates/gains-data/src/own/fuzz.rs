//! Damaged files: each is refused with a message of one line, or read; nothing panics, nothing allocates what
//! a header claims.

use std::io::{Cursor, Write as _};
use std::path::Path;

use super::{parse_inputs, pictures};

/// An array of NumPy with the given axes, as they stand in its header.
pub(super) fn npy(kind: &str, axes: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({axes}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// Three samples of two numbers, 1 to 6, in every format.
pub(super) fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = [1, 2, 3, 4, 5, 6];
    let doubles: Vec<u8> = bytes.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, method) in
        [("x.npy", zip::CompressionMethod::Deflated), ("z.npy", zip::CompressionMethod::Stored)]
    {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        archive.start_file(name, options).unwrap();
        archive.write_all(&npy("<f8", "3, 2", &doubles)).unwrap();
    }
    let mut idx = vec![0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2];
    idx.extend(bytes);
    vec![
        ("x.npy", npy("<f8", "3, 2", &doubles)),
        ("x.npz", archive.finish().unwrap().into_inner()),
        ("x.csv", b"a,\"b, c\"\n1,2\n3,4e0\n\"5\",6.0\n".to_vec()),
        ("x-idx2", idx),
        ("x.jsonl", b"{\"x\": [1, 2]}\n{\"x\": [3, 4]}\n\n{\"x\": [5, 6.0]}\n".to_vec()),
    ]
}

/// A picture with the given samples.
pub(super) fn png(width: u32, height: u32, kind: (png::ColorType, png::BitDepth), data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(kind.0);
    encoder.set_depth(kind.1);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    bytes
}

fn picture() -> Vec<u8> {
    let data: Vec<u8> = (0..60).map(|i| 3 * i).collect();
    png(5, 4, (png::ColorType::Rgb, png::BitDepth::Eight), &data)
}

/// Pieces that matter to some format.
const PIECES: [&[u8]; 22] = [
    b"\x93NUMPY",
    b"PK\x03\x04",
    b"PK\x01\x02",
    b"PK\x05\x06",
    b"{'descr': '<f8'",
    b"999999999999",
    b"18446744073709551615",
    b"-1",
    b"nan",
    b"1e999",
    b"inf",
    b"((((((((",
    b"{\"x\": [",
    b"]}",
    b"\"",
    b",",
    b"\n",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"IHDR",
    b"IDAT",
    b"'shape': (1000000000000,)",
];

fn damaged(mut bytes: Vec<u8>, random: &mut fastrand::Rng) -> Vec<u8> {
    for _ in 0..1 + random.usize(..4) {
        let at = random.usize(..=bytes.len());
        match random.u8(..7) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = random.u8(..),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            3 => {
                let piece = PIECES[random.usize(..PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            4 => {
                let piece = PIECES[random.usize(..PIECES.len())];
                let end = (at + piece.len()).min(bytes.len());
                bytes.splice(at..end, piece.iter().copied());
            }
            5 => {
                let end = at + random.usize(..=(bytes.len() - at).min(16));
                bytes.drain(at..end);
            }
            _ => {
                let end = at + random.usize(..=(bytes.len() - at).min(64));
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
    bytes
}

fn attack(files: usize, seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all: Vec<(&str, Vec<u8>)> = samples();
    all.push(("x.png", picture()));
    let mut refused = 0;
    for _ in 0..files {
        let (name, bytes) = &all[random.usize(..all.len())];
        let bytes = damaged(bytes.clone(), &mut random);
        // Sometimes the name tells the format, sometimes the content.
        let path = Path::new(if random.bool() { *name } else { "file" });
        let told = if *name == "x.png" {
            let mut values = Vec::new();
            pictures::picture(&bytes, &mut values).err()
        } else {
            match parse_inputs(&bytes, path, random.bool().then_some("a")) {
                Ok(inputs) => {
                    let count = inputs.samples * inputs.entries();
                    assert_eq!(inputs.values.len(), count, "{name}: {:?}", String::from_utf8_lossy(&bytes));
                    assert!(inputs.values.iter().all(|v| v.is_finite()));
                    None
                }
                Err(error) => {
                    assert!(!error.hint().is_empty());
                    Some(error.to_string())
                }
            }
        };
        if let Some(told) = told {
            assert!(!told.is_empty() && !told.contains('\n') && told.len() < 500, "{name}: {told}");
            refused += 1;
        }
    }
    refused
}

#[test]
fn a_hundred_thousand_damaged_files_are_refused_in_one_line() {
    assert!(attack(100_000, 1) > 50_000);
}

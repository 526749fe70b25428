//! A page of made-up results on standard output: 1000 noisy images at three radii, compared with a second file.
//! It is what the size of a page and the time to open it are measured on.

use std::fmt::Write as _;
use std::io::Write as _;

use gains_report::{Channels, Input, Report, read, render};

const SAMPLES: usize = 1000;

/// Numbers that look random: a linear congruence.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1_u64 << 24) as f64
    }
}

fn lines(noise: &mut Noise, method: &str) -> String {
    let mut text = String::new();
    for index in 0..SAMPLES {
        for eps in [0.05, 0.1, 0.15] {
            let (margin, seconds) = (2.0 * noise.next() - 4.0 * eps, 0.01 + noise.next().powi(4) * 10.0);
            let verdict = match noise.next() {
                draw if draw < 0.1 => "misclassified",
                draw if draw < 0.2 && margin < 0.0 => "falsified",
                _ if margin > 0.0 => "verified",
                _ => "unknown",
            };
            let prediction = if verdict == "misclassified" { (index + 1) % 10 } else { index % 10 };
            let witness = if verdict == "falsified" { pixels(noise) } else { Vec::new() };
            let witness = if witness.is_empty() { "null".into() } else { format!("{witness:?}") };
            let reason = if verdict == "unknown" { "\"loose\"" } else { "null" };
            let bounds = bounds(noise);
            let _ = writeln!(
                text,
                r#"{{"index":{index},"label":{},"prediction":{prediction},"eps":{eps},"verdict":"{verdict}","reason":{reason},"reason_code":{reason},"margin":{margin},"vertices":{},"edges":{},"seconds":{seconds},"stages":[{{"name":"attack","seconds":{}}},{{"name":"{method}","seconds":{}}}],"witness":{witness},"looseness":null,"bounds":{bounds},"data":"noise","split":"test","method":"{method}","model":"0011223344556677","version":"0"}}"#,
                index % 10,
                20 + index % 70,
                40 + index % 150,
                seconds * 0.2,
                seconds * 0.8,
            );
        }
    }
    text
}

fn bounds(noise: &mut Noise) -> String {
    let output: Vec<f64> = (0..10).map(|_| 8.0 * noise.next() - 4.0).collect();
    let moved = |by: f64| output.iter().map(|x| x + by).collect::<Vec<_>>();
    format!(
        r#"{{"output":{output:?},"low":{:?},"high":{:?},"margins":{:?},"losses":{{"truth":0.5,"layers":[0.1,0.2],"steps":[[0,0.1],[0.25,0.05]],"rest":0.2}}}}"#,
        moved(-noise.next()),
        moved(noise.next()),
        moved(-2.0)
    )
}

fn pixels(noise: &mut Noise) -> Vec<f64> {
    (0..784).map(|_| (noise.next() * 1e4).round() / 1e4).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut noise = Noise(1);
    let (first, second) = (lines(&mut noise, "auto"), lines(&mut noise, "gains"));
    let images: Vec<Vec<f64>> = (0..SAMPLES).map(|_| pixels(&mut noise)).collect();
    let started = std::time::Instant::now();
    let mut report = Report::new(vec![read("auto.jsonl", &first, &|_| Ok(()))?]);
    if std::env::args().any(|word| word == "--compare") {
        report.documents.push(read("gains.jsonl", &second, &|_| Ok(()))?);
    }
    let input = |(index, values)| {
        let source = ("noise".into(), "test".into());
        Input::Image { source, index, height: 28, width: 28, channels: Channels::Grey, values }
    };
    report.inputs = images.into_iter().enumerate().map(input).collect();
    let page = render(&report);
    writeln!(std::io::stderr(), "{} bytes in {} ms", page.len(), started.elapsed().as_millis())?;
    std::io::stdout().write_all(page.as_bytes())?;
    Ok(())
}

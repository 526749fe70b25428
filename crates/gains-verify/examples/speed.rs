use gains_verify::limits::*;
use gains_verify::verifier::Settings;
use gains_verify::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let set = &a[1];
    let name = &a[2];
    let eps: f64 = a[3].parse().unwrap();
    let method = match a[4].as_str() {
        "box" => Method::Box,
        "linear" => Method::Linear,
        _ => Method::Gains,
    };
    let base = format!("/work/shared/reference/weights/{set}/{name}");
    let m = gains_core::import::import_checkpoint(
        &std::fs::read(format!("{base}.safetensors")).unwrap(),
        &std::fs::read_to_string(format!("{base}.json")).unwrap(),
    )
    .unwrap();
    let v = Verifier::new(gains_core::model_file::read_model(&m).unwrap());
    let images = gains_data::Images::load(
        if set == "mnist" { gains_data::Dataset::Mnist } else { gains_data::Dataset::FashionMnist },
        gains_data::Split::Test,
        std::path::Path::new("/work/data"),
    )
    .unwrap();
    let n: usize = a[5].parse().unwrap();
    for i in 0..n {
        let image = images.image(i);
        let t = std::time::Instant::now();
        let r = v.bounds(
            &image,
            images.label(i),
            eps,
            method,
            &Settings::default(),
            Clock::start(Budget::default()),
        );
        match r {
            Ok((b, an)) => println!(
                "{i} {:?} margin {:.5} {:.1} ms",
                an.graph_size(),
                b.margin(),
                t.elapsed().as_secs_f64() * 1e3
            ),
            Err(e) => println!("{i} {e} {:.1} ms", t.elapsed().as_secs_f64() * 1e3),
        }
    }
}

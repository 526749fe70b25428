//! Model files: what is written can be read back, what is damaged is refused with a reason, and layers
//! compute what their definitions say.

use gains_core::description::{ControlledSpec, ControllerSpec, LayerSpec, RungeKutta, SolverSpec};
use gains_core::import::import_checkpoint;
use gains_core::model_file::{Tensors, build, content_hash, read_model, read_tensors, write_model};
use gains_core::{Description, ModelError, Network, Precision, Program, Shape, Step};
use serde_json::{Value, json};

/// A tensor as it stands in a file: name, type, shape, bytes.
type Raw = (String, &'static str, Vec<usize>, Vec<u8>);

/// A safetensors file put together by hand, so that it may be wrong.
fn container(description: Option<&str>, tensors: &[Raw]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    if let Some(text) = description {
        header.insert("__metadata__".into(), json!({"gains": text}));
    }
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        header.insert(
            name.clone(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

fn singles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()
}

fn raw(tensors: &Tensors) -> Vec<Raw> {
    let as_raw = |(name, (shape, values)): (&String, &(Vec<usize>, Vec<f64>))| {
        (name.clone(), "F32", shape.clone(), singles(values))
    };
    tensors.iter().map(as_raw).collect()
}

/// An encoder, a neural ODE and a head on a 3×3 image.
fn small_description() -> Value {
    json!({
        "format": "gains-model", "version": 1, "name": "small",
        "task": {"type": "classification", "classes": ["cat", "dog"]},
        "input": {"height": 3, "width": 3, "channels": 1},
        "layers": [
            {"type": "normalize", "mean": [0.1307], "std": [0.3081]},
            {"type": "conv2d", "name": "enc", "in_channels": 1, "out_channels": 2, "kernel": [2, 2]},
            {"type": "leaky_relu", "slope": 0.01},
            {"type": "ode",
             "dynamics": [
                {"type": "conv2d", "name": "dyn", "in_channels": 2, "out_channels": 2, "kernel": [3, 3],
                 "padding": [1, 1], "time": true},
                {"type": "tanh"}],
             "solver": {"method": "dopri5", "end_time": 1.0, "controller": {
                "type": "controlled_adaptive", "factor": 2, "tolerance": 0.005, "initial_step": 0.19,
                "minimum_step": 0.02, "rejections_after_clipping": 1}}},
            {"type": "flatten"},
            {"type": "linear", "name": "head", "in_features": 8, "out_features": 2},
        ],
        "training": {"epochs": 3},
    })
}

fn random_values(count: usize, random: &mut fastrand::Rng) -> Vec<f64> {
    (0..count).map(|_| f64::from(2.0 * random.f32() - 1.0)).collect()
}

fn tensors_of(shapes: &[(&str, &[usize])], seed: u64) -> Tensors {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tensors = Tensors::new();
    for (name, shape) in shapes {
        let values = random_values(shape.iter().product(), &mut random);
        tensors.insert(format!("{name}.weight"), (shape.to_vec(), values));
        tensors.insert(format!("{name}.bias"), (vec![shape[0]], random_values(shape[0], &mut random)));
    }
    tensors
}

fn small_tensors() -> Tensors {
    tensors_of(&[("enc", &[2, 1, 2, 2]), ("dyn", &[2, 3, 3, 3]), ("head", &[2, 8])], 1)
}

fn small_file() -> Vec<u8> {
    container(Some(&small_description().to_string()), &raw(&small_tensors()))
}

fn parsed(description: Value) -> Description {
    serde_json::from_value(description).expect("a description")
}

/// Why a file with an edited description is refused.
fn refusal(edit: impl FnOnce(&mut Value)) -> ModelError {
    let mut description = small_description();
    edit(&mut description);
    let file = container(Some(&description.to_string()), &raw(&small_tensors()));
    read_model(&file).expect_err("the file is wrong")
}

/// Why a file with edited tensors is refused.
fn refusal_of_tensors(edit: impl FnOnce(&mut Vec<Raw>)) -> ModelError {
    let mut tensors = raw(&small_tensors());
    edit(&mut tensors);
    let file = container(Some(&small_description().to_string()), &tensors);
    read_model(&file).expect_err("the file is wrong")
}

/// Asserts a complaint about a layer whose label and problem contain the given words.
fn assert_layer(error: &ModelError, label: &str, word: &str) {
    let ModelError::Layer { layer, problem } = error else { panic!("{error:?}") };
    assert!(layer.contains(label) && problem.contains(word), "{error}");
}

fn assert_description(error: &ModelError, word: &str) {
    let ModelError::Description(problem) = error else { panic!("{error:?}") };
    assert!(problem.contains(word), "{error}");
}

mod round_trip {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let (description, tensors) = (parsed(small_description()), small_tensors());
        let bytes = write_model(&description, &tensors).unwrap();
        let network = read_model(&bytes).unwrap();
        assert_eq!(network.description, description);
        assert_eq!(read_tensors(&bytes).unwrap(), tensors, "float32 weights are kept bit by bit");
        assert_eq!(network.hash, content_hash(&bytes));
        assert_eq!(network.hash.len(), 16);
        assert_eq!(network.outputs(), 2);
        assert_eq!(network.parameters(), 10 + 56 + 18);
        assert_eq!(network.body.odes().count(), 1);
        assert_eq!(write_model(&description, &tensors).unwrap(), bytes, "the same bytes every time");
        let again = write_model(&network.description, &read_tensors(&bytes).unwrap()).unwrap();
        assert_eq!(content_hash(&again), network.hash);
    }

    #[test]
    fn the_hash_is_sha256() {
        assert_eq!(content_hash(b""), "e3b0c44298fc1c14");
        assert_eq!(content_hash(b"abc"), "ba7816bf8f01cfea");
    }

    #[test]
    fn defaults_need_not_be_written() {
        let description = parsed(small_description());
        let LayerSpec::Conv2d { stride, padding, dilation, time, .. } = &description.layers[1] else {
            panic!()
        };
        assert_eq!((*stride, *padding, *dilation, *time), ([1, 1], [0, 0], [1, 1], false));
        let text = serde_json::to_string(&description).unwrap();
        assert_eq!(serde_json::from_str::<Description>(&text).unwrap(), description);
    }

    /// Numbers in descriptions decide step sizes: they must come back exactly.
    #[test]
    fn every_number_of_a_description_survives() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..3000 {
            let mut description = parsed(small_description());
            let LayerSpec::Ode { solver, .. } = &mut description.layers[3] else { panic!() };
            let ControllerSpec::ControlledAdaptive(settings) = &mut solver.controller else { panic!() };
            settings.initial_step = 0.02 + random.f64();
            settings.tolerance = random.f64() * 1e-3 + f64::MIN_POSITIVE;
            let bytes = write_model(&description, &small_tensors()).unwrap();
            assert_eq!(read_model(&bytes).unwrap().description, description);
        }
    }

    #[test]
    fn extreme_float32_weights_survive() {
        let mut tensors = small_tensors();
        let extremes = [f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::from_bits(1), -0.0, 1.0 + f32::EPSILON];
        for (entry, extreme) in tensors.get_mut("head.weight").unwrap().1.iter_mut().zip(extremes) {
            *entry = f64::from(extreme);
        }
        let bytes = write_model(&parsed(small_description()), &tensors).unwrap();
        let back = read_tensors(&bytes).unwrap();
        for (a, b) in tensors["head.weight"].1.iter().zip(&back["head.weight"].1) {
            assert_eq!(a.to_bits(), b.to_bits());
        }
    }

    #[test]
    fn float64_tensors_are_read_as_they_are() {
        let mut tensors = raw(&small_tensors());
        let head = tensors.iter_mut().find(|t| t.0 == "head.bias").unwrap();
        head.1 = "F64";
        head.3 = [0.1_f64, 1e-300].iter().flat_map(|v| v.to_le_bytes()).collect();
        let file = container(Some(&small_description().to_string()), &tensors);
        read_model(&file).unwrap();
        assert_eq!(read_tensors(&file).unwrap()["head.bias"].1, [0.1, 1e-300]);
    }

    /// Writing promises that the result can be read.
    #[test]
    fn what_could_not_be_read_back_is_not_written() {
        let description = parsed(small_description());
        for value in [f64::NAN, f64::INFINITY, 1e39, -1e300] {
            let mut tensors = small_tensors();
            tensors.get_mut("head.weight").unwrap().1[3] = value;
            let outcome = write_model(&description, &tensors);
            assert!(
                matches!(&outcome, Err(ModelError::NotFinite { name, index: 3, .. }) if name == "head.weight"),
                "{value}: {outcome:?}"
            );
        }
        let mut tensors = small_tensors();
        tensors.remove("dyn.bias");
        let missing = write_model(&description, &tensors);
        assert!(matches!(missing, Err(ModelError::MissingTensor(name)) if name == "dyn.bias"));
        let mut tensors = small_tensors();
        tensors.get_mut("dyn.bias").unwrap().1.push(0.0);
        assert!(write_model(&description, &tensors).is_err(), "more numbers than the shape says");
        let newer = Description { version: 3, ..description.clone() };
        assert!(matches!(write_model(&newer, &small_tensors()), Err(ModelError::Version { found: 3 })));
    }
}

mod containers {
    use super::*;

    fn assert_container(bytes: &[u8]) {
        let outcome = read_model(bytes);
        assert!(matches!(outcome, Err(ModelError::Container(_))), "{outcome:?}");
        assert!(matches!(read_tensors(bytes), Err(ModelError::Container(_))));
    }

    #[test]
    fn what_is_no_container_is_refused() {
        assert_container(b"");
        let pickle = read_model(b"PK\x03\x04 a zip file of the other framework");
        assert!(matches!(pickle, Err(ModelError::Pickle)), "{pickle:?}");
        let mut random = fastrand::Rng::with_seed(2);
        for length in 0..400 {
            let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            assert_container(&bytes);
        }
    }

    #[test]
    fn absurd_header_lengths_are_refused() {
        for length in [u64::MAX, u64::MAX - 7, 1 << 62, 1 << 40, 100_000_001, 99_999_999, 0, 1] {
            let mut file = small_file();
            file[..8].copy_from_slice(&length.to_le_bytes());
            assert_container(&file);
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let file = small_file();
        for length in 0..file.len() {
            assert_container(&file[..length]);
        }
        read_model(&file).unwrap();
        let mut longer = file;
        longer.push(0);
        assert_container(&longer);
    }

    #[test]
    fn weights_without_a_description_are_refused() {
        let file = container(None, &raw(&small_tensors()));
        assert!(matches!(read_model(&file), Err(ModelError::NoDescription)));
        assert_eq!(read_tensors(&file).unwrap(), small_tensors());
    }

    /// Peak memory of this process in MiB, where the system tells.
    fn peak_memory() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
    }

    /// Any single byte of the header, many of the data: refused or read, never a panic, a hang or a huge
    /// allocation.
    #[test]
    fn corrupted_files_are_refused_or_read() {
        let file = small_file();
        let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let mut random = fastrand::Rng::with_seed(3);
        let (mut read, mut refused) = (0, 0);
        let mut attempt = |at: usize, byte: u8| {
            let mut corrupted = file.clone();
            corrupted[at] = byte;
            match read_model(&corrupted) {
                Ok(network) => {
                    read += 1;
                    for (_, node) in network.body.nodes() {
                        let from: Vec<Vec<f64>> =
                            node.from.iter().map(|&v| vec![0.5; network.body.shape(v).len()]).collect();
                        let arguments: Vec<&[f64]> = from.iter().map(Vec::as_slice).collect();
                        match &node.operator {
                            Step::Plain(operator) => {
                                operator.evaluate(&arguments, 0.0, Precision::Float32);
                            }
                            Step::Ode(ode) => {
                                ode.block.dynamics.evaluate(&arguments, 0.0, Precision::Float32);
                            }
                        }
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        };
        for at in 0..header {
            for byte in [b'9', b'0', b'-', b'e', random.u8(..), random.u8(..)] {
                attempt(at, byte);
            }
        }
        for _ in 0..1000 {
            attempt(random.usize(header..file.len()), random.u8(..));
        }
        assert!(read > 500 && refused > 3000, "{read} {refused}");
        if let Some(peak) = peak_memory() {
            assert!(peak < 512, "{peak} MiB");
        }
    }

    /// Digits inserted into the numbers of the description make them large rather than wrong.
    #[test]
    fn inflated_numbers_are_refused_or_read() {
        let text = small_description().to_string();
        let tensors = raw(&small_tensors());
        let digits: Vec<usize> =
            text.bytes().enumerate().filter(|(_, b)| b.is_ascii_digit()).map(|(at, _)| at).collect();
        for at in digits {
            for inserted in ["0", "00000", "0000000000", "999999999999999999"] {
                let mut inflated = text.clone();
                inflated.insert_str(at + 1, inserted);
                let _ = read_model(&container(Some(&inflated), &tensors));
            }
        }
        if let Some(peak) = peak_memory() {
            assert!(peak < 512, "{peak} MiB");
        }
    }
}

mod descriptions {
    use super::*;

    #[test]
    fn malformed_json_is_refused() {
        for text in ["", "{", "[1, 2]", "null", "\"gains\"", "{\"format\": \"gains-model\"}", "{} {}"] {
            let outcome = read_model(&container(Some(text), &raw(&small_tensors())));
            assert!(matches!(outcome, Err(ModelError::Description(_))), "{text}: {outcome:?}");
        }
        let deep = "[".repeat(100_000);
        let outcome = read_model(&container(Some(&deep), &raw(&small_tensors())));
        assert!(matches!(outcome, Err(ModelError::Description(_))));
    }

    #[test]
    fn every_required_field_is_missed() {
        for field in ["format", "version", "name", "task", "input", "layers"] {
            let error = refusal(|d| {
                d.as_object_mut().unwrap().remove(field);
            });
            assert_description(&error, field);
        }
    }

    #[test]
    fn unknown_fields_and_types_are_refused() {
        assert_description(&refusal(|d| d["colour"] = json!("red")), "colour");
        assert_description(&refusal(|d| d["input"]["depth"] = json!(1)), "depth");
        assert_description(&refusal(|d| d["task"]["weights"] = json!(1)), "weights");
        assert_description(&refusal(|d| d["task"]["type"] = json!("clustering")), "clustering");
        assert_description(&refusal(|d| d["layers"][1]["groups"] = json!(2)), "groups");
        assert_description(&refusal(|d| d["layers"][4]["start"] = json!(1)), "start");
        assert_description(&refusal(|d| d["layers"][2]["type"] = json!("mish")), "mish");
        assert_description(&refusal(|d| d["layers"][3]["solver"]["rtol"] = json!(1)), "rtol");
        assert_description(&refusal(|d| d["layers"][3]["solver"]["method"] = json!("rk5")), "rk5");
        assert_description(&refusal(|d| d["layers"][3]["solver"]["controller"]["h"] = json!(1)), "h");
        assert_description(&refusal(|d| d["layers"][3]["dynamics"][1]["x"] = json!(1)), "x");
    }

    #[test]
    fn other_formats_and_newer_versions_are_refused() {
        assert_description(&refusal(|d| d["format"] = json!("onnx")), "onnx");
        assert!(matches!(refusal(|d| d["version"] = json!(3)), ModelError::Version { found: 3 }));
        // A newer file may hold things this program cannot parse: the version comes first.
        let newer = refusal(|d| {
            d["version"] = json!(7);
            d["layers"] = json!("elsewhere");
        });
        assert!(matches!(newer, ModelError::Version { found: 7 }));
        let far = refusal(|d| d["version"] = json!(u64::MAX));
        assert!(matches!(far, ModelError::Version { found: u32::MAX }));
        for version in [json!(-1), json!(1.5), json!("1"), json!(null)] {
            assert!(matches!(refusal(|d| d["version"] = version), ModelError::Description(_)));
        }
    }

    #[test]
    fn the_number_of_classes_must_fit() {
        assert_description(&refusal(|d| d["task"]["classes"] = json!(["a", "b", "c"])), "3 classes");
        assert_description(&refusal(|d| d["task"]["classes"] = json!([])), "0 classes");
        let single = refusal(|d| {
            d["layers"] = json!([{"type": "global_avg_pool"}]);
            d["task"]["classes"] = json!(["only"]);
        });
        assert_description(&single, "two classes or more");
    }
}

mod tensors {
    use super::*;

    fn find<'a>(tensors: &'a mut [Raw], name: &str) -> &'a mut Raw {
        tensors.iter_mut().find(|tensor| tensor.0 == name).expect("a tensor of that name")
    }

    #[test]
    fn each_missing_tensor_is_named() {
        for name in small_tensors().into_keys() {
            let error = refusal_of_tensors(|tensors| tensors.retain(|tensor| tensor.0 != name));
            assert!(matches!(&error, ModelError::MissingTensor(missing) if *missing == name), "{error}");
        }
    }

    #[test]
    fn another_shape_is_refused() {
        // The same numbers, transposed.
        let error = refusal_of_tensors(|tensors| find(tensors, "head.weight").2 = vec![8, 2]);
        let ModelError::TensorShape { name, found, expected } = &error else { panic!("{error:?}") };
        assert_eq!((name.as_str(), &found[..], &expected[..]), ("head.weight", &[8, 2][..], &[2, 8][..]));
        let flat = refusal_of_tensors(|tensors| find(tensors, "enc.weight").2 = vec![8]);
        assert!(matches!(flat, ModelError::TensorShape { .. }));
        // Without its time channel.
        let timeless = refusal(|d| d["layers"][3]["dynamics"][0]["time"] = json!(false));
        assert!(matches!(timeless, ModelError::TensorShape { name, .. } if name == "dyn.weight"));
    }

    #[test]
    fn other_number_types_are_refused() {
        for (dtype, width) in [("I32", 4), ("U8", 1), ("I64", 8), ("F16", 2), ("BF16", 2), ("BOOL", 1)] {
            let error = refusal_of_tensors(|tensors| {
                let bias = find(tensors, "head.bias");
                bias.1 = dtype;
                bias.3 = vec![0; 2 * width];
            });
            let ModelError::TensorType { name, found } = &error else { panic!("{error:?}") };
            assert_eq!((name.as_str(), found.as_str()), ("head.bias", dtype));
        }
    }

    #[test]
    fn weights_that_are_no_numbers_are_located() {
        for (value, index) in [(f32::NAN, 0), (f32::INFINITY, 7), (f32::NEG_INFINITY, 53)] {
            let error = refusal_of_tensors(|tensors| {
                find(tensors, "dyn.weight").3[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes());
            });
            let ModelError::NotFinite { name, index: at, value: found } = &error else { panic!("{error:?}") };
            assert_eq!((name.as_str(), *at), ("dyn.weight", index));
            assert_eq!(found.is_nan(), value.is_nan());
            assert!(
                error.to_string().contains("dyn.weight") && error.to_string().contains(&index.to_string())
            );
        }
    }
}

mod layers {
    use super::*;

    #[test]
    fn layers_must_fit_each_other() {
        assert_layer(&refusal(|d| d["input"]["channels"] = json!(3)), "0 (normalize)", "per channel");
        assert_layer(&refusal(|d| d["layers"][1]["in_channels"] = json!(4)), "1 (conv2d)", "4 channels");
        assert_layer(&refusal(|d| d["layers"][5]["in_features"] = json!(9)), "5 (linear)", "9 features");
        let image = refusal(|d| {
            d["layers"].as_array_mut().unwrap().remove(4);
        });
        assert_layer(&image, "4 (linear)", "2x2x2");
        let inner = refusal(|d| d["layers"][3]["dynamics"][0]["in_channels"] = json!(1));
        assert_layer(&inner, "3 (ode) dynamics 0 (conv2d)", "1 channels");
    }

    #[test]
    fn kernels_must_fit_the_image() {
        assert_layer(&refusal(|d| d["input"]["height"] = json!(1)), "1 (conv2d)", "does not fit");
        assert_layer(&refusal(|d| d["layers"][1]["dilation"] = json!([3, 1])), "1 (conv2d)", "does not fit");
        let pool = json!({"type": "avg_pool2d", "kernel": [4, 4], "stride": [1, 1]});
        assert_layer(&refusal(|d| d["layers"][1] = pool), "1 (avg_pool2d)", "does not fit");
    }

    #[test]
    fn zeros_where_none_may_be_are_refused() {
        for field in ["stride", "dilation", "kernel"] {
            for value in [json!([0, 1]), json!([1, 0])] {
                assert_layer(&refusal(|d| d["layers"][1][field] = value), "1 (conv2d)", "positive");
            }
        }
        for pool in [
            json!({"type": "avg_pool2d", "kernel": [0, 2], "stride": [1, 1]}),
            json!({"type": "avg_pool2d", "kernel": [2, 2], "stride": [1, 0]}),
        ] {
            assert_layer(&refusal(|d| d["layers"][1] = pool), "1 (avg_pool2d)", "positive");
        }
        for side in ["height", "width", "channels"] {
            assert_layer(&refusal(|d| d["input"][side] = json!(0)), "input", "not a size");
        }
    }

    #[test]
    fn normalisation_must_be_possible() {
        for std in [0.0, -1.0, 1e-200] {
            assert_layer(&refusal(|d| d["layers"][0]["std"] = json!([std])), "0 (normalize)", "std");
        }
        assert_layer(&refusal(|d| d["layers"][0]["mean"] = json!([])), "0 (normalize)", "per channel");
        let quotient = refusal(|d| {
            d["layers"][0] = json!({"type": "normalize", "mean": [1e300], "std": [1e-90]});
        });
        assert_layer(&quotient, "0 (normalize)", "finite");
    }

    #[test]
    fn slopes_lie_between_zero_and_one() {
        for slope in [-0.1, 1.1, -1e-300, 1e300] {
            assert_layer(&refusal(|d| d["layers"][2]["slope"] = json!(slope)), "2 (leaky_relu)", "slope");
        }
        let mut description = parsed(small_description());
        description.layers[2] = LayerSpec::LeakyRelu { slope: f64::NAN };
        assert_layer(&build(description, &small_tensors(), String::new()).unwrap_err(), "2", "slope");
    }

    #[test]
    fn dynamics_keep_the_shape_and_hold_no_ode() {
        let nested = refusal(|d| {
            let ode = d["layers"][3].clone();
            d["layers"][3]["dynamics"] = json!([ode]);
        });
        assert_layer(&nested, "3 (ode) dynamics 0 (ode)", "ODE is not allowed here");
        let pooled = json!([{"type": "global_avg_pool"}]);
        assert_layer(&refusal(|d| d["layers"][3]["dynamics"] = pooled), "3 (ode)", "keep the shape");
        assert_layer(&refusal(|d| d["layers"][3]["dynamics"] = json!([])), "3 (ode)", "compute nothing");
    }

    /// Sizes that overflow or would fill the memory, wherever a description may state one.
    #[test]
    fn absurd_sizes_are_refused() {
        let huge = [1_000_000_u64, 1_000_000_000_000, 1_000_000_000_000_000_000, i64::MAX as u64, u64::MAX];
        for size in huge {
            refusal(|d| d["layers"][1]["out_channels"] = json!(size));
            refusal(|d| d["layers"][1]["in_channels"] = json!(size));
            refusal(|d| d["layers"][5]["out_features"] = json!(size));
            refusal(|d| d["layers"][5]["in_features"] = json!(size));
            for side in ["height", "width", "channels"] {
                refusal(|d| d["input"][side] = json!(size));
            }
            refusal(|d| d["input"] = json!({"height": size, "width": size, "channels": 1}));
            refusal(|d| d["input"] = json!({"height": size, "width": 1, "channels": size}));
            for field in ["kernel", "padding", "dilation"] {
                refusal(|d| d["layers"][1][field] = json!([size, size]));
                refusal(|d| d["layers"][1][field] = json!([1, size]));
            }
            for pool in [
                json!({"type": "avg_pool2d", "kernel": [size, size], "stride": [1, 1]}),
                json!({"type": "avg_pool2d", "kernel": [2, 2], "stride": [1, 1], "padding": [size, size]}),
                json!({"type": "avg_pool2d", "kernel": [size, 1], "stride": [1, 1], "padding": [size, 0]}),
                json!({"type": "avg_pool2d", "kernel": [size, size], "stride": [size, size],
                       "padding": [size / 2, size / 2]}),
            ] {
                refusal(|d| d["layers"][1] = pool);
            }
        }
    }

    /// A stride beyond the image is odd but harmless: one output per side.
    #[test]
    fn a_huge_stride_leaves_one_pixel() {
        let mut description = small_description();
        description["layers"] = json!([
            {"type": "conv2d", "name": "enc", "in_channels": 1, "out_channels": 2, "kernel": [2, 2],
             "stride": [u64::MAX, 1_000_000_000_000_u64]},
        ]);
        let network = build(parsed(description), &small_tensors(), String::new()).unwrap();
        assert_eq!(network.outputs(), 2);
    }

    /// A small file must not unfold into large tables: a wide kernel on a large image, or one pooling
    /// after the other.
    #[test]
    fn files_that_unfold_are_refused() {
        let large = json!({"height": 2000, "width": 2000, "channels": 1});
        let error = refusal(|d| {
            d["input"] = large.clone();
            d["layers"] = json!([{"type": "avg_pool2d", "kernel": [1000, 1000], "stride": [1, 1]}]);
        });
        assert_layer(&error, "0 (avg_pool2d)", "tables");
        let error = refusal(|d| {
            let pool = json!({"type": "avg_pool2d", "kernel": [1, 1], "stride": [1, 1]});
            d["input"] = large.clone();
            d["layers"] = Value::Array(vec![pool; 200]);
        });
        assert_layer(&error, "(avg_pool2d)", "tables");
        let mut description = small_description();
        description["input"] = large;
        description["layers"] = json!([{"type": "conv2d", "name": "wide", "in_channels": 1,
            "out_channels": 1, "kernel": [400, 400]}]);
        let tensors = tensors_of(&[("wide", &[1, 1, 400, 400])], 1);
        let error = build(parsed(description), &tensors, String::new()).unwrap_err();
        assert_layer(&error, "0 (conv2d)", "tables");
    }
}

mod solvers {
    use super::*;

    fn refused(solver: SolverSpec, word: &str) {
        let problem = solver.problem().unwrap_or_default();
        assert!(problem.contains(word), "{problem:?} should mention {word}: {solver:?}");
        let mut description = parsed(small_description());
        let LayerSpec::Ode { solver: place, .. } = &mut description.layers[3] else { panic!() };
        *place = solver;
        let error = build(description, &small_tensors(), String::new()).expect_err("a bad solver");
        assert_layer(&error, "3 (ode)", word);
    }

    fn good() -> ControlledSpec {
        ControlledSpec {
            factor: 2,
            tolerance: 0.005,
            initial_step: 0.19,
            minimum_step: 0.02,
            rejections_after_clipping: 1,
        }
    }

    fn controlled(settings: ControlledSpec) -> SolverSpec {
        let controller = ControllerSpec::ControlledAdaptive(settings);
        SolverSpec { method: RungeKutta::Dopri5, controller, end_time: 1.0 }
    }

    #[test]
    fn controlled_settings_are_checked() {
        assert_eq!(controlled(good()).problem(), None);
        for factor in [0, 1, 65, u32::MAX] {
            refused(controlled(ControlledSpec { factor, ..good() }), "factor");
        }
        for bad in [0.0, -0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            refused(controlled(ControlledSpec { tolerance: bad, ..good() }), "tolerance");
            refused(controlled(ControlledSpec { initial_step: bad, ..good() }), "initial_step");
            refused(controlled(ControlledSpec { minimum_step: bad, ..good() }), "minimum_step");
            refused(SolverSpec { end_time: bad, ..controlled(good()) }, "end_time");
        }
        refused(controlled(ControlledSpec { minimum_step: 1e-20, ..good() }), "smallest step");
        refused(controlled(ControlledSpec { initial_step: 1e-10, ..good() }), "smallest step");
        refused(SolverSpec { end_time: 1e300, ..controlled(good()) }, "smallest step");
        refused(controlled(ControlledSpec { rejections_after_clipping: 9, ..good() }), "rejections");
    }

    #[test]
    fn fixed_and_adaptive_settings_are_checked() {
        let with = |controller| SolverSpec { method: RungeKutta::Dopri5, controller, end_time: 1.0 };
        for steps in [0, 1_000_001, u32::MAX] {
            refused(with(ControllerSpec::Fixed { steps }), "steps");
        }
        let adaptive = |tolerance, initial_step, safety, shrink, grow| {
            with(ControllerSpec::Adaptive { tolerance, initial_step, safety, shrink, grow })
        };
        assert_eq!(adaptive(1e-3, 0.1, 0.9, 0.2, 10.0).problem(), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            refused(adaptive(bad, 0.1, 0.9, 0.2, 10.0), "tolerance");
            refused(adaptive(1e-3, bad, 0.9, 0.2, 10.0), "initial_step");
            refused(adaptive(1e-3, 0.1, bad, 0.2, 10.0), "safety");
            refused(adaptive(1e-3, 0.1, 0.9, bad, 10.0), "shrink");
            refused(adaptive(1e-3, 0.1, 0.9, 0.2, bad), "grow");
        }
        refused(adaptive(1e-3, 0.1, 0.9, 1.0, 10.0), "shrink");
        refused(adaptive(1e-3, 0.1, 0.9, 0.2, 0.5), "grow");
    }

    #[test]
    fn numbers_json_does_not_have_do_not_parse() {
        for text in ["NaN", "Infinity", "1e999", "null", "\"0.005\""] {
            let description = small_description().to_string().replace("0.005", text);
            let file = container(Some(&description), &raw(&small_tensors()));
            assert!(matches!(read_model(&file), Err(ModelError::Description(_))), "{text}");
        }
    }
}

/// Layers against their definitions, written as plain loops over (row, column, channel).
mod definitions {
    use super::*;

    /// A network of the given layers without a name for its outputs beyond their number.
    fn network(input: Shape, outputs: usize, layers: Value, tensors: &Tensors) -> Network {
        let classes: Vec<String> = (0..outputs).map(|i| i.to_string()).collect();
        let mut description = small_description();
        description["input"] =
            json!({"height": input.height, "width": input.width, "channels": input.channels});
        description["layers"] = layers;
        description["task"]["classes"] = json!(classes);
        build(parsed(description), tensors, String::new()).expect("a network")
    }

    fn evaluate(network: &Network, x: &[f64], time: f64) -> Vec<f64> {
        let body = &network.body;
        let circuit = body.front(body.output()).expect("no ODE here");
        circuit.evaluate(&[x], time, Precision::Float64).values.swap_remove(circuit.output())
    }

    fn assert_same(ours: &[f64], naive: &[f64], what: &str) {
        assert_eq!(ours.len(), naive.len(), "{what}");
        for (a, b) in ours.iter().zip(naive) {
            assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{what}: {a} against {b}");
        }
    }

    struct Geometry {
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
    }

    impl Geometry {
        fn random(random: &mut fastrand::Rng) -> Self {
            let mut pair = |low: usize, high: usize| [random.usize(low..=high), random.usize(low..=high)];
            Self { kernel: pair(1, 4), stride: pair(1, 3), padding: pair(0, 3), dilation: pair(1, 3) }
        }

        /// Output side, if at least one kernel position fits.
        fn side(&self, axis: usize, size: usize) -> Option<usize> {
            let padded = size + 2 * self.padding[axis];
            let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
            let starts = (0..padded).step_by(self.stride[axis]);
            Some(starts.filter(|start| start + reach <= padded).count()).filter(|count| *count > 0)
        }

        /// Where tap `k` of output `o` lies on the image, unless in the padding.
        fn source(&self, axis: usize, o: usize, k: usize, size: usize) -> Option<usize> {
            let padded = o * self.stride[axis] + k * self.dilation[axis];
            padded.checked_sub(self.padding[axis]).filter(|at| *at < size)
        }
    }

    #[test]
    fn convolutions() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut tested = 0;
        while tested < 300 {
            let g = Geometry::random(&mut random);
            let input = Shape::image(random.usize(1..=7), random.usize(1..=7), random.usize(1..=4));
            let (Some(height), Some(width)) = (g.side(0, input.height), g.side(1, input.width)) else {
                continue;
            };
            let (outputs, time) = (random.usize(2..=19), random.bool());
            let channels = input.channels + usize::from(time);
            let [kh, kw] = g.kernel;
            let tensors = tensors_of(&[("c", &[outputs, channels, kh, kw])], random.u64(..));
            let layers = json!([{"type": "conv2d", "name": "c", "in_channels": input.channels,
                "out_channels": outputs, "kernel": g.kernel, "stride": g.stride, "padding": g.padding,
                "dilation": g.dilation, "time": time}]);
            let network = network(input, height * width * outputs, layers, &tensors);
            let x = random_values(input.len(), &mut random);
            let t = random.f64();
            let (weights, bias) = (&tensors["c.weight"].1, &tensors["c.bias"].1);
            let mut naive = Vec::new();
            for y in 0..height {
                for column in 0..width {
                    for co in 0..outputs {
                        let mut sum = bias[co];
                        for ci in 0..channels {
                            for ky in 0..kh {
                                for kx in 0..kw {
                                    let at = g.source(0, y, ky, input.height).zip(g.source(
                                        1,
                                        column,
                                        kx,
                                        input.width,
                                    ));
                                    let Some((row, col)) = at else { continue };
                                    let value = match (time, ci) {
                                        (true, 0) => t,
                                        _ => {
                                            let channel = ci - usize::from(time);
                                            x[(row * input.width + col) * input.channels + channel]
                                        }
                                    };
                                    sum += weights[((co * channels + ci) * kh + ky) * kw + kx] * value;
                                }
                            }
                        }
                        naive.push(sum);
                    }
                }
            }
            assert_same(&evaluate(&network, &x, t), &naive, &format!("{:?}", network.description.layers));
            tested += 1;
        }
    }

    #[test]
    fn average_pooling() {
        let mut random = fastrand::Rng::with_seed(6);
        let mut tested = 0;
        while tested < 200 {
            let g = Geometry { dilation: [1, 1], ..Geometry::random(&mut random) };
            let input = Shape::image(random.usize(1..=7), random.usize(1..=7), random.usize(2..=3));
            let (Some(height), Some(width)) = (g.side(0, input.height), g.side(1, input.width)) else {
                continue;
            };
            let layers = json!([{"type": "avg_pool2d", "kernel": g.kernel, "stride": g.stride,
                "padding": g.padding}]);
            let network = network(input, height * width * input.channels, layers, &Tensors::new());
            let x = random_values(input.len(), &mut random);
            let mut naive = Vec::new();
            for (y, column) in (0..height).flat_map(|y| (0..width).map(move |column| (y, column))) {
                for channel in 0..input.channels {
                    let mut sum = 0.0;
                    for (ky, kx) in (0..g.kernel[0]).flat_map(|ky| (0..g.kernel[1]).map(move |kx| (ky, kx))) {
                        let at = g.source(0, y, ky, input.height).zip(g.source(1, column, kx, input.width));
                        if let Some((row, col)) = at {
                            sum += x[(row * input.width + col) * input.channels + channel];
                        }
                    }
                    naive.push(sum / (g.kernel[0] * g.kernel[1]) as f64);
                }
            }
            assert_same(&evaluate(&network, &x, 0.0), &naive, "pool");
            tested += 1;
        }
    }

    #[test]
    fn normalisation_flattening_linear_layers_and_the_global_mean() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50 {
            let input = Shape::image(random.usize(1..=5), random.usize(1..=5), random.usize(2..=4));
            let x = random_values(input.len(), &mut random);
            let mean = random_values(input.channels, &mut random);
            let std: Vec<f64> = (0..input.channels).map(|_| 0.1 + random.f64()).collect();
            let tensors = tensors_of(&[("l", &[3, input.len() + 1])], random.u64(..));
            let layers = json!([
                {"type": "normalize", "mean": mean, "std": std},
                {"type": "flatten"},
                {"type": "linear", "name": "l", "in_features": input.len(), "out_features": 3, "time": true},
            ]);
            let network_flat = network(input, 3, layers, &tensors);
            let (weights, bias) = (&tensors["l.weight"].1, &tensors["l.bias"].1);
            // Weights are stored for (channel, row, column), time first.
            let naive: Vec<f64> = (0..3)
                .map(|o| {
                    let row = &weights[o * (input.len() + 1)..];
                    let mut sum = bias[o] + 0.7 * row[0];
                    for c in 0..input.channels {
                        for pixel in 0..input.positions() {
                            let value = (x[pixel * input.channels + c] - mean[c]) / std[c];
                            sum += row[1 + c * input.positions() + pixel] * value;
                        }
                    }
                    sum
                })
                .collect();
            assert_same(&evaluate(&network_flat, &x, 0.7), &naive, "linear");

            let pooled = network(input, input.channels, json!([{"type": "global_avg_pool"}]), &tensors);
            let naive: Vec<f64> = (0..input.channels)
                .map(|c| {
                    let values = x.iter().skip(c).step_by(input.channels);
                    values.sum::<f64>() / input.positions() as f64
                })
                .collect();
            assert_same(&evaluate(&pooled, &x, 0.0), &naive, "global mean");
        }
    }

    #[test]
    fn activations() {
        let layers = json!([
            {"type": "relu"}, {"type": "leaky_relu", "slope": 0.2}, {"type": "sigmoid"}, {"type": "tanh"},
        ]);
        for (index, layer) in layers.as_array().unwrap().iter().enumerate() {
            let network = network(Shape::flat(5), 5, json!([layer]), &Tensors::new());
            let x = [-2.5, -0.1, 0.0, 0.3, 4.0];
            let naive = x.map(|x: f64| match index {
                0 => (x + x.abs()) / 2.0,
                1 => 0.6 * x + 0.4 * x.abs(),
                2 => 0.5 + 0.5 * (0.5 * x).tanh(),
                _ => (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),
            });
            assert_same(&evaluate(&network, &x, 0.0), &naive, "activation");
        }
    }
}

mod import {
    use super::*;

    /// The tensor names of the published checkpoints, with few channels.
    fn checkpoint(colours: usize, classes: usize) -> Tensors {
        tensors_of(
            &[
                ("encoder.conv1", &[4, colours, 5, 5]),
                ("encoder.conv2", &[3, 4, 5, 5]),
                ("ode.conv1", &[3, 4, 3, 3]),
                ("ode.conv2", &[3, 4, 3, 3]),
                ("classifier.linear", &[classes, 3]),
            ],
            9,
        )
    }

    fn sidecar() -> Value {
        json!({"h0": 0.1875, "dataset": "FMNIST", "norm_mean": 0.1307, "norm_std": 0.3081, "seed": 100,
               "tensors": {"encoder.conv1.weight": [4, 1, 5, 5]}})
    }

    fn imported(tensors: &Tensors, sidecar: &Value) -> Result<Network, ModelError> {
        import_checkpoint(&container(None, &raw(tensors)), &sidecar.to_string())
            .map(|bytes| read_model(&bytes).expect("an imported file can be read"))
    }

    #[test]
    fn a_checkpoint_becomes_a_model() {
        let tensors = checkpoint(1, 10);
        let bytes = import_checkpoint(&container(None, &raw(&tensors)), &sidecar().to_string()).unwrap();
        assert_eq!(read_tensors(&bytes).unwrap(), tensors);
        let description = read_model(&bytes).unwrap().description;
        assert_eq!(description.input, Shape::image(28, 28, 1));
        assert_eq!(description.dataset.as_deref(), Some("fashion-mnist"));
        assert_eq!(description.name, "imported");
        assert_eq!(description.training["seed"], 100);
        assert!(description.training.get("tensors").is_none());
        let expected = json!([
            {"type": "normalize", "mean": [f64::from(0.1307_f32)], "std": [f64::from(0.3081_f32)]},
            {"type": "conv2d", "name": "encoder.conv1", "in_channels": 1, "out_channels": 4,
             "kernel": [5, 5], "stride": [2, 2]},
            {"type": "relu"},
            {"type": "conv2d", "name": "encoder.conv2", "in_channels": 4, "out_channels": 3,
             "kernel": [5, 5], "stride": [2, 2]},
            {"type": "relu"},
            {"type": "ode",
             "dynamics": [
                {"type": "conv2d", "name": "ode.conv1", "in_channels": 3, "out_channels": 3,
                 "kernel": [3, 3], "padding": [1, 1], "time": true},
                {"type": "relu"},
                {"type": "conv2d", "name": "ode.conv2", "in_channels": 3, "out_channels": 3,
                 "kernel": [3, 3], "padding": [1, 1], "time": true},
                {"type": "relu"}],
             "solver": {"method": "dopri5", "end_time": 1.0, "controller": {
                "type": "controlled_adaptive", "factor": 2, "tolerance": 0.005, "initial_step": 0.1875,
                "minimum_step": 0.02, "rejections_after_clipping": 1}}},
            {"type": "global_avg_pool"},
            {"type": "flatten"},
            {"type": "linear", "name": "classifier.linear", "in_features": 3, "out_features": 10},
        ]);
        let expected: Vec<LayerSpec> = serde_json::from_value(expected).unwrap();
        assert_eq!(description.layers, expected);
        let classes = serde_json::to_value(&description.task).unwrap();
        assert_eq!(
            (&classes["classes"][0], &classes["classes"][9]),
            (&json!("T-shirt/top"), &json!("Ankle boot"))
        );
    }

    #[test]
    fn colours_other_data_sets_and_long_first_steps() {
        let mut side = sidecar();
        side["dataset"] = json!("CIFAR10");
        side["name"] = json!("mine");
        side["h0"] = json!(3.5);
        let description = imported(&checkpoint(3, 2), &side).unwrap().description;
        assert_eq!(description.input, Shape::image(32, 32, 3));
        assert_eq!(description.dataset.as_deref(), Some("cifar10"));
        assert_eq!(description.name, "mine");
        let classes = serde_json::to_value(&description.task).unwrap();
        assert_eq!(classes["classes"], json!(["0", "1"]));
        let LayerSpec::Normalize { mean, std } = &description.layers[0] else { panic!() };
        assert_eq!((mean.len(), std.len()), (3, 3));
        let ode = serde_json::to_value(&description.layers[5]).unwrap();
        assert_eq!(ode["solver"]["controller"]["initial_step"], 1.0, "no longer than the end time");
    }

    #[test]
    fn missing_and_misshapen_tensors_are_named() {
        for name in checkpoint(1, 10).into_keys() {
            let mut tensors = checkpoint(1, 10);
            tensors.remove(&name);
            let outcome = imported(&tensors, &sidecar());
            assert!(matches!(&outcome, Err(ModelError::MissingTensor(m)) if *m == name), "{outcome:?}");
            let mut tensors = checkpoint(1, 10);
            let (_, values) = tensors.remove(&name).unwrap();
            tensors.insert(name.clone(), (vec![values.len(), 1, 1], values));
            let outcome = imported(&tensors, &sidecar());
            assert!(
                matches!(&outcome, Err(ModelError::TensorShape { name: n, .. }) if *n == name),
                "{outcome:?}"
            );
        }
        let mut tensors = checkpoint(1, 10);
        tensors.insert("encoder.conv1.weight".into(), (vec![0, 1, 5, 5], Vec::new()));
        assert!(matches!(imported(&tensors, &sidecar()), Err(ModelError::TensorShape { .. })));
    }

    #[test]
    fn a_bad_sidecar_is_refused() {
        let weights = container(None, &raw(&checkpoint(1, 10)));
        for text in ["", "{", "[]", "3", "{}"] {
            let outcome = import_checkpoint(&weights, text);
            assert!(
                matches!(&outcome, Err(ModelError::Description(problem)) if problem.starts_with("sidecar")),
                "{text}: {outcome:?}"
            );
        }
        for field in ["h0", "dataset", "norm_mean", "norm_std"] {
            let mut side = sidecar();
            side.as_object_mut().unwrap().remove(field);
            let error = import_checkpoint(&weights, &side.to_string()).unwrap_err();
            assert_description(&error, field);
            side[field] = json!([]);
            let error = import_checkpoint(&weights, &side.to_string()).unwrap_err();
            assert_description(&error, "sidecar");
        }
        for (field, value) in
            [("h0", 0.0), ("h0", -1.0), ("norm_std", 0.0), ("norm_std", 1e-60), ("norm_mean", 1e300)]
        {
            let mut side = sidecar();
            side[field] = json!(value);
            let outcome = import_checkpoint(&weights, &side.to_string());
            assert!(matches!(outcome, Err(ModelError::Layer { .. })), "{field} {value}: {outcome:?}");
        }
        assert!(matches!(import_checkpoint(b"zip", "{}"), Err(ModelError::Container(_))));
    }
}

mod forecasting {
    use gains_core::LatentOde;
    use gains_core::description::{Points, Task};
    use gains_core::latent_ode::tensor_shapes;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|i| i.to_string()).collect()
    }

    fn latent_ode() -> (Description, Tensors) {
        let sizes =
            LatentOde { state: 3, dynamics: (4, 1), gates: 5, transform: 6, latent: 2, decoder: (4, 1) };
        let solver = SolverSpec {
            method: RungeKutta::Rk4,
            controller: ControllerSpec::Fixed { steps: 2 },
            end_time: 1.0,
        };
        let description = sizes.description(names(4), names(2), Points::Observed, solver);
        let shapes = tensor_shapes(&description);
        let tensors = shapes.into_iter().map(|(name, shape)| {
            let count = shape.iter().product::<usize>();
            (name, (shape, (0..count).map(|i| f64::from(i as f32 * 0.125 - 0.5)).collect()))
        });
        (description, tensors.collect())
    }

    fn refused(edit: impl FnOnce(&mut Value)) -> ModelError {
        let (description, tensors) = latent_ode();
        let mut value = serde_json::to_value(description).expect("a description");
        edit(&mut value);
        match serde_json::from_value::<Description>(value) {
            Ok(description) => build(description, &tensors, String::new()).expect_err("the network is wrong"),
            Err(error) => ModelError::Description(error.to_string()),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (description, tensors) = latent_ode();
        let network = read_model(&write_model(&description, &tensors).expect("written")).expect("read");
        assert_eq!(network.description, description);
        let encoder = network.encoder.as_ref().expect("an encoder");
        assert_eq!((encoder.width(), encoder.features(), encoder.statics()), (3, 4, 2));
        assert_eq!((encoder.latent_width(), network.outputs()), (2, 4));
        let counted: usize = tensors.values().map(|(_, values)| values.len()).sum();
        assert_eq!(network.parameters(), counted);
        // The paper's sizes, for the features of PhysioNet.
        let (Description { layers, .. }, _) = latent_ode();
        let LayerSpec::Ode { solver, .. } = &layers[0] else { panic!("an ODE comes first") };
        let paper = LatentOde::default().description(names(35), names(6), Points::All, solver.clone());
        let size = |(_, shape): (String, Vec<usize>)| shape.iter().product::<usize>();
        assert_eq!(tensor_shapes(&paper).into_iter().map(size).sum::<usize>(), 50_495);
    }

    #[test]
    fn every_misfit_is_named() {
        assert_description(&refused(|v| v["encoder"] = Value::Null), "needs an encoder");
        assert_description(
            &refused(|v| v["task"] = json!({"type": "classification", "classes": names(4)})),
            "has an encoder",
        );
        assert_layer(
            &refused(|v| v["task"]["features"] = json!(names(4)[..3])),
            "encoder update 0",
            "gets 9",
        );
        assert_description(&refused(|v| v["layers"] = json!([v["layers"][0]])), "outputs");
        assert_description(&refused(|v| v["layers"] = json!([v["layers"][1]])), "0 ODEs");
        assert_description(&refused(|v| v["encoder"]["speed"] = json!(1)), "speed");
        let ode = |v: &Value| v["layers"][0].clone();
        assert_layer(&refused(|v| v["encoder"]["latent"] = json!([ode(v)])), "encoder latent 0", "ODE");
        assert_layer(
            &refused(|v| v["encoder"]["update"].as_array_mut().map_or((), |l| drop(l.pop()))),
            "encoder update",
            "sigmoid",
        );
        assert_layer(&refused(|v| v["encoder"]["dynamics"] = json!([])), "encoder dynamics", "no layers");
        assert_layer(&refused(|v| v["encoder"]["lead"] = json!(-1.0)), "encoder lead", "negative");
        assert_layer(&refused(|v| v["encoder"]["reset"][0]["time"] = json!(true)), "encoder reset", "time");
        assert_layer(
            &refused(|v| v["encoder"]["candidate"] = v["encoder"]["update"].clone()),
            "encoder candidate",
            "needs 6",
        );
        assert_layer(&refused(|v| v["task"]["statics"] = json!(names(3))), "encoder initial 0", "expects 2");
        let image = |v: &mut Value| {
            let pool = json!({"type": "avg_pool2d", "kernel": [1, 1], "stride": [1, 1], "padding": [1, 0]});
            v["encoder"]["initial"].as_array_mut().expect("layers").push(pool);
        };
        assert_layer(&refused(image), "encoder initial", "needs a vector");
        assert_layer(&refused(|v| v["task"]["statics"] = json!([])), "encoder statics", "size");
        assert_layer(&refused(|v| v["input"]["channels"] = json!(3)), "encoder latent", "needs 6");
        let (description, mut tensors) = latent_ode();
        tensors.remove("encoder.reset.1.bias");
        let error = build(description, &tensors, String::new()).expect_err("a tensor is missing");
        assert!(
            matches!(&error, ModelError::MissingTensor(name) if name == "encoder.reset.1.bias"),
            "{error}"
        );
    }

    #[test]
    fn decoders_are_set_to_a_time() {
        let (description, tensors) = latent_ode();
        let network = build(description, &tensors, String::new()).expect("a network");
        let end = |body: Program| body.odes().next().map(|(_, ode)| ode.solver().end_time);
        assert_eq!(end(network.body.read_off_at(0.75)), Some(0.75));
        assert_eq!(end(network.body.read_off_at(0.0)), None);
    }

    /// The published names, with sizes of our own.
    #[test]
    fn published_checkpoints_are_imported() {
        let (state, features, statics, latent, hidden) = (3, 4, 2, 2, 5);
        let layers = |prefix: &str, sizes: &[usize]| {
            let pairs = sizes.windows(2).enumerate();
            pairs.map(|(i, pair)| (format!("{prefix}.{}", 2 * i), [pair[1], pair[0]])).collect::<Vec<_>>()
        };
        let gru = "encoder_z0.GRU_update";
        let seen = 2 * state + features;
        let all = [
            layers("encoder_z0.hidden_init", &[statics, 2 * state]),
            layers("ode_func_rec.layers", &[state, hidden, hidden, hidden, state]),
            layers(&format!("{gru}.update_gate"), &[seen, hidden, state]),
            layers(&format!("{gru}.reset_gate"), &[seen, hidden, state]),
            layers(&format!("{gru}.new_state_net"), &[seen, hidden, 2 * state]),
            layers("encoder_z0.transform_z0", &[2 * state, hidden, 2 * latent]),
            layers("ode_func_gen.layers", &[latent, hidden, hidden, hidden, latent]),
            layers("decoder", &[latent, features]),
            layers("classifier", &[latent, hidden, 1]),
        ]
        .concat();
        let named: Vec<(&str, &[usize])> =
            all.iter().map(|(name, shape)| (name.as_str(), &shape[..])).collect();
        let tensors = tensors_of(&named, 3);
        let sidecar = json!({"dataset": "physionet", "h0": 0.25, "epoch": 7}).to_string();
        let file = import_checkpoint(&container(None, &raw(&tensors)), &sidecar).expect("imported");
        let network = read_model(&file).expect("read");
        let encoder = network.encoder.as_ref().expect("an encoder");
        assert_eq!((encoder.width(), encoder.features(), encoder.points), (state, features, Points::All));
        assert_eq!(network.description.training["epoch"], 7);
        assert!(matches!(&network.description.task, Task::Forecasting { statics, .. } if statics.len() == 2));
        let kept = read_tensors(&file).expect("tensors");
        assert!(kept.keys().all(|name| !name.starts_with("classifier")), "what nothing uses is left out");
        let mut fewer = tensors.clone();
        fewer.remove("decoder.0.bias");
        let error =
            import_checkpoint(&container(None, &raw(&fewer)), &sidecar).expect_err("a tensor is missing");
        assert!(matches!(error, ModelError::MissingTensor(_)), "{error}");
    }
}

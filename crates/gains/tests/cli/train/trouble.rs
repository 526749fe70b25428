//! Runs that are killed, interrupted, damaged, in each other's way, or run into a full disk.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::scene::{ALL, Scene, names, signal};
use crate::support::{fails, stderr, stdout};

#[test]
fn a_folder_with_a_run_is_not_overwritten() {
    let scene = Scene::new();
    scene.trained("--config tiny.toml --out run");
    let before = scene.read("run/model.safetensors");
    let said = scene.refused("--config tiny.toml --out run --seed 8", 2, "holds a finished run");
    assert!(said.contains("--resume run") && said.contains("--force"), "{said}");
    assert!(scene.read("run/model.safetensors") == before);
    let output = scene.train("--resume run");
    assert!(output.status.success() && stdout(&output).contains("finished"), "{}", stderr(&output));
    std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
    scene.refused("--config tiny.toml --out run --seed 8", 2, "holds an unfinished run");
    scene.trained("--config tiny.toml --out run --seed 8 --force");
    assert!(scene.read("run/model.safetensors") != before);
    scene.refused("--resume data", 2, "holds no run");
    scene.refused("--resume run --set batch=8", 2, "batch cannot change");
    fails(&["train", "--resume", "run", "--out", "x"], 2, "cannot be used with");
    std::fs::write(scene.path("file"), "").unwrap();
    scene.refused("--config tiny.toml --out file", 1, "cannot create the folder");
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before() {
    let scene = Scene::new();
    scene.trained("--config tiny.toml --out run");
    let (model, newest) = (scene.read("run/model.safetensors"), scene.read("run/checkpoint.safetensors"));
    let lose = |length: usize| {
        std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
        std::fs::write(scene.path("run/checkpoint.safetensors"), &newest[..length]).unwrap();
    };
    for length in [0, 7, 100, newest.len() - 1] {
        lose(length);
        let said = scene.trained("--resume run");
        assert!(said.contains("warning: checkpoint.safetensors is damaged"), "{said}");
        assert!(said.contains("checkpoint.previous.safetensors"), "{said}");
        assert!(scene.read("run/model.safetensors") == model, "{length}");
        assert_eq!(scene.epochs("run"), 4);
    }
    // Nothing left to train, only the network to write.
    lose(newest.len());
    let said = scene.trained("--resume run");
    assert!(!said.contains("warning") && !said.contains("main"), "{said}");
    assert!(scene.read("run/model.safetensors") == model);
    lose(50);
    std::fs::write(scene.path("run/checkpoint.previous.safetensors"), "").unwrap();
    let said = scene.refused("--resume run", 1, "checkpoint.previous.safetensors is damaged");
    assert!(said.contains("--force"), "{said}");
    // Killed before the first checkpoint: everything is still to be done.
    std::fs::remove_file(scene.path("run/checkpoint.previous.safetensors")).unwrap();
    std::fs::remove_file(scene.path("run/checkpoint.safetensors")).unwrap();
    scene.trained("--resume run");
    assert!(scene.read("run/model.safetensors") == model);
    // The damaged one was kept aside, and goes with the run.
    assert!(scene.path("run/checkpoint.damaged.safetensors").exists());
    scene.trained("--config tiny.toml --out run --force");
    assert_eq!(names(&scene.path("run")), ALL);
}

#[cfg(unix)]
#[test]
fn a_run_that_is_killed_again_and_again_ends_the_same() {
    let scene = Scene::new();
    let mut random = fastrand::Rng::new();
    let mut child = scene.running("run", 1);
    for round in 0..6 {
        std::thread::sleep(Duration::from_millis(random.u64(0..150)));
        signal(&child, "-KILL");
        child.wait().unwrap();
        if round < 5 {
            child = scene.command("--resume run").stderr(Stdio::null()).spawn().unwrap();
        }
    }
    scene.ends_like_a_smooth_run("run");
    assert_eq!(names(&scene.path("run")), ALL, "nothing half-written stays");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_saves_itself_and_goes_on() {
    let scene = Scene::new();
    let child = scene.running("run", 3);
    let said = scene.refused("--resume run", 1, "another process");
    assert!(said.contains("Ctrl-C"), "{said}");
    let before = scene.checkpoint_of_running("run");
    // Two more, so that what is saved in the end is of a later one, whichever of row and checkpoint comes first.
    scene.wait_for("run", scene.epochs("run") + 2);
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("gains train --resume run"), "{text}");
    assert!(!text.contains("error:"), "{text}");
    assert!(scene.read("run/checkpoint.safetensors") != before);
    assert!(!scene.path("run/model.safetensors").exists());
    scene.ends_like_a_smooth_run("run");
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_last_checkpoint() {
    let scene = Scene::new();
    scene.trained("--config tiny.toml --out run");
    std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
    scene.trained("--resume run --set phases[1].epochs=3");
    std::fs::remove_file(scene.path("run/model.safetensors")).unwrap();
    let config = String::from_utf8(scene.read("run/config.toml")).unwrap();
    std::fs::write(scene.path("run/config.toml"), config.replace("epochs = 3", "epochs = 4")).unwrap();
    let before = scene.read("run/checkpoint.safetensors");
    // Files end at 2 or 4 kB, as the shell counts; the signal that would come with that is switched off.
    let script = format!(
        "trap '' XFSZ; ulimit -f 4; exec {} train --resume run --data-dir data --threads 1",
        env!("CARGO_BIN_EXE_gains")
    );
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &script]).current_dir(scene.folder.path()).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("error: cannot write 'run/checkpoint.safetensors'"), "{text}");
    assert!(text.contains("intact") && text.contains("gains train --resume run"), "{text}");
    assert!(scene.read("run/checkpoint.safetensors") == before);
    scene.ends_like_a_smooth_run("run");
}

#[test]
fn a_run_that_diverges_says_where_and_what_to_do() {
    let scene = Scene::new();
    let flags = "--config tiny.toml --out run --set phases[1].epochs=400 --set optimiser.rate=10 --set optimiser.beta2=0.0";
    let said = scene.refused(flags, 1, "diverged");
    assert!(said.contains("epoch") && said.contains("batch"), "{said}");
    assert!(said.contains("warning: the loss is out of hand"), "{said}");
    // The only checkpoint is spoiled: going on from it would diverge again, whatever the rate.
    assert!(said.contains("there is no good one to go back to"), "{said}");
    let anew =
        "gains train --config run/config.toml --out run --force --data-dir data --set optimiser.rate=2.5";
    assert!(said.contains(anew), "{said}");
    assert!(!scene.path("run/model.safetensors").exists());
}

/// A library that stands in for NVIDIA's driver: `cuInit` returns the given code, and it speaks the given version of CUDA.
/// It has nothing of what comes after that.
#[cfg(target_os = "linux")]
fn stand_in_driver(scene: &Scene, init: i32, version: i32) -> std::path::PathBuf {
    let folder = scene.path(&format!("driver-{init}-{version}"));
    std::fs::create_dir(&folder).unwrap();
    let source = format!(
        "#[unsafe(no_mangle)] pub extern \"C\" fn cuInit(_: u32) -> i32 {{ {init} }}
         #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuDriverGetVersion(v: *mut i32) -> i32 {{
             unsafe {{ *v = {version}; }}
             0
         }}"
    );
    std::fs::write(folder.join("driver.rs"), source).unwrap();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-o", "libcuda.so", "driver.rs"]);
    assert!(command.current_dir(&folder).status().unwrap().success());
    std::fs::copy(folder.join("libcuda.so"), folder.join("libcuda.so.1")).unwrap();
    folder
}

#[cfg(target_os = "linux")]
#[test]
fn a_driver_that_is_too_old_or_broken_is_an_error_with_a_hint() {
    let scene = Scene::new();
    let no_device = 100;
    let too_old = "the CUDA driver is too old";
    for (init, version, said) in [
        (0, 10_020, "the CUDA driver is too old: it speaks CUDA 10.2"),
        // Whether NVRTC is there depends on the machine.
        (0, 12_080, "CUDA"),
        // The stand-in cannot even name its error.
        (no_device, 12_080, too_old),
    ] {
        let folder = stand_in_driver(&scene, init, version);
        let mut command = scene.command("--config tiny.toml --out run --device cuda");
        let output = command.env("LD_LIBRARY_PATH", &folder).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error:") && text.contains(said) && text.contains("\nhint:"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!scene.path("run").exists());
    }
}

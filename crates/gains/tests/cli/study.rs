//! `gains study`: the list, a small study from beginning to end, going on, and what it refuses.

use crate::support::{MODEL, fails, gains, ok, stderr, stdout, text};
use crate::train::scene::Scene;

#[test]
fn studies_are_listed_and_unknown_ones_are_refused() {
    let list = ok(&["study", "--list"]);
    let names = [
        "classification",
        "forecasting",
        "trajectory-attack",
        "lcap",
        "cas-vs-as",
        "as-accuracy",
        "tightness",
        "ablation-aggregation",
        "ablation-annealing",
        "ablation-kappa",
        "losses",
        "tisode",
        "solvers",
        "float32",
        "semantics",
    ];
    for name in names {
        assert!(list.contains(name), "{name}: {list}");
    }
    let said = fails(&["study", "lcup"], 2, "there is no study 'lcup'");
    assert!(said.contains("lcap"), "{said}");
    fails(&["study"], 2, "required");
    let folder = tempfile::tempdir().unwrap();
    fails(&["study", "report", "--out", text(folder.path())], 2, "no results of studies");
    // Flags that a study has no use for are not left out silently.
    for flags in [["--network", "fashion-mnist"], ["--samples", "0..2"], ["--trained", "runs"]] {
        let message = format!("the study 'lcap' does not take {}", flags[0]);
        fails(&[&["study", "lcap", "--out", text(folder.path())], &flags[..]].concat(), 2, &message);
    }
    fails(&["study", "semantics", "--set", "batch=1"], 2, "does not take --set");
    fails(&["study", "forecasting", "--split", "train"], 2, "does not take --split");
    fails(&["study", "report", "--samples", "0..2"], 2, "does not take --samples");
    fails(
        &["study", "float32", "--network", "missing.safetensors", "--out", text(folder.path())],
        1,
        "missing",
    );
}

#[test]
fn studies_that_compare_trainings_say_which_networks_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let out = text(folder.path());
    let nowhere = folder.path().join("nowhere");
    fails(&["study", "tisode", "--trained", text(&nowhere), "--out", out], 2, "there is no folder");
    let said = fails(&["study", "ablation-kappa", "--trained", out, "--out", out], 2, "there is no network");
    assert!(said.contains("gains train --preset fashion-mnist-provable-0.16 --seed 12345 --set"), "{said}");
    fails(&["study", "tisode", "--network", "mnist", "--out", out], 2, "does not take --network");
    fails(&["study", "forecasting", "--network", "mnist", "--out", out], 2, "does not forecast series");
    fails(&["study", "classification", "--network", "pond", "--out", out], 2, "does not tell classes apart");
    // Without images to train on no case comes to a result, and the reason is told once.
    let data = folder.path().join("data");
    let args = ["study", "tisode", "--quick", "--data-dir", text(&data), "--samples", "0..2", "--out", out];
    let output = gains(&args).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no case came to a result") && said.contains("have no result: "), "{said}");
    assert!(said.contains("gains data fetch mnist"), "{said}");
    // Results of nothing are no results.
    fails(&["study", "report", "--out", text(&nowhere)], 2, "no results of studies");
}

#[test]
fn a_study_writes_what_it_found_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = text(folder.path());
    let args = ["study", "semantics", "--quick", "--samples", "0..2", "--out", out];
    let first = gains(&args).output().unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    let table = stdout(&first);
    assert!(table.contains("dopri8 at 1e-10"), "{table}");
    let own = folder.path().join("semantics");
    for file in ["results.jsonl", "cases.csv", "table.md", "semantics.svg"] {
        assert!(own.join(file).metadata().unwrap().len() > 50, "{file}");
    }
    let lines = std::fs::read_to_string(own.join("results.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    // Without its last line the study does that case again and ends with the same table.
    let kept = lines.lines().next().unwrap().to_string() + "\n";
    std::fs::write(own.join("results.jsonl"), kept).unwrap();
    let again = gains(&args).output().unwrap();
    assert!(stderr(&again).contains("1 of 2 cases are there already"), "{}", stderr(&again));
    assert_eq!(stdout(&again), table);
    // Further images are added to what is there; results of another question are not mixed in.
    let more = gains(&["study", "semantics", "--quick", "--samples", "0..3", "--out", out]).output().unwrap();
    assert!(stderr(&more).contains("2 of 3 cases are there already"), "{}", stderr(&more));
    let other = ["study", "semantics", "--samples", "0..3", "--out", out];
    fails(&other, 2, "another setting");
    ok(&["study", "report", "--out", out]);
    let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(page.contains("semantics") && page.contains("data:image/svg+xml"));
}

/// Images of another set, of another part of it, or of one's own are another question.
#[test]
fn results_about_other_images_are_not_taken() {
    let scene = Scene::new();
    let asked = |flags: &str| {
        let args: Vec<&str> = "study semantics --quick".split(' ').chain(flags.split(' ')).collect();
        gains(&args).current_dir(scene.folder.path()).output().unwrap()
    };
    let first = asked("--samples 0..1");
    assert!(first.status.success(), "{}", stderr(&first));
    let row = |value: &str| format!("3,{}\n", vec![value; 784].join(","));
    let head = (0..784).map(|i| format!("p{i}")).collect::<Vec<_>>().join(",");
    std::fs::write(scene.path("own.csv"), format!("y,{head}\n{}{}", row("0.5"), row("0.25"))).unwrap();
    let mnist = "--samples 0..1 --data mnist --data-dir data";
    let own = "--inputs own.csv --label-column y";
    for flags in [mnist, &format!("{mnist} --split train"), own] {
        let refused = asked(flags);
        let said = stderr(&refused);
        assert!(refused.status.code() == Some(2) && said.contains("another setting"), "{flags}: {said}");
        assert!(said.contains("--out"), "{said}");
    }
    // Without --samples a study takes the first twenty, or what there is.
    let two = asked(&format!("{own} --out own"));
    assert!(two.status.success(), "{}", stderr(&two));
    let results = String::from_utf8(scene.read("own/semantics/results.jsonl")).unwrap();
    assert_eq!(results.lines().count(), 2, "{results}");
    std::fs::write(scene.path("own.csv"), format!("y,{head}\n{}{}", row("0.5"), row("0.75"))).unwrap();
    assert!(stderr(&asked(&format!("{own} --out own"))).contains("another setting"));
}

/// More images are added, others are others, and networks of another folder are other ones.
#[test]
fn results_about_given_trainings_are_of_their_networks_and_images() {
    let scene = Scene::new();
    let give = |folder: &str, network: &[u8]| {
        for run in ["tisode", "certified", "standard"] {
            let run = scene.path(&format!("{folder}/quick-{run}-seed12345"));
            std::fs::create_dir_all(&run).unwrap();
            std::fs::write(run.join("model.safetensors"), network).unwrap();
        }
    };
    give("runs", MODEL);
    give("others", include_bytes!("../../assets/mnist.safetensors"));
    let asked = |flags: &str| {
        let args: Vec<&str> = "study tisode --quick".split(' ').chain(flags.split(' ')).collect();
        let output = gains(&args).current_dir(scene.folder.path()).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let cases = || {
        let results = String::from_utf8(scene.read("studies/tisode/results.jsonl")).unwrap();
        results.lines().filter(|line| line.contains("variant=TisODE")).map(String::from).collect::<Vec<_>>()
    };
    let (code, said) = asked("--trained runs --samples 0..1");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = asked("--trained runs --samples 0..2");
    assert!(code == Some(0) && said.contains("3 of 6 cases are there already"), "{said}");
    let (code, said) = asked("--trained runs --samples 5");
    assert!(code == Some(0) && !said.contains("there already"), "{said}");
    assert!(cases().iter().any(|case| case.contains("image=5\"")), "{:?}", cases());
    let refused = |flags: &str| {
        let (code, said) = asked(flags);
        assert!(code == Some(2) && said.contains("-seed12345' is now ") && said.contains("--out"), "{said}");
    };
    refused("--trained runs --samples 0..1 --data mnist --data-dir data");
    refused("--trained others --samples 0..1 --data-dir data");
}

/// Networks are trained once; what is missing of them, and of the answers, is made again with the same bits.
#[test]
fn a_study_trains_its_networks_and_goes_on_where_it_was() {
    let scene = Scene::new();
    let run = || {
        let args = ["study", "tisode", "--quick", "--data-dir", "data", "--samples", "0..1"];
        let output = gains(&args).current_dir(scene.folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let (first, said) = run();
    let network = "studies/tisode/networks/quick-tisode-seed12345";
    assert!(said.contains(&format!("training {network}")), "{said}");
    assert!(
        first.contains("The paper, at full size") && first.contains("gains train --preset mnist-tisode"),
        "{first}"
    );
    let model = scene.read(&format!("{network}/model.safetensors"));
    std::fs::remove_file(scene.path(&format!("{network}/model.safetensors"))).unwrap();
    let results = String::from_utf8(scene.read("studies/tisode/results.jsonl")).unwrap();
    let others: String =
        results.lines().filter(|l| !l.contains("TisODE seed")).map(|l| format!("{l}\n")).collect();
    assert_eq!((results.lines().count(), others.lines().count()), (3, 2), "{first}{said}{results}");
    std::fs::write(scene.path("studies/tisode/results.jsonl"), others).unwrap();
    let (again, said) = run();
    assert!(said.contains("2 of 3 cases are there already"), "{said}");
    assert_eq!(said.matches("training ").count(), 1, "{said}");
    assert!(scene.read(&format!("{network}/model.safetensors")) == model);
    let table = |text: &str| text.lines().filter(|line| line.starts_with("certified ")).collect::<String>();
    assert_eq!(table(&again), table(&first));
}

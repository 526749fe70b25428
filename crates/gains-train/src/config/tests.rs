use super::*;

const MINIMAL: &str = "[[phases]]\nepochs = 3\n";

fn refused(text: &str) -> ConfigError {
    Config::from_toml(text).expect_err(text)
}

#[test]
fn what_is_left_out_takes_the_papers_values() {
    let config = Config::from_toml(MINIMAL).unwrap();
    assert_eq!((config.batch, config.optimiser.rate, config.solver.tolerance), (512, 1e-3, 0.005));
    assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
}

#[test]
fn an_unknown_key_is_shown_with_its_line() {
    for (text, key, line) in [
        ("batch = 3\nbach = 4\n[[phases]]\nepochs = 3", "bach", "line 2"),
        ("[[phases]]\nepochs = 3\n[phases.eps]\ntarget = 0.1\nlenght = 4", "lenght", "line 5"),
        ("[[phases]]\nepochs = -3", "epochs", "line 2"),
        ("[[phases]]\nepochs = 3\nsolver = { type = 'euler', step = 2 }", "step", "line 3"),
        ("[[phases]]\nepochs = 3\nobjective = { type = 'sabr', lambda = 0.4 }", "lambda", "line 3"),
        ("[[phases]]\nepochs = 3\nobjective = { type = 'interval', part = 0.4 }", "part", "line 3"),
        ("[[phases]]\nepochs = 3\nobjective = { type = 'ibp' }", "ibp", "line 3"),
        ("seed = 'x'\n[[phases]]\nepochs = 3", "seed", "line 1"),
        ("method = 'provabel'\n[[phases]]\nepochs = 3", "provabel", "line 1"),
    ] {
        let ConfigError::Syntax(message) = refused(text) else { panic!("{text}") };
        assert!(message.contains(key) && message.contains(line), "{message}");
    }
}

#[test]
fn absurd_values_are_named() {
    let provable = "method = 'provable'\n[[phases]]\n";
    for (text, key) in [
        ("batch = 0\n[[phases]]\nepochs = 3".to_string(), "batch"),
        ("".to_string(), "phases"),
        ("images = 0\n[[phases]]\nepochs = 3".to_string(), "images"),
        (format!("[optimiser]\nrate = nan\n{MINIMAL}"), "optimiser.rate"),
        (format!("[optimiser]\nbeta1 = 1.0\n{MINIMAL}"), "optimiser.beta1"),
        (format!("[solver]\ntolerance = 0.0\n{MINIMAL}"), "solver"),
        (format!("[solver]\nmethod = 'rk4'\n{MINIMAL}"), "solver.method"),
        (
            "method = 'provable'\n[solver]\ncontrol = 'continuous'\n[[phases]]\neps = { target = 0.1 }"
                .to_string(),
            "solver.control",
        ),
        (format!("[network]\nstd = [0.0]\n{MINIMAL}"), "network.std"),
        (format!("[network]\nmean = [0.1, 0.2]\n{MINIMAL}"), "network.mean"),
        (format!("[network.encoder]\nchannels = [4, 4, 4, 32]\n{MINIMAL}"), "network.encoder"),
        (format!("[network.dynamics]\nchannels = [32, 16]\n{MINIMAL}"), "network.dynamics.channels"),
        (format!("{provable}eps = {{ target = 1.5 }}"), "phases[0].eps.target"),
        (format!("{provable}eps = {{ target = nan }}"), "phases[0].eps.target"),
        (format!("{provable}epochs = 3"), "phases[0].eps"),
        (
            format!("{provable}eps = {{ target = 0.1 }}\nkappa = [{{ from = 0, count = 0 }}]"),
            "phases[0].kappa[0].count",
        ),
        (format!("{provable}eps = {{ target = 0.1 }}\nq = {{ end = 0.6 }}"), "phases[0].q.end"),
        (format!("{provable}eps = {{ target = 0.1 }}\nloss = {{ robust = -1.0 }}"), "phases[0].loss.robust"),
        ("[[phases]]\nloss = { steady = 0.1 }".to_string(), "phases[0].loss.steady"),
        ("[[phases]]\nloss = { alive = -1.0 }".to_string(), "phases[0].loss.alive"),
        ("[[phases]]\nloss = { alive_target = 0.0 }".to_string(), "phases[0].loss.alive_target"),
        ("[[phases]]\nobjective = { type = 'sabr' }".to_string(), "phases[0].objective"),
        (
            format!("{provable}eps = {{ target = 0.1 }}\nobjective = {{ type = 'sabr', part = 0.0 }}"),
            "phases[0].objective.part",
        ),
        (
            format!("{provable}eps = {{ target = 0.1 }}\nobjective = {{ type = 'exp_ibp', alpha = nan }}"),
            "phases[0].objective.alpha",
        ),
        (
            format!("{provable}eps = {{ target = 0.1 }}\nobjective = {{ type = 'mtl_ibp', alpha = 1.5 }}"),
            "phases[0].objective.alpha",
        ),
        (
            format!(
                "{provable}eps = {{ target = 0.1 }}\nobjective = {{ type = 'cc_ibp' }}\nattack = {{ steps = 0 }}"
            ),
            "phases[0].attack.steps",
        ),
        (format!("[optimiser]\naverage = 1.0\n{MINIMAL}"), "optimiser.average"),
        (
            format!("[optimiser]\nschedule = {{ type = 'drops', at = [0.5, 1.5], factor = 0.2 }}\n{MINIMAL}"),
            "optimiser.schedule.at",
        ),
        ("[[phases]]\neps = { target = 0.1 }".to_string(), "phases[0].eps"),
    ] {
        let ConfigError::Value(problem) = refused(&text) else { panic!("{text}") };
        assert_eq!(problem.key, key, "{text}: {problem}");
    }
}

#[test]
fn a_phase_of_another_length_has_the_same_schedules() {
    let text = "method = 'provable'\n[[phases]]\nepochs = 100\neps = { target = 0.1, start = 10, length = 60 }\n\
                q = { start = 0.15, end = 0.33, first = 10, last = 80 }\n\
                kappa = [{ from = 0, count = 2 }, { from = 25, count = 4 }, { from = 65, count = 8 }]";
    let whole = Config::from_toml(text).unwrap();
    let mut half = whole.clone();
    half.phases[0].stretch(50);
    let eps = |config: &Config, epoch| config.phases[0].eps.unwrap().at(epoch);
    assert_eq!((eps(&half, 4), eps(&half, 34)), (0.0, 0.1));
    assert!((eps(&half, 20) - eps(&whole, 41)).abs() < 1e-3);
    assert_eq!((half.phases[0].q.first, half.phases[0].q.last), (5, 40));
    let from: Vec<u32> = half.phases[0].kappa.iter().map(|entry| entry.from).collect();
    assert_eq!(from, [0, 13, 33]);
    let mut short = whole.clone();
    short.phases[0].stretch(1);
    assert!(short.problem().is_none(), "{:?}", short.problem());
    assert_eq!(short.phases[0].kappa.len(), 2, "{:?}", short.phases[0].kappa);
    assert_eq!(eps(&short, 0), 0.1, "the only epoch is at the full perturbation");
    whole.clone().phases[0].stretch(0);
}

#[test]
fn initial_weights_for_boxes_double_their_width_before_the_relu_halves_it() {
    let mut random = fastrand::Rng::with_seed(4);
    for inputs in [3, 50, 800] {
        let rows = 200_000 / inputs;
        let total: f64 =
            (0..rows * inputs).map(|_| Initial::Interval.weight(inputs, &mut random).abs()).sum();
        assert!((total / rows as f64 - 2.0).abs() < 0.02, "{inputs}: {}", total / rows as f64);
        assert_eq!(Initial::Interval.bias(inputs, &mut random), 0.0);
        let usual = Initial::Usual.weight(inputs, &mut random);
        assert!(usual.abs() <= 1.0 / (inputs as f64).sqrt() && usual == f64::from(usual as f32));
    }
}

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
        ("[[phases]]\neps = { target = 0.1 }".to_string(), "phases[0].eps"),
    ] {
        let ConfigError::Value(problem) = refused(&text) else { panic!("{text}") };
        assert_eq!(problem.key, key, "{text}: {problem}");
    }
}

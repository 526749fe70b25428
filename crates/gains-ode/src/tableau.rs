//! Explicit Runge-Kutta methods as tables of numbers. Adding a method is adding a table.
//!
//! The numbers *are* the float64 values written here: a verdict speaks about the solver with exactly
//! these coefficients.

use gains_core::description::RungeKutta;

/// An explicit Runge-Kutta method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tableau {
    /// Name as in model files.
    pub name: &'static str,
    /// Order p of the propagated solution; an increase by α is allowed below `δ ≤ α⁻ᵖ`.
    pub order: u32,
    /// c: stage times as fractions of the step.
    pub nodes: &'static [f64],
    /// a: row `i` weighs the earlier stages in the input of stage `i`.
    pub stages: &'static [&'static [f64]],
    /// b: weights of the propagated solution.
    pub weights: &'static [f64],
    /// b − b*: weights of the error estimate; empty if the method has none.
    pub error: &'static [f64],
}

impl Tableau {
    /// The table of a method.
    pub fn of(method: RungeKutta) -> &'static Self {
        match method {
            RungeKutta::Euler => &EULER,
            RungeKutta::Midpoint => &MIDPOINT,
            RungeKutta::Heun => &HEUN,
            RungeKutta::Rk4 => &RK4,
            RungeKutta::Rk38 => &RK38,
            RungeKutta::Bosh3 => &BOSH3,
            RungeKutta::Fehlberg2 => &FEHLBERG2,
            RungeKutta::Dopri5 => &DOPRI5,
            RungeKutta::Dopri8 => &DOPRI8,
        }
    }

    /// Number of stages.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never true.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether steps come with an error estimate, which adaptive controllers need.
    pub fn estimates_error(&self) -> bool {
        !self.error.is_empty()
    }

    /// Stages needed for the solution alone; the others only serve the error estimate.
    pub fn solution_stages(&self) -> usize {
        self.weights.iter().rposition(|b| *b != 0.0).map_or(0, |last| last + 1)
    }

    /// Whether the last stage is the first of the next step.
    pub fn first_same_as_last(&self) -> bool {
        let last = self.stages[self.len() - 1];
        self.weights[self.len() - 1] == 0.0 && last == &self.weights[..last.len()] && !last.is_empty()
    }
}

/// Explicit Euler.
pub static EULER: Tableau =
    Tableau { name: "euler", order: 1, nodes: &[0.0], stages: &[&[]], weights: &[1.0], error: &[] };

/// Midpoint rule.
pub static MIDPOINT: Tableau = Tableau {
    name: "midpoint",
    order: 2,
    nodes: &[0.0, 0.5],
    stages: &[&[], &[0.5]],
    weights: &[0.0, 1.0],
    error: &[],
};

/// Heun's second-order rule with the embedded Euler step as error estimate.
pub static HEUN: Tableau = Tableau {
    name: "heun",
    order: 2,
    nodes: &[0.0, 1.0],
    stages: &[&[], &[1.0]],
    weights: &[0.5, 0.5],
    error: &[-0.5, 0.5],
};

/// The classical fourth-order method.
pub static RK4: Tableau = Tableau {
    name: "rk4",
    order: 4,
    nodes: &[0.0, 0.5, 0.5, 1.0],
    stages: &[&[], &[0.5], &[0.0, 0.5], &[0.0, 0.0, 1.0]],
    weights: &[1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0],
    error: &[],
};

/// Kutta's 3/8 rule.
pub static RK38: Tableau = Tableau {
    name: "rk38",
    order: 4,
    nodes: &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0],
    stages: &[&[], &[1.0 / 3.0], &[-1.0 / 3.0, 1.0], &[1.0, -1.0, 1.0]],
    weights: &[0.125, 0.375, 0.375, 0.125],
    error: &[],
};

/// Bogacki and Shampine (1989), 3(2).
pub static BOSH3: Tableau = Tableau {
    name: "bosh3",
    order: 3,
    nodes: &[0.0, 0.5, 0.75, 1.0],
    stages: &[&[], &[0.5], &[0.0, 0.75], &[2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0]],
    weights: &[2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0, 0.0],
    error: &[-5.0 / 72.0, 1.0 / 12.0, 1.0 / 9.0, -0.125],
};

/// Fehlberg 2(1).
pub static FEHLBERG2: Tableau = Tableau {
    name: "fehlberg2",
    order: 2,
    nodes: &[0.0, 0.5, 1.0],
    stages: &[&[], &[0.5], &[1.0 / 256.0, 255.0 / 256.0]],
    weights: &[1.0 / 512.0, 255.0 / 256.0, 1.0 / 512.0],
    error: &[-1.0 / 512.0, 0.0, 1.0 / 512.0],
};

/// Dormand and Prince (1980), 5(4), with Shampine's error weights (b* has 1/60 on the last stage), as
/// the authors of GAINS use it.
pub static DOPRI5: Tableau = Tableau {
    name: "dopri5",
    order: 5,
    nodes: &[0.0, 0.2, 0.3, 0.8, 8.0 / 9.0, 1.0, 1.0],
    stages: &[
        &[],
        &[0.2],
        &[3.0 / 40.0, 9.0 / 40.0],
        &[44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0],
        &[19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0],
        &[9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0],
        &[35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0],
    ],
    weights: &[35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0, 0.0],
    error: &[
        71.0 / 86400.0,
        0.0,
        -142.0 / 50085.0,
        71.0 / 2880.0,
        -5751.0 / 169600.0,
        44.0 / 1575.0,
        -1.0 / 60.0,
    ],
};

/// Prince and Dormand (1981), 8(7), thirteen stages.
pub static DOPRI8: Tableau = Tableau {
    name: "dopri8",
    order: 8,
    nodes: &[
        0.0,
        1.0 / 18.0,
        1.0 / 12.0,
        0.125,
        0.3125,
        0.375,
        0.1475,
        0.465,
        5490023248.0 / 9719169821.0,
        0.65,
        1201146811.0 / 1299019798.0,
        1.0,
        1.0,
    ],
    stages: &[
        &[],
        &[1.0 / 18.0],
        &[1.0 / 48.0, 1.0 / 16.0],
        &[1.0 / 32.0, 0.0, 3.0 / 32.0],
        &[5.0 / 16.0, 0.0, -75.0 / 64.0, 75.0 / 64.0],
        &[3.0 / 80.0, 0.0, 0.0, 3.0 / 16.0, 3.0 / 20.0],
        &[
            29443841.0 / 614563906.0,
            0.0,
            0.0,
            77736538.0 / 692538347.0,
            -28693883.0 / 1125000000.0,
            23124283.0 / 1800000000.0,
        ],
        &[
            16016141.0 / 946692911.0,
            0.0,
            0.0,
            61564180.0 / 158732637.0,
            22789713.0 / 633445777.0,
            545815736.0 / 2771057229.0,
            -180193667.0 / 1043307555.0,
        ],
        &[
            39632708.0 / 573591083.0,
            0.0,
            0.0,
            -433636366.0 / 683701615.0,
            -421739975.0 / 2616292301.0,
            100302831.0 / 723423059.0,
            790204164.0 / 839813087.0,
            800635310.0 / 3783071287.0,
        ],
        &[
            246121993.0 / 1340847787.0,
            0.0,
            0.0,
            -37695042795.0 / 15268766246.0,
            -309121744.0 / 1061227803.0,
            -12992083.0 / 490766935.0,
            6005943493.0 / 2108947869.0,
            393006217.0 / 1396673457.0,
            123872331.0 / 1001029789.0,
        ],
        &[
            -1028468189.0 / 846180014.0,
            0.0,
            0.0,
            8478235783.0 / 508512852.0,
            1311729495.0 / 1432422823.0,
            -10304129995.0 / 1701304382.0,
            -48777925059.0 / 3047939560.0,
            15336726248.0 / 1032824649.0,
            -45442868181.0 / 3398467696.0,
            3065993473.0 / 597172653.0,
        ],
        &[
            185892177.0 / 718116043.0,
            0.0,
            0.0,
            -3185094517.0 / 667107341.0,
            -477755414.0 / 1098053517.0,
            -703635378.0 / 230739211.0,
            5731566787.0 / 1027545527.0,
            5232866602.0 / 850066563.0,
            -4093664535.0 / 808688257.0,
            3962137247.0 / 1805957418.0,
            65686358.0 / 487910083.0,
        ],
        &[
            403863854.0 / 491063109.0,
            0.0,
            0.0,
            -5068492393.0 / 434740067.0,
            -411421997.0 / 543043805.0,
            652783627.0 / 914296604.0,
            11173962825.0 / 925320556.0,
            -13158990841.0 / 6184727034.0,
            3936647629.0 / 1978049680.0,
            -160528059.0 / 685178525.0,
            248638103.0 / 1413531060.0,
            0.0,
        ],
    ],
    weights: &[
        14005451.0 / 335480064.0,
        0.0,
        0.0,
        0.0,
        0.0,
        -59238493.0 / 1068277825.0,
        181606767.0 / 758867731.0,
        561292985.0 / 797845732.0,
        -1041891430.0 / 1371343529.0,
        760417239.0 / 1151165299.0,
        118820643.0 / 751138087.0,
        -528747749.0 / 2220607170.0,
        0.25,
    ],
    error: &[
        14005451.0 / 335480064.0 - 13451932.0 / 455176623.0,
        0.0,
        0.0,
        0.0,
        0.0,
        -59238493.0 / 1068277825.0 + 808719846.0 / 976000145.0,
        181606767.0 / 758867731.0 - 1757004468.0 / 5645159321.0,
        561292985.0 / 797845732.0 - 656045339.0 / 265891186.0,
        -1041891430.0 / 1371343529.0 + 3867574721.0 / 1518517206.0,
        760417239.0 / 1151165299.0 - 465885868.0 / 322736535.0,
        118820643.0 / 751138087.0 - 53011238.0 / 667516719.0,
        -528747749.0 / 2220607170.0 - 2.0 / 45.0,
        0.25,
    ],
};

/// All tables.
pub static ALL: [&Tableau; 9] = [&EULER, &MIDPOINT, &HEUN, &RK4, &RK38, &BOSH3, &FEHLBERG2, &DOPRI5, &DOPRI8];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_consistent() {
        for t in ALL {
            let method: RungeKutta = serde_json::from_value(t.name.into()).expect("a name as in model files");
            assert_eq!(t.estimates_error(), method.estimates_error(), "{}", t.name);
            assert_eq!(Tableau::of(method), t);
            assert_eq!(t.stages.len(), t.len());
            assert_eq!(t.weights.len(), t.len());
            assert!(t.error.is_empty() || t.error.len() == t.len());
            assert!((t.weights.iter().sum::<f64>() - 1.0).abs() < 1e-13, "{}", t.name);
            assert!(t.error.iter().sum::<f64>().abs() < 1e-13, "{}", t.name);
            for (row, c) in t.stages.iter().zip(t.nodes) {
                assert!((row.iter().sum::<f64>() - c).abs() < 1e-8, "{} row sum {c}", t.name);
            }
        }
    }

    #[test]
    fn only_the_fsal_methods_say_so() {
        let names: Vec<_> = ALL.iter().filter(|t| t.first_same_as_last()).map(|t| t.name).collect();
        assert_eq!(names, ["bosh3", "dopri5"]);
    }
}

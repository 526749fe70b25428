//! A network as far as the page shows it.

/// What a page says about a network; made by whoever can read model files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelCard {
    /// Its name.
    pub name: String,
    /// The file it is in, or its name if it is bundled: what `--model` takes.
    pub file: String,
    /// Content hash, as result files name it.
    pub hash: String,
    /// Facts in words: task, data set, parameters.
    pub facts: Vec<(String, String)>,
    /// Parts in the order in which a sample passes them.
    pub blocks: Vec<Block>,
    /// Names of the classes, where there are some.
    pub classes: Vec<String>,
    /// How it was trained, as text.
    pub training: Option<String>,
}

/// One box of the diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it is: `convolution 5×5`, `ODE`.
    pub title: String,
    /// Shape of what comes out.
    pub shape: String,
    /// Weights in it.
    pub parameters: usize,
    /// What is inside, for ODE blocks: the layers of the right-hand side, the solver.
    pub inside: Vec<String>,
}

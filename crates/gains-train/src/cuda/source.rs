//! The generated tails of the kernels: one struct of constants per layer and tableau, one entry point per use.

use std::fmt::Write;

use gains_core::Shape;
use gains_ode::Tableau;

use crate::plan::{LayerPlan, OdePlan};

/// Joins kernel files, the base first.
macro_rules! kernels {
    ($($name:literal),*) => {
        concat!(include_str!("kernels/base.cu"), $("\n", include_str!(concat!("kernels/", $name, ".cu"))),*)
    };
}

/// The kernels that do not depend on the network.
pub(super) fn common() -> &'static str {
    kernels!("parameters", "images", "join", "head", "optimiser")
}

fn layer_struct(name: &str, layer: &LayerPlan) -> String {
    let LayerPlan { input: i, output: o, kernel: k, stride: s, padding: p, .. } = layer;
    format!(
        "struct {name} {{ enum : int {{ CI = {}, CO = {}, IH = {}, IW = {}, OH = {}, OW = {}, KH = {}, KW = {}, \
         SH = {}, SW = {}, PH = {}, PW = {} }}; static constexpr bool RELU = {}, TIME = {}; }};\n",
        i.channels,
        o.channels,
        i.height,
        i.width,
        o.height,
        o.width,
        k[0],
        k[1],
        s[0],
        s[1],
        p[0],
        p[1],
        layer.relu,
        layer.time
    )
}

/// How the work of a layer is shared out among threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerShares {
    /// Rows per item, and threads, of the way forward.
    pub forward: (usize, usize),
    /// Rows per item, and threads, of the way back.
    pub back: (usize, usize),
    /// Input channels per warp of the gradient of weights.
    pub channels: usize,
    /// Warps that share the output rows of a sample.
    pub split: usize,
    /// Warps per block.
    pub warps: usize,
    /// Blocks that share the channels.
    pub blocks: usize,
}

fn threads(items: usize, most: usize) -> usize {
    items.div_ceil(32).clamp(1, most / 32) * 32
}

impl LayerShares {
    pub(super) fn new(layer: &LayerPlan) -> Self {
        let (input, output) = (layer.input, layer.output);
        // The way back starts rows at multiples of the stride.
        let back = 2_usize.max(layer.stride[0]).next_multiple_of(layer.stride[0]);
        let taps = layer.taps();
        let channels = (18 / taps).clamp(1, 8).min(input.channels);
        let groups = input.channels.div_ceil(channels) * output.channels.div_ceil(32);
        let split = if groups < 16 { (16 / groups).min(output.height) } else { 1 };
        let warps = (groups * split).min(16).div_ceil(split) * split;
        Self {
            forward: (1, threads(output.channels * output.height, 128)),
            back: (back, threads(input.channels * input.height.div_ceil(back), 192)),
            channels,
            split,
            warps,
            blocks: groups.div_ceil(warps / split),
        }
    }
}

/// Forward, gate, way back and gradient of the weights of a single layer, for points (`1`) and boxes (`2`). `last`: the
/// gradients come from a solver step and have their channels last.
pub(super) fn layer(layer: &LayerPlan, shares: LayerShares, last: bool) -> String {
    let mut text =
        kernels!("convolution", "elementwise", "layer", "gradient").to_string() + &layer_struct("L", layer);
    let pointers = "const float* xc, const float* xr, const float* dc, const float* dr";
    for lanes in [1, 2] {
        let ((rows, nt), (back_rows, back_nt)) = (shares.forward, shares.back);
        let _ = write!(
            text,
            "extern \"C\" __global__ void __launch_bounds__({nt}) forward{lanes}(const float* xc, const float* xr, \
             const float* w, const float* bias, float* yc, float* yr, u8* mask) \
             {{ layer_forward<L, {rows}, {lanes}>(xc, xr, w, bias, yc, yr, mask); }}\n\
             KERNEL gate{lanes}(const float* gc, const float* gr, const u8* mask, float* dc, float* dr, int n) \
             {{ layer_gate<L, {lanes}>(gc, gr, mask, dc, dr, n); }}\n\
             extern \"C\" __global__ void __launch_bounds__({back_nt}) back{lanes}(const float* dc, const float* dr, \
             const float* wt, float* gxc, float* gxr) \
             {{ layer_back_inputs<L, {back_rows}, {lanes}>(dc, dr, wt, gxc, gxr); }}\n\
             extern \"C\" __global__ void __launch_bounds__({}) weights{lanes}({pointers}, const float* w, float* slabs, \
             Rows rows) {{ weight_gradient<L, {lanes}, {}, {}, {last}>(xc, xr, dc, dr, w, slabs, rows); }}\n",
            shares.warps * 32,
            shares.channels,
            shares.split
        );
    }
    text
}

/// How a solver step is shared out: one block per sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepShares {
    /// Threads per block.
    pub threads: usize,
    /// Blocks that the registers of a multiprocessor shall hold.
    pub blocks: usize,
    /// Bytes of shared memory.
    pub shared: usize,
    /// Floats of global memory that each block works in.
    pub memory: usize,
}

/// Floats of a padded image in shared memory: `Plane` of the kernels.
fn plane_floats(shape: Shape) -> usize {
    let rows = shape.height * shape.width.next_multiple_of(4);
    shape.channels * (rows + if rows % 16 == 12 { 8 } else { 4 })
}

/// Threads that share an image in a solver step: four for each channel, in whole warps of eight channels.
fn items(shape: Shape) -> usize {
    shape.channels.div_ceil(8) * 32
}

/// Groups of rows that an image is worked on in, and entries of a thread's chunk in each: `Chunk` of the kernels.
fn chunks(shape: Shape) -> (usize, usize) {
    let mut rows = shape.height;
    while rows > 1 && rows * shape.width > 32 {
        rows = rows.div_ceil(2);
    }
    (shape.height.div_ceil(rows), (rows * shape.width).div_ceil(4))
}

/// Entries of an image that each of so many threads keeps.
fn kept(shape: Shape, threads: usize) -> usize {
    let (groups, entries) = chunks(shape);
    items(shape).div_ceil(threads) * groups * entries
}

/// Bytes of shared memory the gradient of a layer's weights takes: two rows, `GradientRow` of the kernels.
pub(super) fn gradient_bytes(layer: &LayerPlan, lanes: usize, last: bool) -> usize {
    let (input, output) = (layer.input, layer.output);
    let outputs = if last { output.len() } else { output.channels * (output.positions() | 1) };
    4 * 2 * lanes * (input.len().next_multiple_of(4) + outputs.next_multiple_of(4))
}

/// Bytes of shared memory an image of a layer takes, for `lanes` lanes.
pub(super) fn image_bytes(shape: Shape, lanes: usize) -> usize {
    4 * lanes * plane_floats(shape)
}

/// Lanes of numbers that a step carries: 1 for points, 2 for boxes, 4 in difference form.
pub(super) fn step_shares(ode: &OdePlan, stages: usize, lanes: usize) -> StepShares {
    let outputs = || ode.dynamics.iter().map(|layer| layer.output);
    let threads = threads(outputs().map(items).max().unwrap_or(1), 256);
    let state = kept(ode.state(), threads);
    let planes = outputs().map(plane_floats).max().unwrap_or(0);
    // Planes are there twice; in the end the sums over a block take their place.
    let planes = (2 * lanes * planes).max(64);
    let (floats, memory) = if lanes == 4 {
        let layers: usize = outputs().map(|shape| kept(shape, threads)).sum();
        (planes + (2 * state + 4 * layers) * threads, 4 * stages * state * threads)
    } else {
        (planes + stages * lanes * state * threads, 0)
    };
    // A thread sums up four chunks in each lane, and has about 64 other numbers at hand. More than four blocks are never
    // worth a register.
    let sums = outputs().map(|shape| 4 * lanes * chunks(shape).1).max().unwrap_or(0);
    let blocks = 65_536 / (threads * (64 + sums).max(128));
    StepShares { threads, blocks: blocks.clamp(1, 4), shared: 4 * floats, memory }
}

fn numbers(values: impl Iterator<Item = f64>) -> String {
    values.map(|v| format!("{:e}f", v as f32)).collect::<Vec<_>>().join(", ")
}

/// `Σ_{j ≥ m} values[j]` for each m; sums that are zero but for rounding are zero.
fn tails(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let mut out: Vec<f64> = values
        .iter()
        .rev()
        .map(|v| {
            sum += v;
            if f64::abs(sum) < 1e-12 { 0.0 } else { sum }
        })
        .collect();
    out.reverse();
    out
}

fn tableau_struct(tableau: &Tableau) -> String {
    let stages = tableau.len();
    let padded = |row: &[f64]| {
        let mut row = row.to_vec();
        row.resize(stages, 0.0);
        row
    };
    let a: Vec<Vec<f64>> = tableau.stages.iter().map(|row| padded(row)).collect();
    let changes: Vec<Vec<f64>> = (0..stages)
        .map(|i| (0..stages).map(|j| if i == 0 { 0.0 } else { a[i][j] - a[i - 1][j] }).collect())
        .collect();
    let matrix = |name: &str, rows: Vec<Vec<f64>>| {
        let all = numbers(rows.into_iter().flatten());
        format!("__constant__ float T_{name}[{}] = {{ {all} }};\n", stages * stages)
    };
    let vector = |name: &str, row: Vec<f64>| {
        format!("__constant__ float T_{name}[{stages}] = {{ {} }};\n", numbers(row.into_iter()))
    };
    let mut text = matrix("A", a);
    text += &matrix("TA", changes.iter().map(|row| tails(row)).collect());
    text += &matrix("DA", changes);
    let (weights, error) = (padded(tableau.weights), padded(tableau.error));
    text += &vector("C", tableau.nodes.to_vec());
    text += &vector("TB", tails(&weights));
    text += &vector("TE", tails(&error));
    text += &vector("B", weights);
    text += &vector("E", error);
    let _ = writeln!(text, "struct T {{ static constexpr int STAGES = {stages};");
    for name in ["A", "DA", "TA"] {
        let _ = writeln!(
            text,
            "    static DEV float {name}(int i, int j) {{ return T_{name}[i * {stages} + j]; }}"
        );
    }
    for name in ["B", "C", "E", "TB", "TE"] {
        let _ = writeln!(text, "    static DEV float {name}(int i) {{ return T_{name}[i]; }}");
    }
    text + "};\n"
}

/// Forward and back of a solver step that carries so many lanes.
pub(super) fn step(ode: &OdePlan, tableau: &Tableau, lanes: usize, shares: StepShares) -> String {
    let mut text = kernels!("convolution", "elementwise", "chunk", "step").to_string();
    if lanes == 4 {
        text += include_str!("kernels/chain.cu");
        text += include_str!("kernels/difference.cu");
    }
    text += &tableau_struct(tableau);
    let names: Vec<String> = (0..ode.dynamics.len()).map(|i| format!("L{i}")).collect();
    for (name, layer) in names.iter().zip(&ode.dynamics) {
        text += &layer_struct(name, layer);
    }
    let StepShares { threads, blocks, shared, memory } = shares;
    let _ = writeln!(text, "using N = Dynamics<{}>;", names.join(", "));
    let _ = if lanes == 4 {
        writeln!(
            text,
            "using M = DifferenceMemory<N, T, {threads}>;\n\
             static_assert(4 * M::floats == {shared} && M::slopes == {memory}, \"source.rs counts otherwise\");"
        )
    } else {
        writeln!(
            text,
            "static_assert(4 * StepMemory<N, T, {lanes}, {threads}>::floats == {shared}, \"source.rs counts otherwise\");"
        )
    };
    let bounds = format!("extern \"C\" __global__ void __launch_bounds__({threads}, {blocks})");
    let start = "const float* xc, const float* xr, float time, float h, Weights net, float* yc, float* yr, float* errors, float* inputs";
    let end = "const float* gyc, const float* gyr, float h, float error_weight, Weights net";
    let out = "float* grads, float* gxc, float* gxr, int batch, int last_stage";
    if lanes == 4 {
        let _ = write!(
            text,
            "{bounds} forward({start}, u16* masks, u8* state_masks, u8* end_masks, float* memory, int batch) {{ \
             difference_forward<N, T, {threads}>(xc, xr, time, h, net, yc, yr, errors, inputs, masks, state_masks, end_masks, memory, batch); }}\n\
             {bounds} backward({end}, const u16* masks, const u8* state_masks, const u8* end_masks, float* memory, {out}) {{ \
             difference_backward<N, T, {threads}>(gyc, gyr, h, error_weight, net, masks, state_masks, end_masks, memory, grads, gxc, gxr, batch, last_stage); }}\n"
        );
    } else {
        let _ = write!(
            text,
            "{bounds} forward({start}, u8* masks, signed char* signs, int batch) {{ \
             step_forward<N, T, {lanes}, {threads}>(xc, xr, time, h, net, yc, yr, errors, inputs, masks, signs, batch); }}\n\
             {bounds} backward({end}, const u8* masks, const signed char* signs, {out}) {{ \
             step_backward<N, T, {lanes}, {threads}>(gyc, gyr, h, error_weight, net, masks, signs, grads, gxc, gxr, batch, last_stage); }}\n"
        );
    }
    text
}

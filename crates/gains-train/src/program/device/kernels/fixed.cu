// Affine maps without parameters, and learned factors and summands.

// Each output is a factor times the sum of a few inputs: pooling, moves of entries, and both transposed.
KERNEL gathered(const real* x, int inputs, const int* starts, const int* sources, double factor, real* out, int outputs, int n) {
    int i = entry();
    if (i >= n) return;
    int row = i / outputs, output = i % outputs;
    double sum = 0.0;
    for (int k = starts[output]; k < starts[output + 1]; k++) sum += factor * (double)x[row * inputs + sources[k]];
    out[i] = (real)sum;
}
// Given factors and summands by entry.
KERNEL given_scale(const real* x, const double* factors, const double* summands, real* out, int columns, int n) {
    int i = entry();
    if (i >= n) return;
    double value = factors[i % columns] * (double)x[i];
    out[i] = (real)(summands ? value + summands[i % columns] : value);
}
// Means of groups of channels (0), what is left without them (1), or its magnitude for radii (2): a block for a row and a group.
BLOCK_KERNEL group_means(const real* x, int channels, int groups, int columns, int part, real* out) {
    int each = channels / groups, size = columns / groups;
    long long base = (long long)blockIdx.x * columns + blockIdx.y * each;
    double sum[1] = {0.0};
    for (int k = threadIdx.x; k < size; k += THREADS) sum[0] += (double)x[base + k / each * channels + k % each];
    gather_sums(sum);
    double mean = sum[0] / (double)size;
    for (int k = threadIdx.x; k < size; k += THREADS) {
        long long at = base + k / each * channels + k % each;
        double value = x[at];
        out[at] = (real)(part == 0 ? mean : part == 1 ? value - mean : mean + value - 2.0 * value / (double)size);
    }
}
// Learned factors and summands; `index` says which of them belong to an entry.
KERNEL learned_scale(const real* x, const real* factors, const real* summands, const int* index, real* out, int columns, int n) {
    int i = entry();
    if (i >= n) return;
    int which = index[i % columns];
    real value = factors[which] * x[i];
    out[i] = summands ? value + summands[which] : value;
}
// Their gradients: a block for each, over the entries that it belongs to.
BLOCK_KERNEL learned_scale_gradient(const real* x, const real* g, const int* starts, const int* entries, int columns, int rows,
                                    real* factors, real* summands) {
    int first = starts[blockIdx.x], count = starts[blockIdx.x + 1] - first;
    double sum[2] = {0.0, 0.0};
    for (int k = threadIdx.x; k < rows * count; k += THREADS) {
        int at = k / count * columns + entries[first + k % count];
        sum[0] += (double)x[at] * (double)g[at];
        sum[1] += (double)g[at];
    }
    gather_sums(sum);
    if (threadIdx.x == 0) {
        factors[blockIdx.x] += (real)sum[0];
        if (summands) summands[blockIdx.x] += (real)sum[1];
    }
}

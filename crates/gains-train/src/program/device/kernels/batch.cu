// Where a batch comes from, what decides about its steps, and what comes out of it.

// Uniform in [0, 1) from a seed and a position: the same on every device.
DEV float uniform(int low, int high, u32 position) {
    u32 x = (u32)low ^ (position * 0x9E3779B9u);
    x ^= ((u32)high << 16) | ((u32)high >> 16);
    for (int round = 0; round < 2; round++) {
        x ^= x >> 16;
        x *= 0x7FEB352Du;
        x ^= x >> 15;
        x *= 0x846CA68Bu;
        x ^= x >> 16;
    }
    return (float)(x >> 8) * (1.0f / 16777216.0f);
}
// A value inside the range of the samples, if they have one: [low, high] is empty where they have none.
DEV real inside(real value, double low, double high) {
    if (!(low <= high)) return value;
    return value < (real)low ? (real)low : value > (real)high ? (real)high : value;
}
KERNEL region(const real* x, const double* radii, int columns, double eps, double low, double high, real* centre, real* radius, int n) {
    int i = entry();
    if (i >= n) return;
    real reach = (real)(eps * radii[i % columns]);
    real lower = inside(x[i] - reach, low, high), upper = inside(x[i] + reach, low, high);
    centre[i] = (real)0.5 * (lower + upper);
    radius[i] = (real)0.5 * (upper - lower);
}
KERNEL scatter(const real* x, const double* radii, int columns, double eps, double low, double high, int seed_low, int seed_high, real* out, int n) {
    int i = entry();
    if (i >= n) return;
    real reach = (real)(eps * radii[i % columns]), draw = (real)uniform(seed_low, seed_high, (u32)i);
    out[i] = inside(x[i] + reach * ((draw + draw) - (real)1), low, high);
}
KERNEL ascend(real* attacked, const real* g, const real* x, const double* radii, int columns, double part, double eps, double low, double high, int n) {
    int i = entry();
    if (i >= n) return;
    real reach = (real)(eps * radii[i % columns]), rate = (real)(part * eps * radii[i % columns]);
    real moved = attacked[i] + rate * (real)sign_of((double)g[i]);
    real lower = x[i] - reach, upper = x[i] + reach;
    moved = moved < lower ? lower : moved > upper ? upper : moved;
    attacked[i] = inside(moved, low, high);
}

// Of a row: bounds of ‖e‖₁, sizes of state and slope. A block for each.
BLOCK_KERNEL measure(const real* state, const real* slope, const real* centre, const real* radius, int columns, double* out) {
    long long base = (long long)blockIdx.x * columns;
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (int k = threadIdx.x; k < columns; k += THREADS) {
        if (centre) {
            double c = fabs((double)centre[base + k]), r = radius ? (double)radius[base + k] : 0.0;
            // Not fmax, which hides NaN.
            sum[0] += c < r ? 0.0 : c - r;
            sum[1] += c + r;
        }
        sum[2] += fabs((double)state[base + k]);
        sum[3] += fabs((double)slope[base + k]);
    }
    gather_sums(sum);
    if (threadIdx.x == 0) for (int k = 0; k < 4; k++) out[4 * blockIdx.x + k] = sum[k];
}
BLOCK_KERNEL motion(const real* start, const real* end, int columns, double* out) {
    long long base = (long long)blockIdx.x * columns;
    double sum[2] = {0.0, 0.0};
    for (int k = threadIdx.x; k < columns; k += THREADS) {
        double from = start[base + k];
        sum[0] += fabs(from);
        sum[1] += fabs((double)end[base + k] - from);
    }
    gather_sums(sum);
    if (threadIdx.x == 0) for (int k = 0; k < 2; k++) out[2 * blockIdx.x + k] = sum[k];
}

// What a criterion looks at: differences to the truth (labels are none), of logits to the label's, or those by the rows of a
// last layer. A block for a sample and an output; `out` has all middles, then all radii.
BLOCK_KERNEL seen(const real* xc, const real* xr, int columns, const int* labels, const double* truth, const real* weights, const real* biases,
                  double* out) {
    int sample = blockIdx.x, output = blockIdx.y, outputs = gridDim.y;
    int at = sample * outputs + output, label = labels ? labels[sample] : -1;
    long long base = (long long)sample * columns;
    double sum[2] = {0.0, 0.0};
    if (weights && label != output) {
        for (int k = threadIdx.x; k < columns; k += THREADS) {
            double w = (double)weights[output * columns + k] - (double)weights[label * columns + k];
            sum[0] += w * (double)xc[base + k];
            if (xr) sum[1] += fabs(w) * (double)xr[base + k];
        }
    }
    gather_sums(sum);
    if (threadIdx.x != 0) return;
    if (label == output) {
        sum[0] = sum[1] = 0.0;
    } else if (weights) {
        sum[0] += (double)biases[output] - (double)biases[label];
    } else {
        sum[0] = (double)xc[base + output] - (labels ? (double)xc[base + label] : truth[at]);
        sum[1] = xr ? (double)xr[base + output] + (labels ? (double)xr[base + label] : 0.0) : 0.0;
    }
    out[at] = sum[0];
    out[gridDim.x * outputs + at] = sum[1];
}
// Back from slopes in that to those in what goes in; `on` is laid out like it.
KERNEL seen_back(const double* on, const int* labels, const real* weights, int outputs, int columns, int samples, real* centre, real* radius, int n) {
    int i = entry();
    if (i >= n) return;
    int sample = i / columns, k = i % columns, label = labels ? labels[sample] : -1;
    const double* c = on + sample * outputs;
    const double* r = c + samples * outputs;
    double sum[2] = {0.0, 0.0};
    if (weights) {
        for (int o = 0; o < outputs; o++) {
            if (o == label) continue;
            double w = (double)weights[o * columns + k] - (double)weights[label * columns + k];
            sum[0] += c[o] * w;
            sum[1] += r[o] * fabs(w);
        }
    } else if (k == label) {
        for (int o = 0; o < outputs; o++) {
            if (o == label) continue;
            sum[0] -= c[o];
            sum[1] += r[o];
        }
    } else {
        sum[0] = c[k];
        sum[1] = r[k];
    }
    centre[i] = (real)sum[0];
    if (radius) radius[i] = (real)sum[1];
}
// To the weights of the last layer; `xc` is none for its biases, of which there is one column.
KERNEL head_gradient(const real* xc, const real* xr, const double* on, const int* labels, const real* weights, int outputs, int columns, int samples,
                     real* into, int n) {
    int i = entry();
    if (i >= n) return;
    int output = i / columns, k = i % columns;
    double total = 0.0;
    for (int sample = 0; sample < samples; sample++) {
        const double* c = on + sample * outputs;
        const double* r = c + samples * outputs;
        int label = labels[sample];
        int first = output == label ? 0 : output, last = output == label ? outputs : output + 1;
        for (int o = first; o < last; o++) {
            if (o == label) continue;
            double slope = c[o];
            if (xc) {
                slope *= (double)xc[sample * columns + k];
                double w = (double)weights[o * columns + k] - (double)weights[label * columns + k];
                if (xr) slope += r[o] * sign_of(w) * (double)xr[sample * columns + k];
            }
            total += output == label ? -slope : slope;
        }
    }
    into[i] += (real)total;
}

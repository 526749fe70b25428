// What becomes of the gradients of a layer, and of its parameters.

// Adds to slab[block][0][entry] the sums weighted by `bias`, to slab[block][1] those weighted by `time`.
KERNEL position_gradient(const float* dc, float* slabs, Rows rows, int n) {
    int e = blockIdx.y * blockDim.x + threadIdx.x;
    if (e >= n) return;
    float plain = 0.0f, timed = 0.0f;
    int total = rows.count * rows.batch;
    for (int row = blockIdx.x; row < total; row += gridDim.x) {
        int q = row / rows.batch;
        float g = dc[(size_t)row * n + e];
        plain = fmaf(rows.bias[q], g, plain);
        timed = fmaf(rows.time[q], g, timed);
    }
    float* slab = slabs + (size_t)blockIdx.x * 2 * n;
    slab[e] += plain;
    slab[n + e] += timed;
}

// out[i] = sum over `count` slabs of `size` numbers.
KERNEL sum_slabs(const float* slabs, float* out, int count, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float sum = 0.0f;
    #pragma unroll 12
    for (int s = 0; s < count; s++) sum += slabs[(size_t)s * size + i];
    out[i] = sum;
}

// From device order to the order of parameters: weights [out][time?, in][tap] and biases [out].
struct Shape {
    int ci, co, ih, iw, oh, ow, kh, kw, sh, sw, ph, pw, time, last;
};
KERNEL collect_gradient(const float* gw, const float* gp, float* weights, float* biases, Shape s) {
    int taps = s.kh * s.kw, rows = s.ci + s.time, n = s.co * rows * taps, positions = s.oh * s.ow;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int k = i % taps, c = i / taps % rows, oc = i / taps / rows;
        if (c >= s.time) {
            weights[i] = gw[((c - s.time) * taps + k) * s.co + oc];
        } else {
            const float* timed = gp + s.co * positions + (s.last ? oc : oc * positions);
            int step = s.last ? s.co : 1;
            float sum = 0.0f;
            for (int y = 0; y < s.oh; y++)
                for (int x = 0; x < s.ow; x++) {
                    int iy = y * s.sh - s.ph + k / s.kw, ix = x * s.sw - s.pw + k % s.kw;
                    if (iy >= 0 && iy < s.ih && ix >= 0 && ix < s.iw) sum += timed[(y * s.ow + x) * step];
                }
            weights[i] = sum;
        }
    } else if (i < n + s.co) {
        int oc = i - n;
        float sum = 0.0f;
        for (int p = 0; p < positions; p++) sum += gp[s.last ? p * s.co + oc : oc * positions + p];
        biases[oc] = sum;
    }
}

// From parameters to the layouts that kernels read.
KERNEL spread_parameters(const float* weights, float* w, float* wt, float* shift, Shape s) {
    int taps = s.kh * s.kw, rows = s.ci + s.time, n = s.ci * taps * s.co, positions = s.oh * s.ow;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int oc = i % s.co, k = i / s.co % taps, c = i / s.co / taps;
        float v = weights[(oc * rows + c + s.time) * taps + k];
        w[i] = v;
        wt[(oc * taps + k) * s.ci + c] = v;
    } else if (s.time && i < n + s.co * positions) {
        int e = i - n, oc = e / positions, y = e % positions / s.ow, x = e % positions % s.ow;
        float sum = 0.0f;
        for (int k = 0; k < taps; k++) {
            int iy = y * s.sh - s.ph + k / s.kw, ix = x * s.sw - s.pw + k % s.kw;
            if (iy >= 0 && iy < s.ih && ix >= 0 && ix < s.iw) sum += weights[oc * rows * taps + k];
        }
        shift[e] = sum;
    }
}

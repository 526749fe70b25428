// Gradients of the weights of a layer.

// Copies floats to shared memory without waiting for them.
template <int N> DEV void copy_ahead(float* to, const float* from) {
#if __CUDA_ARCH__ >= 800
    u32 address = (u32)__cvta_generic_to_shared(to);
    if constexpr (N == 4) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from));
#else
    for (int i = 0; i < N; i++) to[i] = from[i];
#endif
}
DEV void close_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}
// Waits for all but the newest group of copies.
DEV void await_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 1;");
#endif
}

// Shared memory of one row of a gradient of weights: inputs as they are, then gradients [position][channel] (LAST) or
// [channel][position] with an odd stride, so that lanes read them side by side.
template <class L, bool LAST> struct GradientRow {
    static constexpr int nin = L::CI * L::IH * L::IW, nout = L::CO * L::OH * L::OW, positions = L::OH * L::OW;
    static constexpr int stride = LAST ? 1 : (positions | 1);
    static constexpr int inputs = (nin + 3) / 4 * 4;
    static constexpr int outputs = LAST ? (nout + 3) / 4 * 4 : (L::CO * stride + 3) / 4 * 4;
    static DEV int at(int oc, int position) { return LAST ? position * L::CO + oc : oc * stride + position; }
    static DEV void copy_inputs(float* to, const float* from) {
        if constexpr (nin % 4 == 0) {
            for (int i = 4 * threadIdx.x; i < nin; i += 4 * blockDim.x) copy_ahead<4>(to + i, from + i);
        } else {
            for (int i = threadIdx.x; i < nin; i += blockDim.x) copy_ahead<1>(to + i, from + i);
        }
    }
    static DEV void copy_outputs(float* to, const float* from) {
        if constexpr (LAST && nout % 4 == 0) {
            for (int i = 4 * threadIdx.x; i < nout; i += 4 * blockDim.x) copy_ahead<4>(to + i, from + i);
        } else {
            for (int i = threadIdx.x; i < nout; i += blockDim.x)
                copy_ahead<1>(to + (LAST ? i : i / positions * stride + i % positions), from + i);
        }
    }
};

// Adds to slab[block][in][tap][out]. A warp has CPW input channels and, with SPLIT > 1, every SPLIT-th output row; blocks
// along y share out the channels. Lanes are output channels (32 at a time). LAST: the gradients have their channels last.
// While a row is worked on, the next one is on its way to shared memory.
template <class L, int LANES, int CPW, int SPLIT, bool LAST>
DEV void weight_gradient(const float* xc, const float* xr, const float* dc, const float* dr, const float* w, float* slabs,
                         const Rows& rows) {
    using G = GradientRow<L, LAST>;
    constexpr int taps = L::KH * L::KW, size = LANES * (G::inputs + G::outputs);
    extern __shared__ float shared[];
    int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int split = warp % SPLIT;
    int group = blockIdx.y * (warps / SPLIT) + warp / SPLIT;
    constexpr int chunks = (L::CO + 31) / 32;
    int ci0 = group / chunks * CPW, oc = group % chunks * 32 + (threadIdx.x & 31);
    bool busy = ci0 < L::CI, active = busy && oc < L::CO;
    int occ = oc < L::CO ? oc : 0;
    float a[CPW][taps], ar[CPW][taps];
    #pragma unroll
    for (int i = 0; i < CPW; i++)
        #pragma unroll
        for (int k = 0; k < taps; k++) { a[i][k] = 0.0f; ar[i][k] = 0.0f; }
    int total = rows.count * rows.batch;
    auto fetch = [&](int row, float* to) {
        if (row < total) {
            int q = row / rows.batch;
            size_t from = ((size_t)rows.source[q] * rows.batch + (row - q * rows.batch)) * G::nin;
            G::copy_inputs(to, xc + from);
            G::copy_outputs(to + LANES * G::inputs, dc + (size_t)row * G::nout);
            if constexpr (LANES == 2) {
                G::copy_inputs(to + G::inputs, xr + from);
                G::copy_outputs(to + 2 * G::inputs + G::outputs, dr + (size_t)row * G::nout);
            }
        }
        close_copies();
    };
    float *now = shared, *next = shared + size;
    fetch(blockIdx.x, now);
    for (int row = blockIdx.x; row < total; row += gridDim.x) {
        fetch(row + gridDim.x, next);
        await_copies();
        __syncthreads();
        const float *x = now, *g = now + LANES * G::inputs;
        if (busy) {
            #pragma unroll (L::OH <= 5 ? L::OH : 1)
            for (int oy = split; oy < L::OH; oy += SPLIT) {
                float gc[L::OW], gr[L::OW];
                #pragma unroll
                for (int xx = 0; xx < L::OW; xx++) {
                    gc[xx] = g[G::at(occ, oy * L::OW + xx)];
                    if constexpr (LANES == 2) gr[xx] = g[G::outputs + G::at(occ, oy * L::OW + xx)];
                }
                #pragma unroll
                for (int i = 0; i < CPW; i++) {
                    if (ci0 + i >= L::CI) break;
                    #pragma unroll
                    for (int ky = 0; ky < L::KH; ky++) {
                        int iy = oy * L::SH - L::PH + ky;
                        if (iy < 0 || iy >= L::IH) continue;
                        int at = ((ci0 + i) * L::IH + iy) * L::IW;
                        #pragma unroll
                        for (int q = 0; q < LANES; q++) {
                            float v[L::IW];
                            load_row<L::IW>(x + q * G::inputs + at, v);
                            #pragma unroll
                            for (int kx = 0; kx < L::KW; kx++)
                                #pragma unroll
                                for (int xx = 0; xx < L::OW; xx++) {
                                    int ix = xx * L::SW - L::PW + kx;
                                    if (ix < 0 || ix >= L::IW) continue;
                                    float& sum = q == 0 ? a[i][ky * L::KW + kx] : ar[i][ky * L::KW + kx];
                                    sum = fmaf(q == 0 ? gc[xx] : gr[xx], v[ix], sum);
                                }
                        }
                    }
                }
            }
        }
        __syncthreads();
        float* other = now; now = next; next = other;
    }
    if (!active) return;
    float* slab = slabs + ((size_t)blockIdx.x * SPLIT + split) * (L::CI * taps * L::CO);
    #pragma unroll
    for (int i = 0; i < CPW; i++) {
        if (ci0 + i >= L::CI) break;
        #pragma unroll
        for (int k = 0; k < taps; k++) {
            int at = ((ci0 + i) * taps + k) * L::CO + oc;
            float ww = w[at], sum = a[i][k];
            if constexpr (LANES == 2) sum += ww > 0.0f ? ar[i][k] : ww < 0.0f ? -ar[i][k] : 0.0f;
            slab[at] += sum;
        }
    }
}

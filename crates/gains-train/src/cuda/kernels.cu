// Kernels of the trainer, specialised by a generated tail: one struct of constants per layer (see source.rs).
//
// Tensors are [sample][channel][row][column]. A thread owns "items" of a layer: one output channel and a few whole
// rows of it, so that a weight is loaded once for many products, lanes of a warp read weights side by side and pixels
// by broadcast. Lanes of numbers travel together: points have 1 (value), boxes 2 (centre, radius), boxes in difference
// form 4 (centre, radius, and the same of the difference to the stage before); odd lanes are multiplied by |w|.
//
// Sums over samples are formed in a fixed order: each block owns a slab of partial sums, no atomics anywhere.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEV __device__ __forceinline__
#define KERNEL extern "C" __global__ void

template <int I> struct Number { static constexpr int value = I; };

template <int FROM, int TO, class F> DEV void each(F&& f) {
    if constexpr (FROM < TO) { f(Number<FROM>{}); each<FROM + 1, TO>(f); }
}

__device__ constexpr int most(int a, int b) { return a > b ? a : b; }

// ---- Geometry --------------------------------------------------------------------------------------------------

// Rows in shared memory are padded to whole float4s, planes by one more against bank conflicts.
template <int H, int W> struct Plane {
    static constexpr int row = (W + 3) / 4 * 4;
    static constexpr int size = H * row + 4;
};

// How an H×W image of C channels is dealt out: items of ROWS rows of one channel.
template <int C, int H, int W, int ROWS> struct Deal {
    static constexpr int groups = (H + ROWS - 1) / ROWS;
    static constexpr int items = C * groups;
    static constexpr int entries = ROWS * W;
    static constexpr bool whole = H % ROWS == 0;
};

template <class L, int ROWS> using Outputs = Deal<L::CO, L::OH, L::OW, ROWS>;
template <class L, int ROWS> using Inputs = Deal<L::CI, L::IH, L::IW, ROWS>;

template <int W> DEV void load_row(const float* p, float* r) {
    if constexpr (W % 4 == 0) {
        #pragma unroll
        for (int x = 0; x < W; x += 4) {
            float4 v = *reinterpret_cast<const float4*>(p + x);
            r[x] = v.x; r[x + 1] = v.y; r[x + 2] = v.z; r[x + 3] = v.w;
        }
    } else {
        #pragma unroll
        for (int x = 0; x < W; x++) r[x] = p[x];
    }
}
template <int W> DEV void store_row(float* p, const float* r) {
    if constexpr (W % 4 == 0) {
        #pragma unroll
        for (int x = 0; x < W; x += 4) *reinterpret_cast<float4*>(p + x) = make_float4(r[x], r[x + 1], r[x + 2], r[x + 3]);
    } else {
        #pragma unroll
        for (int x = 0; x < W; x++) p[x] = r[x];
    }
}
// Entries that lie STRIDE apart, as in images with the channels last: lanes of a warp write side by side.
template <int STRIDE, int N> DEV void store_apart(float* p, const float* r) {
    #pragma unroll
    for (int x = 0; x < N; x++) p[x * STRIDE] = r[x];
}
// Rows of shared memory are padded, so they can always be read in float4s.
template <int W> DEV void load_shared_row(const float* p, float* r) {
    #pragma unroll
    for (int x = 0; x < W; x += 4) {
        float4 v = *reinterpret_cast<const float4*>(p + x);
        r[x] = v.x;
        if (x + 1 < W) r[x + 1] = v.y;
        if (x + 2 < W) r[x + 2] = v.z;
        if (x + 3 < W) r[x + 3] = v.w;
    }
}

// A whole image from global memory to padded planes.
template <int C, int H, int W> DEV void stage_planes(const float* from, float* to) {
    using P = Plane<H, W>;
    for (int i = threadIdx.x; i < C * H; i += blockDim.x) {
        float r[W];
        load_row<W>(from + i * W, r);
        float* p = to + (i / H) * P::size + (i % H) * P::row;
        #pragma unroll
        for (int x = 0; x < W; x++) p[x] = r[x];
    }
}

DEV float kept_bits(float x, u32 keep) { return __uint_as_float(__float_as_uint(x) & keep); }
constexpr u32 MAGNITUDE = 0x7fffffffu;

// ---- Convolutions ----------------------------------------------------------------------------------------------

// acc[lane][row][column] = sum over inputs of w * pixel for output channel `oc` and the rows from `row0` on.
// Lanes lie LANE_FLOATS apart; of every weight the bits in `keep` are used. w: [in][tap][out]. Rows outside the image are skipped at run time (the same for a whole warp), columns at compile time.
template <class L, int ROWS, int LANES, int LANE_FLOATS>
DEV void convolve(const float* planes, const float* w, int oc, int row0, float acc[LANES][ROWS * L::OW], u32 keep = ~0u,
                  int first = 0, int last = L::CI) {
    using P = Plane<L::IH, L::IW>;
    constexpr int taps = L::KH * L::KW;
    #pragma unroll
    for (int q = 0; q < LANES; q++)
        #pragma unroll
        for (int i = 0; i < ROWS * L::OW; i++) acc[q][i] = 0.0f;
    #pragma unroll (LANES == 1 ? 2 : 1)
    for (int ci = first; ci < last; ci++) {
        float wv[taps];
        #pragma unroll
        for (int k = 0; k < taps; k++) wv[k] = kept_bits(__ldg(w + (ci * taps + k) * L::CO + oc), keep);
        const float* plane = planes + ci * P::size;
        #pragma unroll
        for (int r = 0; r < (ROWS - 1) * L::SH + L::KH; r++) {
            int iy = row0 * L::SH - L::PH + r;
            if (iy < 0 || iy >= L::IH) continue;
            #pragma unroll
            for (int q = 0; q < LANES; q++) {
                float v[L::IW];
                load_shared_row<L::IW>(plane + q * LANE_FLOATS + iy * P::row, v);
                #pragma unroll
                for (int o = 0; o < ROWS; o++) {
                    int ky = r - o * L::SH;
                    if (ky < 0 || ky >= L::KH) continue;
                    #pragma unroll
                    for (int kx = 0; kx < L::KW; kx++) {
                        float ww = (q & 1) ? fabsf(wv[ky * L::KW + kx]) : wv[ky * L::KW + kx];
                        #pragma unroll
                        for (int x = 0; x < L::OW; x++) {
                            int ix = x * L::SW - L::PW + kx;
                            if (ix >= 0 && ix < L::IW) acc[q][o * L::OW + x] = fmaf(ww, v[ix], acc[q][o * L::OW + x]);
                        }
                    }
                }
            }
        }
    }
}

// The transpose: acc[lane][row][column] for input channel `ci` and the input rows from `row0` on (a multiple of the
// stride if the stride is more than one). wt: [out][tap][in]; planes hold gradients of the outputs.
template <class L, int ROWS, int LANES, int LANE_FLOATS>
DEV void convolve_back(const float* planes, const float* wt, int ci, int row0, float acc[LANES][ROWS * L::IW], u32 keep = ~0u,
                       int first_channel = 0, int last_channel = L::CO) {
    using P = Plane<L::OH, L::OW>;
    constexpr int taps = L::KH * L::KW;
    // Output rows that touch input row o are (row0 + o + PH - ky) / SH.
    constexpr int shift = (L::KH + L::SH - 1) / L::SH;
    constexpr int first = L::PH / L::SH - shift;
    constexpr int last = (ROWS - 1 + L::PH) / L::SH;
    #pragma unroll
    for (int q = 0; q < LANES; q++)
        #pragma unroll
        for (int i = 0; i < ROWS * L::IW; i++) acc[q][i] = 0.0f;
    #pragma unroll (LANES == 1 ? 2 : 1)
    for (int oc = first_channel; oc < last_channel; oc++) {
        float wv[taps];
        #pragma unroll
        for (int k = 0; k < taps; k++) wv[k] = kept_bits(__ldg(wt + (oc * taps + k) * L::CI + ci), keep);
        const float* plane = planes + oc * P::size;
        #pragma unroll
        for (int d = first; d <= last; d++) {
            bool touches = false;
            #pragma unroll
            for (int o = 0; o < ROWS; o++) { int ky = o + L::PH - d * L::SH; touches |= ky >= 0 && ky < L::KH; }
            if (!touches) continue;
            int oy = row0 / L::SH + d;
            if (oy < 0 || oy >= L::OH) continue;
            #pragma unroll
            for (int q = 0; q < LANES; q++) {
                float g[L::OW];
                load_shared_row<L::OW>(plane + q * LANE_FLOATS + oy * P::row, g);
                #pragma unroll
                for (int o = 0; o < ROWS; o++) {
                    int ky = o + L::PH - d * L::SH;
                    if (ky < 0 || ky >= L::KH) continue;
                    #pragma unroll
                    for (int kx = 0; kx < L::KW; kx++) {
                        float ww = (q & 1) ? fabsf(wv[ky * L::KW + kx]) : wv[ky * L::KW + kx];
                        #pragma unroll
                        for (int x = 0; x < L::OW; x++) {
                            int ix = x * L::SW - L::PW + kx;
                            if (ix >= 0 && ix < L::IW) acc[q][o * L::IW + ix] = fmaf(ww, g[x], acc[q][o * L::IW + ix]);
                        }
                    }
                }
            }
        }
    }
}

// In a solver step a thread owns few entries but all lanes of them. Products are cheapest the other way round: one lane, many
// rows, so that a weight serves many products. So each thread convolves for one lane and a part of the channels summed over, and
// the block exchanges the results. (source.rs computes the same sizes.)
template <int C, int H, int W, int SUMMED, int LANES, int NT> struct Exchange {
    static __device__ constexpr int most_rows() {
        int rows = H;
        while (rows > 1 && rows * W > 32) rows = (rows + 1) / 2;
        return rows;
    }
    static __device__ constexpr int parts() {
        int split = 1;
        while (split < 4 && 2 * split <= SUMMED && 2 * split * LANES * C * groups <= NT) split *= 2;
        return split;
    }
    static constexpr int rows = most_rows();
    static constexpr int groups = (H + rows - 1) / rows;
    static constexpr int split = parts();
    static constexpr int stride = (H * W) | 1;  // odd, against bank conflicts
    static constexpr int lane = C * stride;
    static constexpr int items = LANES * split * groups * C;
    static constexpr int slots = split > 1 ? split - 1 : 1;
    static constexpr int floats = LANES * slots * lane;
};
template <class L, int LANES, int NT, bool BACK> struct ExchangeOf {
    using type = Exchange<L::CO, L::OH, L::OW, L::CI, LANES, NT>;
};
template <class L, int LANES, int NT> struct ExchangeOf<L, LANES, NT, true> {
    using type = Exchange<L::CI, L::IH, L::IW, L::CO, LANES, NT>;
};

// Puts W x of the first `lanes` lanes (or the transpose) into `exchange`[lane][channel][entry]. All threads of the block must come
// here; the results are there for all when it returns. Where the sum is split, the first part's thread adds up the others'.
template <class L, int LANES, int NT, int LANE_FLOATS, bool BACK>
DEV void convolve_together(const float* planes, const float* w, float* exchange, int lanes) {
    constexpr int C = BACK ? L::CI : L::CO, H = BACK ? L::IH : L::OH, W = BACK ? L::IW : L::OW, summed = BACK ? L::CO : L::CI;
    using X = typename ExchangeOf<L, LANES, NT, BACK>::type;
    constexpr int entries = X::rows * W;
    static_assert(X::split == 1 || X::items <= NT, "a thread has one part of one sum");
    for (int item = threadIdx.x; item < (X::split > 1 ? NT : X::items); item += NT) {
        int c = item % C, row0 = item / C % X::groups * X::rows;
        int part = item / (C * X::groups) % X::split, q = item / (C * X::groups * X::split);
        bool busy = q < lanes;
        float acc[1][entries];
        if (busy) {
            u32 keep = (q & 1) ? MAGNITUDE : ~0u;
            int first = part * summed / X::split, last = (part + 1) * summed / X::split;
            if constexpr (BACK) convolve_back<L, X::rows, 1, 0>(planes + q * LANE_FLOATS, w, c, row0, acc, keep, first, last);
            else convolve<L, X::rows, 1, 0>(planes + q * LANE_FLOATS, w, c, row0, acc, keep, first, last);
        }
        float* to = exchange + q * X::lane + c * X::stride + row0 * W;
        if constexpr (X::split > 1) {
            if (busy && part > 0) {
                #pragma unroll
                for (int v = 0; v < entries; v++)
                    if (H % X::rows == 0 || row0 * W + v < H * W) to[(part - 1) * LANES * X::lane + v] = acc[0][v];
            }
            __syncthreads();
            busy = busy && part == 0;
            if (busy) {
                #pragma unroll
                for (int slot = 0; slot < X::slots; slot++)
                    #pragma unroll
                    for (int v = 0; v < entries; v++)
                        if (H % X::rows == 0 || row0 * W + v < H * W) acc[0][v] += to[slot * LANES * X::lane + v];
            }
        }
        if (busy) {
            #pragma unroll
            for (int v = 0; v < entries; v++)
                if (H % X::rows == 0 || row0 * W + v < H * W) to[v] = acc[0][v];
        }
    }
    __syncthreads();
}
// What a thread owns of the exchanged results: the rows from `row0` on of channel `c`.
template <class L, int LANES, int NT, int ROWS, bool BACK, int ENTRIES>
DEV void take(const float* exchange, int c, int row0, float out[][ENTRIES]) {
    constexpr int H = BACK ? L::IH : L::OH, W = BACK ? L::IW : L::OW;
    using X = typename ExchangeOf<L, LANES, NT, BACK>::type;
    #pragma unroll
    for (int q = 0; q < LANES; q++)
        #pragma unroll
        for (int v = 0; v < ROWS * W; v++)
            if (H % ROWS == 0 || row0 * W + v < H * W) out[q][v] = exchange[q * X::lane + c * X::stride + row0 * W + v];
}

// ---- Elementwise pieces ----------------------------------------------------------------------------------------

// ReLU of points (1 lane) or boxes (2 lanes); returns which ends are positive: bit 0 lower (or value), bit 1 upper.
// Written so that a NaN stays one.
template <int LANES> DEV u32 relu(float& c, float& r) {
    if constexpr (LANES == 1) {
        u32 on = c > 0.0f ? 1u : 0u;
        c = c < 0.0f ? 0.0f : c;
        return on;
    } else {
        float lo = c - r, up = c + r;
        u32 on = (lo > 0.0f ? 1u : 0u) | (up > 0.0f ? 2u : 0u);
        lo = lo < 0.0f ? 0.0f : lo;
        up = up < 0.0f ? 0.0f : up;
        c = 0.5f * (up + lo);
        r = 0.5f * (up - lo);
        return on;
    }
}
template <int LANES> DEV void relu_back(u32 on, float& c, float& r) {
    if constexpr (LANES == 1) {
        c = (on & 1) ? c : 0.0f;
    } else {
        float gu = (on & 2) ? 0.5f * (c + r) : 0.0f, gl = (on & 1) ? 0.5f * (c - r) : 0.0f;
        c = gu + gl;
        r = gu - gl;
    }
}

template <int N, class T> DEV void store_masks(T* to, const u32* m) {
    constexpr int per = 4 / sizeof(T);
    if constexpr (N % per == 0) {
        #pragma unroll
        for (int i = 0; i < N; i += per) {
            u32 word = 0;
            #pragma unroll
            for (int j = 0; j < per; j++) word |= m[i + j] << (8 * sizeof(T) * j);
            *reinterpret_cast<u32*>(to + i) = word;
        }
    } else {
        #pragma unroll
        for (int i = 0; i < N; i++) to[i] = (T)m[i];
    }
}
template <int N, class T> DEV void load_masks(const T* from, u32* m) {
    constexpr int per = 4 / sizeof(T);
    if constexpr (N % per == 0) {
        #pragma unroll
        for (int i = 0; i < N; i += per) {
            u32 word = *reinterpret_cast<const u32*>(from + i);
            #pragma unroll
            for (int j = 0; j < per; j++) m[i + j] = (word >> (8 * sizeof(T) * j)) & (sizeof(T) == 1 ? 0xffu : 0xffffu);
        }
    } else {
        #pragma unroll
        for (int i = 0; i < N; i++) m[i] = from[i];
    }
}

// Sums two numbers over the block; valid in thread 0. `scratch` holds 2 * 32 floats.
DEV void block_sum2(float& a, float& b, float* scratch) {
    for (int d = 16; d > 0; d >>= 1) { a += __shfl_down_sync(0xffffffffu, a, d); b += __shfl_down_sync(0xffffffffu, b, d); }
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = (blockDim.x + 31) >> 5;
    __syncthreads();
    if (lane == 0) { scratch[warp] = a; scratch[32 + warp] = b; }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < warps; i++) { a += scratch[i]; b += scratch[32 + i]; }
    }
}

// What the layers of a network's stretch look like in memory.
struct Weights {
    const float* w[8];      // [in][tap][out]
    const float* wt[8];     // [out][tap][in]
    const float* bias[8];   // [out]
    const float* shift[8];  // [out][position]: what a unit of time adds; unused without a time channel
};

// ---- A single layer --------------------------------------------------------------------------------------------

template <class L, int ROWS, int LANES>
DEV void layer_forward(const float* xc, const float* xr, const float* w, const float* bias, float* yc, float* yr, u8* mask) {
    extern __shared__ float planes[];
    using D = Outputs<L, ROWS>;
    constexpr int nin = L::CI * L::IH * L::IW, nout = L::CO * L::OH * L::OW;
    size_t b = blockIdx.x;
    stage_planes<L::CI, L::IH, L::IW>(xc + b * nin, planes);
    if constexpr (LANES == 2) stage_planes<L::CI, L::IH, L::IW>(xr + b * nin, planes + L::CI * Plane<L::IH, L::IW>::size);
    __syncthreads();
    for (int item = threadIdx.x; item < D::items; item += blockDim.x) {
        int oc = item % L::CO, row0 = item / L::CO * ROWS;
        float acc[LANES][D::entries];
        convolve<L, ROWS, LANES, L::CI * Plane<L::IH, L::IW>::size>(planes, w, oc, row0, acc);
        u32 m[D::entries];
        float bb = bias[oc];
        #pragma unroll
        for (int i = 0; i < D::entries; i++) {
            acc[0][i] += bb;
            m[i] = 3;
            if constexpr (L::RELU) m[i] = relu<LANES>(acc[0][i], acc[LANES - 1][i]);
        }
        size_t o = b * nout + (oc * L::OH + row0) * L::OW;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!D::whole && row0 + r >= L::OH) break;
            store_row<L::OW>(yc + o + r * L::OW, acc[0] + r * L::OW);
            if constexpr (LANES == 2) store_row<L::OW>(yr + o + r * L::OW, acc[1] + r * L::OW);
            store_masks<L::OW>(mask + o + r * L::OW, m + r * L::OW);
        }
    }
}

// Gradients in front of the activation.
template <class L, int LANES>
DEV void layer_gate(const float* gc, const float* gr, const u8* mask, float* dc, float* dr, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float c = gc[i], r = LANES == 2 ? gr[i] : 0.0f;
        if constexpr (L::RELU) relu_back<LANES>(mask[i], c, r);
        dc[i] = c;
        if constexpr (LANES == 2) dr[i] = r;
    }
}

template <class L, int ROWS, int LANES>
DEV void layer_back_inputs(const float* dc, const float* dr, const float* wt, float* gxc, float* gxr) {
    extern __shared__ float planes[];
    using D = Inputs<L, ROWS>;
    constexpr int nin = L::CI * L::IH * L::IW, nout = L::CO * L::OH * L::OW;
    size_t b = blockIdx.x;
    stage_planes<L::CO, L::OH, L::OW>(dc + b * nout, planes);
    if constexpr (LANES == 2) stage_planes<L::CO, L::OH, L::OW>(dr + b * nout, planes + L::CO * Plane<L::OH, L::OW>::size);
    __syncthreads();
    for (int item = threadIdx.x; item < D::items; item += blockDim.x) {
        int ci = item % L::CI, row0 = item / L::CI * ROWS;
        float acc[LANES][D::entries];
        convolve_back<L, ROWS, LANES, L::CO * Plane<L::OH, L::OW>::size>(planes, wt, ci, row0, acc);
        size_t o = b * nin + (ci * L::IH + row0) * L::IW;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!D::whole && row0 + r >= L::IH) break;
            store_row<L::IW>(gxc + o + r * L::IW, acc[0] + r * L::IW);
            if constexpr (LANES == 2) store_row<L::IW>(gxr + o + r * L::IW, acc[1] + r * L::IW);
        }
    }
}

// ---- Gradients of parameters -----------------------------------------------------------------------------------

// The rows that a gradient is summed over: `count` groups of `batch` samples. Group q reads inputs at group `source[q]`;
// `time[q]` and `bias[q]` are the factors of its part in the gradients of time taps and biases.
struct Rows {
    int count, batch;
    float time[26];
    float bias[26];
    int source[26];
};

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

// ---- Solver steps: points and independent boxes ----------------------------------------------------------------

template <class... Ls> struct Dynamics {
    static constexpr int count = sizeof...(Ls);
};
template <int I, class T> struct LayerAt;
template <int I, class First, class... Rest> struct LayerAt<I, Dynamics<First, Rest...>> {
    using type = typename LayerAt<I - 1, Dynamics<Rest...>>::type;
};
template <class First, class... Rest> struct LayerAt<0, Dynamics<First, Rest...>> { using type = First; };

template <class T> struct Sizes;
template <class... Ls> struct Sizes<Dynamics<Ls...>> {
    static __device__ constexpr int inputs(int upto) {  // sum of input sizes of the layers before
        int sum = 0, i = 0;
        ((sum += i++ < upto ? Ls::CI * Ls::IH * Ls::IW : 0), ...);
        return sum;
    }
    static __device__ constexpr int outputs(int upto) {
        int sum = 0, i = 0;
        ((sum += i++ < upto ? Ls::CO * Ls::OH * Ls::OW : 0), ...);
        return sum;
    }
    template <int LANES, int NT> static __device__ constexpr int exchange_floats() {  // largest exchange
        int size = 0;
        ((size = most(size, most(ExchangeOf<Ls, LANES, NT, false>::type::floats, ExchangeOf<Ls, LANES, NT, true>::type::floats))), ...);
        return size;
    }
    static __device__ constexpr int plane_floats() {  // largest image in padded planes
        int size = 0;
        ((size = most(size, most(Ls::CI * Plane<Ls::IH, Ls::IW>::size, Ls::CO * Plane<Ls::OH, Ls::OW>::size))), ...);
        return size;
    }
};

// Tableaux are structs with STAGES, SOLUTION (stages the solution needs), ERROR (whether there is an estimate) and
// functions A(stage, stage), DA (differences of rows), TA (their tail sums), B, C, E, TB and TE (tail sums of B and E).

// One trial step. Saved for the way back: inputs[layer][lane][stage][sample][entry], masks[layer][stage][sample][entry],
// signs of the error's centre. Null pointers: nothing is kept. errors[sample][4].
template <class N, class T, int ROWS, int LANES, int NT>
DEV void step_forward(const float* xc, const float* xr, float time, float h, Weights net, float* yc, float* yr,
                      float* errors, float* inputs, u8* masks, signed char* signs, int batch) {
    using First = typename LayerAt<0, N>::type;
    using Last = typename LayerAt<N::count - 1, N>::type;
    using S = Sizes<N>;
    using D = Outputs<Last, ROWS>;
    constexpr int n = First::CI * First::IH * First::IW;
    constexpr int slots = (D::items + NT - 1) / NT;  // items of the state for each thread
    constexpr int kept = slots * D::entries;
    constexpr int lane_floats = S::plane_floats();
    extern __shared__ float shared[];
    float* planes = shared;                         // [LANES][lane_floats]
    float* slopes = shared + LANES * lane_floats;   // [stage][lane][entry of the thread][thread]
    float* exchange = slopes + T::STAGES * LANES * kept * NT;
    float* scratch = exchange + S::template exchange_floats<LANES, NT>();
    size_t b = blockIdx.x;
    int tid = threadIdx.x;
    const float* from[2] = {xc + b * n, LANES == 2 ? xr + b * n : nullptr};
    float x[LANES][kept];
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int e0 = (item % Last::CO * Last::OH + item / Last::CO * ROWS) * Last::OW;
        #pragma unroll
        for (int q = 0; q < LANES; q++)
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (!D::whole && item / Last::CO * ROWS + r >= Last::OH) break;
                load_row<Last::OW>(from[q] + e0 + r * Last::OW, &x[q][s * D::entries + r * Last::OW]);
            }
    }
    #pragma unroll 1
    for (int i = 0; i < T::STAGES; i++) {
        // The stage's input.
        float in[LANES][kept];
        #pragma unroll
        for (int q = 0; q < LANES; q++)
            #pragma unroll
            for (int v = 0; v < kept; v++) in[q][v] = x[q][v];
        for (int j = 0; j < i; j++) {
            float a = h * T::A(i, j);
            if (a == 0.0f) continue;
            #pragma unroll
            for (int q = 0; q < LANES; q++) {
                float f = (q & 1) ? fabsf(a) : a;
                #pragma unroll
                for (int v = 0; v < kept; v++)
                    in[q][v] = fmaf(f, slopes[((j * LANES + q) * kept + v) * NT + tid], in[q][v]);
            }
        }
        using P0 = Plane<First::IH, First::IW>;
        #pragma unroll
        for (int s = 0; s < slots; s++) {
            int item = tid + s * NT;
            if (item >= D::items) break;
            int c = item % Last::CO, row0 = item / Last::CO * ROWS;
            #pragma unroll
            for (int q = 0; q < LANES; q++)
                #pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    if (!D::whole && row0 + r >= Last::OH) break;
                    float* row = &in[q][s * D::entries + r * Last::OW];
                    float* p = planes + q * lane_floats + c * P0::size + (row0 + r) * P0::row;
                    #pragma unroll
                    for (int xx = 0; xx < Last::OW; xx++) p[xx] = row[xx];
                    if (inputs)
                        store_row<Last::OW>(inputs + ((size_t)(q * T::STAGES + i) * batch + b) * n + (c * Last::OH + row0 + r) * Last::OW, row);
                }
        }
        __syncthreads();
        float at = time + T::C(i) * h;
        each<0, N::count>([&](auto number) {
            constexpr int l = decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = Outputs<L, ROWS>;
            constexpr int nout = L::CO * L::OH * L::OW;
            constexpr int mine = (O::items + NT - 1) / NT;
            constexpr bool last = l == N::count - 1;
            float acc[mine][LANES][O::entries];
            convolve_together<L, LANES, NT, lane_floats, false>(planes, net.w[l], exchange, LANES);
            #pragma unroll
            for (int s = 0; s < mine; s++) {
                int item = tid + s * NT;
                if (item >= O::items) break;
                int oc = item % L::CO, row0 = item / L::CO * ROWS;
                take<L, LANES, NT, ROWS, false>(exchange, oc, row0, acc[s]);
                float bb = net.bias[l][oc];
                u32 m[O::entries];
                size_t e0 = (oc * L::OH + row0) * L::OW;
                #pragma unroll
                for (int v = 0; v < O::entries; v++) {
                    float shift = 0.0f;
                    if constexpr (L::TIME) shift = (O::whole || row0 + v / L::OW < L::OH) ? at * net.shift[l][e0 + v] : 0.0f;
                    acc[s][0][v] += bb + shift;
                    m[v] = 3;
                    if constexpr (L::RELU) m[v] = relu<LANES>(acc[s][0][v], acc[s][LANES - 1][v]);
                }
                if (masks) {
                    #pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        if (!O::whole && row0 + r >= L::OH) break;
                        store_masks<L::OW>(masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout + e0 + r * L::OW, m + r * L::OW);
                    }
                }
                #pragma unroll
                for (int q = 0; q < LANES; q++) {
                    if constexpr (last) {
                        #pragma unroll
                        for (int v = 0; v < O::entries; v++)
                            slopes[((i * LANES + q) * kept + s * O::entries + v) * NT + tid] = acc[s][q][v];
                    } else {
                        using P = Plane<L::OH, L::OW>;
                        #pragma unroll
                        for (int r = 0; r < ROWS; r++) {
                            if (!O::whole && row0 + r >= L::OH) break;
                            float* p = planes + q * lane_floats + oc * P::size + (row0 + r) * P::row;
                            #pragma unroll
                            for (int xx = 0; xx < L::OW; xx++) p[xx] = acc[s][q][r * L::OW + xx];
                            if (inputs)
                                store_row<L::OW>(inputs + (size_t)LANES * T::STAGES * batch * S::inputs(l + 1) + ((size_t)(q * T::STAGES + i) * batch + b) * nout + e0 + r * L::OW,
                                                 &acc[s][q][r * L::OW]);
                        }
                    }
                }
            }
            if constexpr (!last) __syncthreads();
        });
    }
    // The end and the error estimate.
    float low = 0.0f, high = 0.0f, size = 0.0f, speed = 0.0f;
    float* to[2] = {yc + b * n, LANES == 2 ? yr + b * n : nullptr};
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int row0 = item / Last::CO * ROWS, e0 = (item % Last::CO * Last::OH + row0) * Last::OW;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!D::whole && row0 + r >= Last::OH) break;
            float y[LANES][Last::OW];
            #pragma unroll
            for (int xx = 0; xx < Last::OW; xx++) {
                int v = s * D::entries + r * Last::OW + xx;
                float e[2] = {0.0f, 0.0f};
                #pragma unroll
                for (int q = 0; q < LANES; q++) {
                    float sum = x[q][v];
                    for (int j = 0; j < T::STAGES; j++) {
                        float k = slopes[((j * LANES + q) * kept + v) * NT + tid];
                        float bj = h * T::B(j), ej = h * T::E(j);
                        sum = fmaf((q & 1) ? fabsf(bj) : bj, k, sum);
                        e[q] = fmaf((q & 1) ? fabsf(ej) : ej, k, e[q]);
                    }
                    y[q][xx] = sum;
                }
                float magnitude = fabsf(e[0]);
                // Not fmaxf, which would swallow a NaN.
                float least = magnitude - e[1];
                low += least < 0.0f ? 0.0f : least;
                high += magnitude + e[1];
                size += fabsf(x[0][v]);
                speed += fabsf(slopes[v * NT + tid]);
                if (signs) signs[b * n + e0 + r * Last::OW + xx] = e[0] > 0.0f ? 1 : e[0] < 0.0f ? -1 : 0;
            }
            #pragma unroll
            for (int q = 0; q < LANES; q++) store_row<Last::OW>(to[q] + e0 + r * Last::OW, y[q]);
        }
    }
    block_sum2(low, high, scratch);
    block_sum2(size, speed, scratch);
    if (tid == 0) *reinterpret_cast<float4*>(errors + b * 4) = make_float4(low, high, size, speed);
}

// Gradients at the start of a step. `grads[layer][lane][stage < last][sample][position][channel]` receives the gradients in front of
// each activation, for the gradients of weights.
template <class N, class T, int ROWS, int LANES, int NT>
DEV void step_backward(const float* gyc, const float* gyr, float h, float error_weight, Weights net, const u8* masks,
                       const signed char* signs, float* grads, float* gxc, float* gxr, int batch, int last_stage) {
    using First = typename LayerAt<0, N>::type;
    using Last = typename LayerAt<N::count - 1, N>::type;
    using S = Sizes<N>;
    using D = Outputs<Last, ROWS>;
    constexpr int n = First::CI * First::IH * First::IW;
    constexpr int slots = (D::items + NT - 1) / NT;
    constexpr int kept = slots * D::entries;
    constexpr int lane_floats = S::plane_floats();
    extern __shared__ float shared[];
    float* planes = shared;
    float* slopes = shared + LANES * lane_floats;
    float* exchange = slopes + T::STAGES * LANES * kept * NT;
    size_t b = blockIdx.x;
    int tid = threadIdx.x;
    const float* from[2] = {gyc + b * n, LANES == 2 ? gyr + b * n : nullptr};
    float gx[LANES][kept];
    #pragma unroll
    for (int q = 0; q < LANES; q++)
        #pragma unroll
        for (int v = 0; v < kept; v++) gx[q][v] = 0.0f;
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int row0 = item / Last::CO * ROWS, e0 = (item % Last::CO * Last::OH + row0) * Last::OW;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!D::whole && row0 + r >= Last::OH) break;
            #pragma unroll
            for (int q = 0; q < LANES; q++) load_row<Last::OW>(from[q] + e0 + r * Last::OW, &gx[q][s * D::entries + r * Last::OW]);
            #pragma unroll
            for (int xx = 0; xx < Last::OW; xx++) {
                int v = s * D::entries + r * Last::OW + xx;
                float ge = error_weight != 0.0f ? error_weight * (float)signs[b * n + e0 + r * Last::OW + xx] : 0.0f;
                for (int j = 0; j < last_stage; j++) {
                    float bj = h * T::B(j), ej = h * T::E(j);
                    slopes[(j * LANES * kept + v) * NT + tid] = bj * gx[0][v] + ej * ge;
                    if constexpr (LANES == 2)
                        slopes[((j * LANES + 1) * kept + v) * NT + tid] = fabsf(bj) * gx[1][v] + fabsf(ej) * error_weight;
                }
            }
        }
    }
    #pragma unroll 1
    for (int i = last_stage - 1; i >= 0; i--) {
        each<0, N::count>([&](auto number) {
            constexpr int l = N::count - 1 - decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = Outputs<L, ROWS>;
            constexpr int nout = L::CO * L::OH * L::OW;
            constexpr int mine = (O::items + NT - 1) / NT;
            float d[mine][LANES][O::entries];
            if constexpr (l < N::count - 1)
                convolve_together<typename LayerAt<l + 1, N>::type, LANES, NT, lane_floats, true>(planes, net.wt[l + 1], exchange, LANES);
            #pragma unroll
            for (int s = 0; s < mine; s++) {
                int item = tid + s * NT;
                if (item >= O::items) break;
                int oc = item % L::CO, row0 = item / L::CO * ROWS;
                if constexpr (l == N::count - 1) {
                    #pragma unroll
                    for (int q = 0; q < LANES; q++)
                        #pragma unroll
                        for (int v = 0; v < O::entries; v++) d[s][q][v] = slopes[((i * LANES + q) * kept + s * O::entries + v) * NT + tid];
                } else {
                    take<typename LayerAt<l + 1, N>::type, LANES, NT, ROWS, true>(exchange, oc, row0, d[s]);
                }
                size_t e0 = (oc * L::OH + row0) * L::OW;
                const u8* mask = masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout + e0;
                #pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    if (!O::whole && row0 + r >= L::OH) break;
                    if constexpr (L::RELU) {
                        u32 m[L::OW];
                        load_masks<L::OW>(mask + r * L::OW, m);
                        #pragma unroll
                        for (int xx = 0; xx < L::OW; xx++) relu_back<LANES>(m[xx], d[s][0][r * L::OW + xx], d[s][LANES - 1][r * L::OW + xx]);
                    }
                    #pragma unroll
                    for (int q = 0; q < LANES; q++)
                        if (grads)
                            store_apart<L::CO, L::OW>(grads + (size_t)LANES * last_stage * batch * S::outputs(l) + ((size_t)(q * last_stage + i) * batch + b) * nout + (row0 + r) * L::OW * L::CO + oc,
                                                      &d[s][q][r * L::OW]);
                }
            }
            #pragma unroll
            for (int s = 0; s < mine; s++) {
                int item = tid + s * NT;
                if (item >= O::items) break;
                int oc = item % L::CO, row0 = item / L::CO * ROWS;
                using P = Plane<L::OH, L::OW>;
                #pragma unroll
                for (int q = 0; q < LANES; q++)
                    #pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        if (!O::whole && row0 + r >= L::OH) break;
                        float* p = planes + q * lane_floats + oc * P::size + (row0 + r) * P::row;
                        #pragma unroll
                        for (int xx = 0; xx < L::OW; xx++) p[xx] = d[s][q][r * L::OW + xx];
                    }
            }
            __syncthreads();
        });
        // To the stage's input, and from there to the state and the earlier slopes.
        convolve_together<First, LANES, NT, lane_floats, true>(planes, net.wt[0], exchange, LANES);
        #pragma unroll
        for (int s = 0; s < slots; s++) {
            int item = tid + s * NT;
            if (item >= D::items) break;
            float g[LANES][D::entries];
            take<First, LANES, NT, ROWS, true>(exchange, item % First::CI, item / First::CI * ROWS, g);
            #pragma unroll
            for (int q = 0; q < LANES; q++)
                #pragma unroll
                for (int v = 0; v < D::entries; v++) gx[q][s * D::entries + v] += g[q][v];
            for (int j = 0; j < i; j++) {
                float a = h * T::A(i, j);
                if (a == 0.0f) continue;
                #pragma unroll
                for (int q = 0; q < LANES; q++) {
                    float f = (q & 1) ? fabsf(a) : a;
                    #pragma unroll
                    for (int v = 0; v < D::entries; v++) {
                        float* k = &slopes[((j * LANES + q) * kept + s * D::entries + v) * NT + tid];
                        *k = fmaf(f, g[q][v], *k);
                    }
                }
            }
        }
        __syncthreads();
    }
    float* to[2] = {gxc + b * n, LANES == 2 ? gxr + b * n : nullptr};
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int row0 = item / Last::CO * ROWS, e0 = (item % Last::CO * Last::OH + row0) * Last::OW;
        #pragma unroll
        for (int q = 0; q < LANES; q++)
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (!D::whole && row0 + r >= Last::OH) break;
                store_row<Last::OW>(to[q] + e0 + r * Last::OW, &gx[q][s * D::entries + r * Last::OW]);
            }
    }
}

// ---- Solver steps: boxes in difference form --------------------------------------------------------------------

// A ∩ B, or A if rounding has made that empty. Returns which ends are B's: bit 0 lower, bit 1 upper.
DEV u32 meet(float al, float au, float bl, float bu, float& l, float& u) {
    bool fl = bl > al, fu = bu < au;
    l = fl ? bl : al;
    u = fu ? bu : au;
    if (l > u) { l = al; u = au; return 0; }
    return (fl ? 1u : 0u) | (fu ? 2u : 0u);
}
DEV float positive(float x) { return x < 0.0f ? 0.0f : x; }

// What is known of one neuron's activation in a stage, and how: see the bits below.
enum : u32 {
    LOWER_ON = 1, UPPER_ON = 2,              // signs of the ends in front of the ReLU
    LOWER_CHAINED = 4, UPPER_CHAINED = 8,    // ends in front of it that came from the stage before
    LOWER_KIND = 16, UPPER_KIND = 64,        // 2 bits each: the difference's end is 0, that in front of it, or a difference of ReLUs
    LOWER_OUT = 256, UPPER_OUT = 512,        // ends behind it that came from the stage before
};
struct Ends { float lower, upper; };

// One neuron of one layer in a stage after the first. In: p ordinary (pc, pr), the change in front (dc, dr), the stage before
// (before, behind). Out: its ends in front and behind, the centre and radius behind and of the change behind.
template <bool RELU> DEV u32 chain(float& pc, float& pr, float& dc, float& dr, Ends& before, Ends& behind) {
    float dl = dc - dr, du = dc + dr;
    float l, u;
    u32 bits = meet(pc - pr, pc + pr, before.lower + dl, before.upper + du, l, u) << 2;
    if (l > 0.0f) bits |= LOWER_ON;
    if (u > 0.0f) bits |= UPPER_ON;
    float al = l, au = u, rl = dl, ru = du;
    if constexpr (RELU) {
        u32 kl = 1, ku = 1;
        if (before.lower >= 0.0f && l >= 0.0f) {
        } else if (before.upper <= 0.0f && u <= 0.0f) {
            rl = 0.0f; ru = 0.0f; kl = 0; ku = 0;
        } else {
            if (!(dl < 0.0f)) { rl = 0.0f; kl = 0; }
            if (!(du > 0.0f)) { ru = 0.0f; ku = 0; }
        }
        u32 other = meet(rl, ru, positive(l) - positive(before.upper), positive(u) - positive(before.lower), rl, ru);
        if (other & 1) kl = 2;
        if (other & 2) ku = 2;
        u32 out = meet(positive(l), positive(u), behind.lower + rl, behind.upper + ru, al, au);
        bits |= kl * LOWER_KIND | ku * UPPER_KIND | out * LOWER_OUT;
    }
    before = {l, u};
    behind = {al, au};
    pc = 0.5f * (al + au); pr = 0.5f * (au - al);
    dc = 0.5f * (rl + ru); dr = 0.5f * (ru - rl);
    return bits;
}

// The way back of `chain`. In: gradients behind (centre, radius) and of the change behind, and what the next stage owes the
// ends of this one (of_before, of_behind); `earlier` are the bits of the stage before. Out: gradients of p and of the change in
// front, and in of_before, of_behind what this stage owes the one before.
template <bool RELU>
DEV void chain_back(u32 bits, u32 earlier, float& pc, float& pr, float& dc, float& dr, Ends& of_before, Ends& of_behind) {
    Ends a = {0.5f * (pc - pr) + of_behind.lower, 0.5f * (pc + pr) + of_behind.upper};
    Ends rho = {0.5f * (dc - dr), 0.5f * (dc + dr)};
    Ends p = of_before, d = {0.0f, 0.0f};
    of_before = {0.0f, 0.0f};
    of_behind = {0.0f, 0.0f};
    if constexpr (RELU) {
        if (bits & LOWER_OUT) { of_behind.lower = a.lower; rho.lower += a.lower; }
        else if (bits & LOWER_ON) p.lower += a.lower;
        if (bits & UPPER_OUT) { of_behind.upper = a.upper; rho.upper += a.upper; }
        else if (bits & UPPER_ON) p.upper += a.upper;
        u32 kl = bits / LOWER_KIND & 3, ku = bits / UPPER_KIND & 3;
        if (kl == 1) d.lower = rho.lower;
        else if (kl == 2) {
            if (bits & LOWER_ON) p.lower += rho.lower;
            if (earlier & UPPER_ON) of_before.upper -= rho.lower;
        }
        if (ku == 1) d.upper = rho.upper;
        else if (ku == 2) {
            if (bits & UPPER_ON) p.upper += rho.upper;
            if (earlier & LOWER_ON) of_before.lower -= rho.upper;
        }
    } else {
        p.lower += a.lower; p.upper += a.upper;
        d = rho;
    }
    if (bits & LOWER_CHAINED) { of_before.lower += p.lower; d.lower += p.lower; p.lower = 0.0f; }
    if (bits & UPPER_CHAINED) { of_before.upper += p.upper; d.upper += p.upper; p.upper = 0.0f; }
    pc = p.lower + p.upper; pr = p.upper - p.lower;
    dc = d.lower + d.upper; dr = d.upper - d.lower;
}

// Entries a thread keeps for the layers before `upto`.
template <class T, int ROWS, int NT> struct Kept;
template <class... Ls, int ROWS, int NT> struct Kept<Dynamics<Ls...>, ROWS, NT> {
    static __device__ constexpr int upto(int limit) {
        int sum = 0, i = 0;
        ((sum += i++ < limit ? (Outputs<Ls, ROWS>::items + NT - 1) / NT * Outputs<Ls, ROWS>::entries : 0), ...);
        return sum;
    }
};

// Shared memory of both ways: planes[4 lanes], slopes[stage][2], ends of the state [2], then of every
// layer before [2] and behind [2] its activation; all but the planes are private to their thread: [entry][thread].
// The changes of the slopes, differences[stage][2], are too many for it and lie in global memory.
template <class N, class T, int ROWS, int NT> struct DifferenceMemory {
    using Last = typename LayerAt<N::count - 1, N>::type;
    static constexpr int kept = (Outputs<Last, ROWS>::items + NT - 1) / NT * Outputs<Last, ROWS>::entries;
    static constexpr int planes = 4 * Sizes<N>::plane_floats();
    static constexpr int slopes = planes;
    static constexpr int state = slopes + T::STAGES * 2 * kept * NT;
    static constexpr int layers = state + 2 * kept * NT;
    static constexpr int exchange = layers + 4 * Kept<N, ROWS, NT>::upto(N::count) * NT;
    static constexpr int scratch = exchange + Sizes<N>::template exchange_floats<4, NT>();
};

// inputs[layer][centre, radius][group][sample][entry] with the groups of ordinary inputs (one per stage) followed by those of
// differences (one per stage but the first); masks[layer][stage][sample][entry]; state_masks[stage][sample][entry]: bits 0, 1 the ends
// of the change that are telescoped, bits 2, 3 the ends of the input that came from the stage before; end_masks[sample][entry]: bits 0, 1
// of the end, bits 2, 3 of the error that are telescoped, bit 4: the error's lower end is the larger one.
template <class N, class T, int ROWS, int NT>
DEV void difference_forward(const float* xc, const float* xr, float time, float h, Weights net, float* yc, float* yr,
                            float* errors, float* inputs, u16* masks, u8* state_masks, u8* end_masks, float* memory, int batch) {
    using First = typename LayerAt<0, N>::type;
    using Last = typename LayerAt<N::count - 1, N>::type;
    using S = Sizes<N>;
    using M = DifferenceMemory<N, T, ROWS, NT>;
    using D = Outputs<Last, ROWS>;
    constexpr int n = First::CI * First::IH * First::IW;
    constexpr int slots = (D::items + NT - 1) / NT, kept = M::kept, groups = 2 * T::STAGES - 1;
    constexpr int lane_floats = S::plane_floats();
    extern __shared__ float shared[];
    float* planes = shared;
    size_t b = blockIdx.x;
    float *slopes = shared + M::slopes, *differences = memory + b * (2 * T::STAGES * kept * NT), *state = shared + M::state, *layers = shared + M::layers, *exchange = shared + M::exchange;
    int tid = threadIdx.x;
    const float* from[2] = {xc + b * n, xr + b * n};
    float x[2][kept];
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int row0 = item / Last::CO * ROWS, e0 = (item % Last::CO * Last::OH + row0) * Last::OW;
        #pragma unroll
        for (int q = 0; q < 2; q++)
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (!D::whole && row0 + r >= Last::OH) break;
                load_row<Last::OW>(from[q] + e0 + r * Last::OW, &x[q][s * D::entries + r * Last::OW]);
            }
    }
    #pragma unroll 1
    for (int i = 0; i < T::STAGES; i++) {
        float in[4][kept];
        u32 bits[kept];
        float sums[6][kept];  // the input, its change, its change telescoped: centre and radius
        #pragma unroll
        for (int v = 0; v < kept; v++) {
            sums[0][v] = x[0][v]; sums[1][v] = x[1][v];
            sums[2][v] = 0.0f; sums[3][v] = 0.0f; sums[4][v] = 0.0f; sums[5][v] = 0.0f;
        }
        #pragma unroll
        for (int j = 0; j < T::STAGES - 1; j++) {
            float a = h * T::A(i, j), d = h * T::DA(i, j), t = h * T::TA(i, j);
            #pragma unroll
            for (int v = 0; v < kept; v++) {
                float kc = 0.0f, kr = 0.0f, mc = 0.0f, mr = 0.0f;
                if (j < i) { kc = slopes[(j * 2 * kept + v) * NT + tid]; kr = slopes[((j * 2 + 1) * kept + v) * NT + tid]; }
                if (j == 0) { mc = kc; mr = kr; }
                else if (j < i) { mc = differences[(j * 2 * kept + v) * NT + tid]; mr = differences[((j * 2 + 1) * kept + v) * NT + tid]; }
                sums[0][v] = fmaf(a, kc, sums[0][v]); sums[1][v] = fmaf(fabsf(a), kr, sums[1][v]);
                sums[2][v] = fmaf(d, kc, sums[2][v]); sums[3][v] = fmaf(fabsf(d), kr, sums[3][v]);
                sums[4][v] = fmaf(t, mc, sums[4][v]); sums[5][v] = fmaf(fabsf(t), mr, sums[5][v]);
            }
        }
        #pragma unroll
        for (int v = 0; v < kept; v++) {
            float c = sums[0][v], r = sums[1][v], ac = sums[2][v], ar = sums[3][v], bc = sums[4][v], br = sums[5][v];
            bits[v] = 0;
            if (i > 0) {
                float dl, du, l, u;
                bits[v] = meet(ac - ar, ac + ar, bc - br, bc + br, dl, du);
                float pl = state[v * NT + tid], pu = state[(kept + v) * NT + tid];
                bits[v] |= meet(c - r, c + r, pl + dl, pu + du, l, u) << 2;
                c = 0.5f * (l + u); r = 0.5f * (u - l);
                in[2][v] = 0.5f * (dl + du); in[3][v] = 0.5f * (du - dl);
                state[v * NT + tid] = l; state[(kept + v) * NT + tid] = u;
            } else {
                state[v * NT + tid] = c - r; state[(kept + v) * NT + tid] = c + r;
                in[2][v] = 0.0f; in[3][v] = 0.0f;
            }
            in[0][v] = c; in[1][v] = r;
        }
        using P0 = Plane<First::IH, First::IW>;
        #pragma unroll
        for (int s = 0; s < slots; s++) {
            int item = tid + s * NT;
            if (item >= D::items) break;
            int c = item % Last::CO, row0 = item / Last::CO * ROWS;
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (!D::whole && row0 + r >= Last::OH) break;
                int e0 = (c * Last::OH + row0 + r) * Last::OW;
                #pragma unroll
                for (int q = 0; q < 4; q++) {
                    if (q >= 2 && i == 0) break;
                    float* row = &in[q][s * D::entries + r * Last::OW];
                    float* p = planes + q * lane_floats + c * P0::size + (row0 + r) * P0::row;
                    #pragma unroll
                    for (int xx = 0; xx < Last::OW; xx++) p[xx] = row[xx];
                    int group = q < 2 ? i : T::STAGES + i - 1;
                    if (inputs) store_row<Last::OW>(inputs + ((size_t)((q & 1) * groups + group) * batch + b) * n + e0, row);
                }
                if (state_masks) store_masks<Last::OW>(state_masks + ((size_t)i * batch + b) * n + e0, &bits[s * D::entries + r * Last::OW]);
            }
        }
        __syncthreads();
        float at = time + T::C(i) * h, elapsed = i > 0 ? (T::C(i) - T::C(i > 0 ? i - 1 : 0)) * h : 0.0f;
        each<0, N::count>([&](auto number) {
            constexpr int l = decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = Outputs<L, ROWS>;
            constexpr int nout = L::CO * L::OH * L::OW;
            constexpr int mine = (O::items + NT - 1) / NT;
            constexpr int own = mine * O::entries;
            constexpr bool last = l == N::count - 1;
            float* ends = layers + 4 * Kept<N, ROWS, NT>::upto(l) * NT;
            float acc[mine][4][O::entries];
            convolve_together<L, 4, NT, lane_floats, false>(planes, net.w[l], exchange, i == 0 ? 2 : 4);
            #pragma unroll
            for (int s = 0; s < mine; s++) {
                int item = tid + s * NT;
                if (item >= O::items) break;
                int oc = item % L::CO, row0 = item / L::CO * ROWS;
                take<L, 4, NT, ROWS, false>(exchange, oc, row0, acc[s]);
                float bb = net.bias[l][oc];
                u32 m[O::entries];
                size_t e0 = (oc * L::OH + row0) * L::OW;
                #pragma unroll
                for (int v = 0; v < O::entries; v++) {
                    float shift = 0.0f;
                    if constexpr (L::TIME) shift = (O::whole || row0 + v / L::OW < L::OH) ? net.shift[l][e0 + v] : 0.0f;
                    float &pc = acc[s][0][v], &pr = acc[s][1][v], &dc = acc[s][2][v], &dr = acc[s][3][v];
                    pc += bb + at * shift;
                    float* mem = ends + (s * O::entries + v) * NT + tid;
                    if (i == 0) {
                        float lo = pc - pr, up = pc + pr;
                        m[v] = (lo > 0.0f ? LOWER_ON : 0u) | (up > 0.0f ? UPPER_ON : 0u);
                        mem[0] = lo; mem[own * NT] = up;
                        if constexpr (L::RELU) { lo = positive(lo); up = positive(up); }
                        mem[2 * own * NT] = lo; mem[3 * own * NT] = up;
                        pc = 0.5f * (lo + up); pr = 0.5f * (up - lo);
                    } else {
                        dc += elapsed * shift;
                        Ends before = {mem[0], mem[own * NT]}, behind = {mem[2 * own * NT], mem[3 * own * NT]};
                        m[v] = chain<L::RELU>(pc, pr, dc, dr, before, behind);
                        mem[0] = before.lower; mem[own * NT] = before.upper;
                        mem[2 * own * NT] = behind.lower; mem[3 * own * NT] = behind.upper;
                    }
                }
                #pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    if (!O::whole && row0 + r >= L::OH) break;
                    if (masks)
                        store_masks<L::OW>(masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout + e0 + r * L::OW, m + r * L::OW);
                    if constexpr (!last) {
                        using P = Plane<L::OH, L::OW>;
                        #pragma unroll
                        for (int q = 0; q < 4; q++) {
                            if (q >= 2 && i == 0) break;
                            float* p = planes + q * lane_floats + oc * P::size + (row0 + r) * P::row;
                            #pragma unroll
                            for (int xx = 0; xx < L::OW; xx++) p[xx] = acc[s][q][r * L::OW + xx];
                            int group = q < 2 ? i : T::STAGES + i - 1;
                            if (inputs)
                                store_row<L::OW>(inputs + (size_t)2 * groups * batch * S::inputs(l + 1) + ((size_t)((q & 1) * groups + group) * batch + b) * nout + e0 + r * L::OW,
                                                 &acc[s][q][r * L::OW]);
                        }
                    }
                }
                if constexpr (last) {
                    #pragma unroll
                    for (int v = 0; v < O::entries; v++) {
                        int w = s * O::entries + v;
                        slopes[(i * 2 * kept + w) * NT + tid] = acc[s][0][v];
                        slopes[((i * 2 + 1) * kept + w) * NT + tid] = acc[s][1][v];
                        if (i > 0) {
                            differences[(i * 2 * kept + w) * NT + tid] = acc[s][2][v];
                            differences[((i * 2 + 1) * kept + w) * NT + tid] = acc[s][3][v];
                        }
                    }
                }
            }
            if constexpr (!last) __syncthreads();
        });
    }
    float low = 0.0f, high = 0.0f, size = 0.0f, speed = 0.0f;
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int row0 = item / Last::CO * ROWS;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!D::whole && row0 + r >= Last::OH) break;
            int e0 = (item % Last::CO * Last::OH + row0 + r) * Last::OW;
            float y[2][Last::OW];
            u32 m[Last::OW];
            #pragma unroll
            for (int xx = 0; xx < Last::OW; xx++) {
                int v = s * D::entries + r * Last::OW + xx;
                float ac = x[0][v], ar = x[1][v], bc = ac, br = ar;
                float fc = 0.0f, fr = 0.0f, tc = 0.0f, tr = 0.0f;
                for (int j = 0; j < T::STAGES; j++) {
                    float kc = slopes[(j * 2 * kept + v) * NT + tid], kr = slopes[((j * 2 + 1) * kept + v) * NT + tid];
                    float mc = kc, mr = kr;
                    if (j > 0) { mc = differences[(j * 2 * kept + v) * NT + tid]; mr = differences[((j * 2 + 1) * kept + v) * NT + tid]; }
                    float w = h * T::B(j), e = h * T::E(j), tw = h * T::TB(j), te = h * T::TE(j);
                    ac = fmaf(w, kc, ac); ar = fmaf(fabsf(w), kr, ar);
                    bc = fmaf(tw, mc, bc); br = fmaf(fabsf(tw), mr, br);
                    fc = fmaf(e, kc, fc); fr = fmaf(fabsf(e), kr, fr);
                    tc = fmaf(te, mc, tc); tr = fmaf(fabsf(te), mr, tr);
                }
                float l, u;
                m[xx] = meet(ac - ar, ac + ar, bc - br, bc + br, l, u);
                y[0][xx] = 0.5f * (l + u); y[1][xx] = 0.5f * (u - l);
                m[xx] |= meet(fc - fr, fc + fr, tc - tr, tc + tr, l, u) << 2;
                if (-l > u) m[xx] |= 16u;
                float least = l > -u ? l : -u;
                low += least < 0.0f ? 0.0f : least;
                high += -l > u ? -l : u;
                size += fabsf(x[0][v]);
                speed += fabsf(slopes[v * NT + tid]);
            }
            store_row<Last::OW>(yc + b * n + e0, y[0]);
            store_row<Last::OW>(yr + b * n + e0, y[1]);
            if (end_masks) store_masks<Last::OW>(end_masks + b * n + e0, m);
        }
    }
    block_sum2(low, high, shared + M::scratch);
    block_sum2(size, speed, shared + M::scratch);
    if (tid == 0) *reinterpret_cast<float4*>(errors + b * 4) = make_float4(low, high, size, speed);
}

// Splits the gradient of a meet among its two arguments, as centre and radius: `bits` say which ends are the second's.
DEV void share(u32 bits, Ends g, float& ac, float& ar, float& bc, float& br) {
    Ends a = {(bits & 1) ? 0.0f : g.lower, (bits & 2) ? 0.0f : g.upper};
    ac = a.lower + a.upper; ar = a.upper - a.lower;
    bc = g.lower + g.upper - ac; br = g.upper - g.lower - ar;
}

// grads[layer][centre, radius][group][sample][position][channel]: ordinary groups of the stages before `last_stage`, then differences of those
// but the first.
template <class N, class T, int ROWS, int NT>
DEV void difference_backward(const float* gyc, const float* gyr, float h, float error_weight, Weights net, const u16* masks,
                             const u8* state_masks, const u8* end_masks, float* memory, float* grads, float* gxc, float* gxr, int batch,
                             int last_stage) {
    using First = typename LayerAt<0, N>::type;
    using Last = typename LayerAt<N::count - 1, N>::type;
    using S = Sizes<N>;
    using M = DifferenceMemory<N, T, ROWS, NT>;
    using D = Outputs<Last, ROWS>;
    constexpr int n = First::CI * First::IH * First::IW;
    constexpr int slots = (D::items + NT - 1) / NT, kept = M::kept;
    constexpr int lane_floats = S::plane_floats();
    extern __shared__ float shared[];
    float* planes = shared;
    size_t b = blockIdx.x;
    float *slopes = shared + M::slopes, *differences = memory + b * (2 * T::STAGES * kept * NT), *state = shared + M::state, *layers = shared + M::layers, *exchange = shared + M::exchange;
    int tid = threadIdx.x, groups = 2 * last_stage - 1;
    float gx[2][kept];
    for (int i = M::state + tid; i < M::exchange; i += NT) shared[i] = 0.0f;
    #pragma unroll
    for (int q = 0; q < 2; q++)
        #pragma unroll
        for (int v = 0; v < kept; v++) gx[q][v] = 0.0f;
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int row0 = item / Last::CO * ROWS;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!D::whole && row0 + r >= Last::OH) break;
            int e0 = (item % Last::CO * Last::OH + row0 + r) * Last::OW;
            float gc[Last::OW], gr[Last::OW];
            u32 m[Last::OW];
            load_row<Last::OW>(gyc + b * n + e0, gc);
            load_row<Last::OW>(gyr + b * n + e0, gr);
            load_masks<Last::OW>(end_masks + b * n + e0, m);
            #pragma unroll
            for (int xx = 0; xx < Last::OW; xx++) {
                int v = s * D::entries + r * Last::OW + xx;
                float ac, ar, bc, br, fc, fr, tc, tr;
                share(m[xx], {0.5f * (gc[xx] - gr[xx]), 0.5f * (gc[xx] + gr[xx])}, ac, ar, bc, br);
                share(m[xx] >> 2, {(m[xx] & 16u) ? -error_weight : 0.0f, (m[xx] & 16u) ? 0.0f : error_weight}, fc, fr, tc, tr);
                gx[0][v] = gc[xx]; gx[1][v] = ar + br;
                for (int j = 0; j < last_stage; j++) {
                    float w = h * T::B(j), e = h * T::E(j), tw = h * T::TB(j), te = h * T::TE(j);
                    float kc = w * ac + e * fc, kr = fabsf(w) * ar + fabsf(e) * fr;
                    float mc = tw * bc + te * tc, mr = fabsf(tw) * br + fabsf(te) * tr;
                    if (j == 0) { kc += mc; kr += mr; mc = 0.0f; mr = 0.0f; }
                    slopes[(j * 2 * kept + v) * NT + tid] = kc;
                    slopes[((j * 2 + 1) * kept + v) * NT + tid] = kr;
                    differences[(j * 2 * kept + v) * NT + tid] = mc;
                    differences[((j * 2 + 1) * kept + v) * NT + tid] = mr;
                }
            }
        }
    }
    __syncthreads();
    #pragma unroll 1
    for (int i = last_stage - 1; i >= 0; i--) {
        each<0, N::count>([&](auto number) {
            constexpr int l = N::count - 1 - decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = Outputs<L, ROWS>;
            constexpr int nout = L::CO * L::OH * L::OW;
            constexpr int mine = (O::items + NT - 1) / NT;
            constexpr int own = mine * O::entries;
            float* owed = layers + 4 * Kept<N, ROWS, NT>::upto(l) * NT;
            float d[mine][4][O::entries];
            if constexpr (l < N::count - 1)
                convolve_together<typename LayerAt<l + 1, N>::type, 4, NT, lane_floats, true>(planes, net.wt[l + 1], exchange, i == 0 ? 2 : 4);
            #pragma unroll
            for (int s = 0; s < mine; s++) {
                int item = tid + s * NT;
                if (item >= O::items) break;
                int oc = item % L::CO, row0 = item / L::CO * ROWS;
                if constexpr (l == N::count - 1) {
                    #pragma unroll
                    for (int v = 0; v < O::entries; v++) {
                        int w = s * O::entries + v;
                        d[s][0][v] = slopes[(i * 2 * kept + w) * NT + tid];
                        d[s][1][v] = slopes[((i * 2 + 1) * kept + w) * NT + tid];
                        d[s][2][v] = differences[(i * 2 * kept + w) * NT + tid];
                        d[s][3][v] = differences[((i * 2 + 1) * kept + w) * NT + tid];
                    }
                } else {
                    take<typename LayerAt<l + 1, N>::type, 4, NT, ROWS, true>(exchange, oc, row0, d[s]);
                }
                size_t e0 = (oc * L::OH + row0) * L::OW;
                const u16* mask = masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout + e0;
                #pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    if (!O::whole && row0 + r >= L::OH) break;
                    u32 m[L::OW], earlier[L::OW];
                    load_masks<L::OW>(mask + r * L::OW, m);
                    if (i > 0) load_masks<L::OW>(mask + r * L::OW - (size_t)batch * nout, earlier);
                    #pragma unroll
                    for (int xx = 0; xx < L::OW; xx++) {
                        int v = r * L::OW + xx;
                        float* mem = owed + (s * O::entries + v) * NT + tid;
                        Ends before = {mem[0], mem[own * NT]}, behind = {mem[2 * own * NT], mem[3 * own * NT]};
                        if (i == 0) {
                            Ends a = {0.5f * (d[s][0][v] - d[s][1][v]) + behind.lower, 0.5f * (d[s][0][v] + d[s][1][v]) + behind.upper};
                            if constexpr (L::RELU) {
                                if (!(m[xx] & LOWER_ON)) a.lower = 0.0f;
                                if (!(m[xx] & UPPER_ON)) a.upper = 0.0f;
                            }
                            a.lower += before.lower; a.upper += before.upper;
                            d[s][0][v] = a.lower + a.upper; d[s][1][v] = a.upper - a.lower;
                        } else {
                            chain_back<L::RELU>(m[xx], earlier[xx], d[s][0][v], d[s][1][v], d[s][2][v], d[s][3][v], before, behind);
                            mem[0] = before.lower; mem[own * NT] = before.upper;
                            mem[2 * own * NT] = behind.lower; mem[3 * own * NT] = behind.upper;
                        }
                    }
                    #pragma unroll
                    for (int q = 0; q < 4; q++) {
                        if (q >= 2 && i == 0) break;
                        int group = q < 2 ? i : last_stage + i - 1;
                        if (grads)
                            store_apart<L::CO, L::OW>(grads + (size_t)2 * groups * batch * S::outputs(l) + ((size_t)((q & 1) * groups + group) * batch + b) * nout + (row0 + r) * L::OW * L::CO + oc,
                                                      &d[s][q][r * L::OW]);
                    }
                }
            }
            #pragma unroll
            for (int s = 0; s < mine; s++) {
                int item = tid + s * NT;
                if (item >= O::items) break;
                int oc = item % L::CO, row0 = item / L::CO * ROWS;
                using P = Plane<L::OH, L::OW>;
                #pragma unroll
                for (int q = 0; q < 4; q++) {
                    if (q >= 2 && i == 0) break;
                    #pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        if (!O::whole && row0 + r >= L::OH) break;
                        float* p = planes + q * lane_floats + oc * P::size + (row0 + r) * P::row;
                        #pragma unroll
                        for (int xx = 0; xx < L::OW; xx++) p[xx] = d[s][q][r * L::OW + xx];
                    }
                }
            }
            __syncthreads();
        });
        convolve_together<First, 4, NT, lane_floats, true>(planes, net.wt[0], exchange, i == 0 ? 2 : 4);
        #pragma unroll
        for (int s = 0; s < slots; s++) {
            int item = tid + s * NT;
            if (item >= D::items) break;
            int row0 = item / First::CI * ROWS;
            float g[4][D::entries];
            take<First, 4, NT, ROWS, true>(exchange, item % First::CI, row0, g);
            // What goes to the slopes by way of the input, of its change and of its change telescoped: centre and radius.
            float parts[6][D::entries];
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                u32 m[Last::OW];
                bool there = D::whole || row0 + r < Last::OH;
                int e0 = (item % Last::CO * Last::OH + row0 + r) * Last::OW;
                if (there) load_masks<Last::OW>(state_masks + ((size_t)i * batch + b) * n + e0, m);
                #pragma unroll
                for (int xx = 0; xx < Last::OW; xx++) {
                    int v = r * Last::OW + xx, w = s * D::entries + v;
                    #pragma unroll
                    for (int part = 0; part < 6; part++) parts[part][v] = 0.0f;
                    if (!there) continue;
                    Ends in = {0.5f * (g[0][v] - g[1][v]) + state[w * NT + tid], 0.5f * (g[0][v] + g[1][v]) + state[(kept + w) * NT + tid]};
                    if (i == 0) {
                        gx[0][w] += in.lower + in.upper; gx[1][w] += in.upper - in.lower;
                        continue;
                    }
                    Ends change = {0.5f * (g[2][v] - g[3][v]), 0.5f * (g[2][v] + g[3][v])}, owed = {0.0f, 0.0f};
                    if (m[xx] & 4) { owed.lower = in.lower; change.lower += in.lower; in.lower = 0.0f; }
                    if (m[xx] & 8) { owed.upper = in.upper; change.upper += in.upper; in.upper = 0.0f; }
                    state[w * NT + tid] = owed.lower; state[(kept + w) * NT + tid] = owed.upper;
                    parts[0][v] = in.lower + in.upper; parts[1][v] = in.upper - in.lower;
                    gx[0][w] += parts[0][v]; gx[1][w] += parts[1][v];
                    share(m[xx], change, parts[2][v], parts[3][v], parts[4][v], parts[5][v]);
                }
            }
            #pragma unroll
            for (int j = 0; j < T::STAGES - 1; j++) {
                if (j >= i) continue;
                float a = h * T::A(i, j), da = h * T::DA(i, j), t = h * T::TA(i, j);
                #pragma unroll
                for (int v = 0; v < D::entries; v++) {
                    int w = s * D::entries + v;
                    float kc = a * parts[0][v] + da * parts[2][v], kr = fabsf(a) * parts[1][v] + fabsf(da) * parts[3][v];
                    float mc = t * parts[4][v], mr = fabsf(t) * parts[5][v];
                    if (j == 0) { kc += mc; kr += mr; }
                    else {
                        differences[(j * 2 * kept + w) * NT + tid] += mc;
                        differences[((j * 2 + 1) * kept + w) * NT + tid] += mr;
                    }
                    slopes[(j * 2 * kept + w) * NT + tid] += kc;
                    slopes[((j * 2 + 1) * kept + w) * NT + tid] += kr;
                }
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int s = 0; s < slots; s++) {
        int item = tid + s * NT;
        if (item >= D::items) break;
        int row0 = item / Last::CO * ROWS;
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!D::whole && row0 + r >= Last::OH) break;
            int e0 = (item % Last::CO * Last::OH + row0 + r) * Last::OW;
            store_row<Last::OW>(gxc + b * n + e0, &gx[0][s * D::entries + r * Last::OW]);
            store_row<Last::OW>(gxr + b * n + e0, &gx[1][s * D::entries + r * Last::OW]);
        }
    }
}

// ---- Images ----------------------------------------------------------------------------------------------------

// Images lie channels last, tensors channels first.
struct Picture {
    int channels, positions;
};
KERNEL gather_images(const u8* images, const u32* indices, float* out, Picture p, int total) {
    int n = p.channels * p.positions;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int b = i / n, e = i % n, c = e / p.positions, at = e % p.positions;
        out[i] = __fdiv_rn((float)images[(size_t)indices[b] * n + at * p.channels + c], 255.0f);
    }
}
// normal: mean, then deviation of each channel.
KERNEL normalise(const float* pixels, const float* normal, float* out, Picture p, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int c = i % (p.channels * p.positions) / p.positions;
        out[i] = (pixels[i] - normal[c]) / normal[p.channels + c];
    }
}
KERNEL surround(const float* pixels, const float* normal, float radius, float* centre, float* width, Picture p, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int c = i % (p.channels * p.positions) / p.positions;
        float lo = fmaxf(pixels[i] - radius, 0.0f), up = fminf(pixels[i] + radius, 1.0f);
        centre[i] = (0.5f * (lo + up) - normal[c]) / normal[p.channels + c];
        width[i] = 0.5f * (up - lo) / normal[p.channels + c];
    }
}
DEV float uniform(u64 seed, u32 position) {
    u32 x = (u32)seed ^ position * 0x9E3779B9u, high = (u32)(seed >> 32);
    x ^= high << 16 | high >> 16;
    for (int i = 0; i < 2; i++) {
        x ^= x >> 16; x *= 0x7FEB352Du; x ^= x >> 15; x *= 0x846CA68Bu; x ^= x >> 16;
    }
    return (float)(x >> 8) * (1.0f / 16777216.0f);
}
KERNEL scatter_noise(const float* pixels, float reach, u64 seed, float* out, Picture p, int total) {
    int n = p.channels * p.positions;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int b = i / n, e = i % n, c = e / p.positions, at = e % p.positions;
        float v = pixels[i] + reach * (2.0f * uniform(seed, (u32)(b * n + at * p.channels + c)) - 1.0f);
        out[i] = fminf(fmaxf(v, 0.0f), 1.0f);
    }
}
KERNEL ascend_sign(float* attacked, const float* gradient, const float* pixels, float rate, float reach, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float g = gradient[i], v = attacked[i] + (g > 0.0f ? rate : g < 0.0f ? -rate : 0.0f);
        v = fminf(fmaxf(v, pixels[i] - reach), pixels[i] + reach);
        attacked[i] = fminf(fmaxf(v, 0.0f), 1.0f);
    }
}

// ---- Pooling, joining, adding ----------------------------------------------------------------------------------

KERNEL pool_forward(const float* x, float* y, int positions, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float sum = 0.0f;
        for (int p = 0; p < positions; p++) sum += x[(size_t)i * positions + p];
        y[i] = sum / (float)positions;
    }
}
KERNEL pool_backward(const float* g, float* gx, int positions, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) gx[i] = g[i / positions] / (float)positions;
}
KERNEL add_to(float* into, const float* part, float factor, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) into[i] += factor * part[i];
}
KERNEL scaled(const float* part, float factor, float* out, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) out[i] = factor * part[i];
}
// The hull so far (lower, upper) with the trajectory each end came from, widened by box number `index`.
KERNEL hull_with(const float* c, const float* r, float* lower, float* upper, u8* low_from, u8* up_from, int index, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float l = c[i] - r[i], u = c[i] + r[i];
        if (index == 0 || !(l >= lower[i])) { lower[i] = l; low_from[i] = (u8)index; }
        if (index == 0 || !(u <= upper[i])) { upper[i] = u; up_from[i] = (u8)index; }
    }
}
KERNEL recentre(float* lower, float* upper, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float l = lower[i], u = upper[i];
        lower[i] = 0.5f * (l + u); upper[i] = 0.5f * (u - l);
    }
}
KERNEL hull_back(const float* gc, const float* gr, const u8* low_from, const u8* up_from, float* oc, float* orr, int index, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float l = low_from[i] == index ? 0.5f * (gc[i] - gr[i]) : 0.0f, u = up_from[i] == index ? 0.5f * (gc[i] + gr[i]) : 0.0f;
        oc[i] = l + u; orr[i] = u - l;
    }
}

// ---- The last layer and the loss -------------------------------------------------------------------------------

// One warp per sample. w: [class][input]. Writes the gradients of the (differences of) logits: gc, gr [sample][class], and
// results[sample][4]: cross-entropy, weighted width, whether the label comes first, 1.
template <int LANES>
DEV void head_loss(const float* xc, const float* xr, const float* w, const float* bias, const u8* labels, const float* widths,
                   float weight, float width_weight, int squared, float* gc, float* gr, float* gxc, float* gxr, float* results,
                   int inputs, int classes, int batch) {
    int b = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (b >= batch) return;
    int y = labels[b];
    const float* x = xc + (size_t)b * inputs;
    const float* rad = LANES == 2 ? xr + (size_t)b * inputs : nullptr;
    extern __shared__ float shared[];
    float* top = shared + (threadIdx.x >> 5) * 2 * classes;  // worst-case logits, then radii
    float largest = -3.4e38f;
    for (int j = lane; j < classes; j += 32) {
        float c = 0.0f, r = 0.0f;
        if (LANES == 1) {
            for (int i = 0; i < inputs; i++) c = fmaf(w[j * inputs + i], x[i], c);
            c += bias[j];
        } else {
            for (int i = 0; i < inputs; i++) {
                float d = w[j * inputs + i] - w[y * inputs + i];
                c = fmaf(d, x[i], c);
                r = fmaf(fabsf(d), rad[i], r);
            }
            c += bias[j] - bias[y];
        }
        top[j] = c + r;
        top[classes + j] = r;
    }
    __syncwarp();
    bool first = true;
    for (int j = 0; j < classes; j++) {
        float t = top[j];
        if (!(t <= largest)) largest = t;
        if (j != y && !(t < top[y])) first = false;
    }
    float sum = 0.0f, width = 0.0f;
    for (int j = 0; j < classes; j++) {
        sum += expf(top[j] - largest);
        float r = 2.0f * top[classes + j];
        width += squared ? r * r : r;
    }
    float row = widths[b];
    for (int j = lane; j < classes; j += 32) {
        float p = expf(top[j] - largest) / sum;
        if (LANES == 1) {
            gc[b * classes + j] = weight * (p - (j == y ? 1.0f : 0.0f));
        } else {
            float r = top[classes + j];
            float g = j == y ? 0.0f : weight * p;
            float gw = j == y ? 0.0f : width_weight * row * (squared ? 8.0f * r : 2.0f);
            gc[b * classes + j] = g;
            gr[b * classes + j] = g + gw;
        }
    }
    __syncwarp();
    for (int i = lane; i < inputs; i += 32) {
        float c = 0.0f, r = 0.0f;
        for (int j = 0; j < classes; j++) {
            if (LANES == 1) c = fmaf(gc[b * classes + j], w[j * inputs + i], c);
            else {
                float d = w[j * inputs + i] - w[y * inputs + i];
                c = fmaf(gc[b * classes + j], d, c);
                r = fmaf(gr[b * classes + j], fabsf(d), r);
            }
        }
        gxc[(size_t)b * inputs + i] = c;
        if (LANES == 2) gxr[(size_t)b * inputs + i] = r;
    }
    if (lane == 0) {
        results[b * 4] = logf(sum) + largest - top[y];
        results[b * 4 + 1] = LANES == 2 ? row * width : 0.0f;
        results[b * 4 + 2] = first ? 1.0f : 0.0f;
        results[b * 4 + 3] = 1.0f;
    }
}
KERNEL loss_points(const float* xc, const float* xr, const float* w, const float* bias, const u8* labels, const float* widths, float weight,
                   float width_weight, int squared, float* gc, float* gr, float* gxc, float* gxr, float* results, int inputs, int classes, int batch) {
    head_loss<1>(xc, xr, w, bias, labels, widths, weight, width_weight, squared, gc, gr, gxc, gxr, results, inputs, classes, batch);
}
KERNEL loss_boxes(const float* xc, const float* xr, const float* w, const float* bias, const u8* labels, const float* widths, float weight,
                  float width_weight, int squared, float* gc, float* gr, float* gxc, float* gxr, float* results, int inputs, int classes, int batch) {
    head_loss<2>(xc, xr, w, bias, labels, widths, weight, width_weight, squared, gc, gr, gxc, gxr, results, inputs, classes, batch);
}
// Adds to the head's gradient. One block per class; inputs along x, slices of the batch along y; the bias is input number `inputs`.
KERNEL head_gradient(const float* xc, const float* xr, const float* w, const u8* labels, const float* gc, const float* gr, float* gw,
                     float* gb, int boxes, int inputs, int classes, int batch) {
    extern __shared__ float part[];
    int j = blockIdx.x, slices = blockDim.y;
    for (int i0 = 0; i0 <= inputs; i0 += blockDim.x) {
        int i = i0 + threadIdx.x;
        float sum = 0.0f;
        if (i <= inputs) {
            bool is_bias = i == inputs;
            for (int b = threadIdx.y; b < batch; b += slices) {
                int y = labels[b];
                float x = is_bias ? 1.0f : xc[(size_t)b * inputs + i];
                if (!boxes) { sum = fmaf(gc[b * classes + j], x, sum); continue; }
                float r = is_bias ? 0.0f : xr[(size_t)b * inputs + i];
                float wy = is_bias ? 0.0f : w[y * inputs + i];
                int from = j == y ? 0 : j, to = j == y ? classes : j + 1;
                float sign = j == y ? -1.0f : 1.0f;
                for (int k = from; k < to; k++) {
                    if (k == y) continue;
                    float d = is_bias ? 0.0f : w[k * inputs + i] - wy;
                    float s = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
                    sum += sign * (gc[b * classes + k] * x + gr[b * classes + k] * s * r);
                }
            }
        }
        part[threadIdx.y * blockDim.x + threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && i <= inputs) {
            for (int s = 1; s < slices; s++) sum += part[s * blockDim.x + threadIdx.x];
            if (i == inputs) gb[j] += sum; else gw[j * inputs + i] += sum;
        }
        __syncthreads();
    }
}

// ---- The optimiser ---------------------------------------------------------------------------------------------

KERNEL gradient_norm(const float* g, int n, double* out) {
    __shared__ double part[1024];
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += (double)g[i] * (double)g[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d >>= 1) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sqrt(part[0]);
}
KERNEL adam(float* p, const float* g, float* m, float* v, const double* norm, float rate, float decay, float beta1, float beta2,
            float epsilon, float clip, float correction1, float correction2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double factor = (double)clip / (*norm + 1e-6);
    float grad = factor < 1.0 ? (float)(g[i] * factor) : g[i];
    grad = fmaf(decay, p[i], grad);
    m[i] = beta1 * m[i] + (1.0f - beta1) * grad;
    v[i] = beta2 * v[i] + (1.0f - beta2) * grad * grad;
    p[i] -= rate / correction1 * m[i] / (sqrtf(v[i]) / correction2 + epsilon);
}

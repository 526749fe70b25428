// Convolutions and their transposes, by one thread and by a block together.

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

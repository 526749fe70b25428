// Convolutions and their transposes.

// Calls body(channel, weights) for every STEP-th channel from `part` on. w: [channel][tap][other channel]. Threads that share their
// channels (STEP > 1) each work long on one, and load the weights of the next one meanwhile.
template <int CHANNELS, int OTHERS, int TAPS, int LANES, int STEP, class F>
DEV void each_channel(const float* w, int other, int part, F&& body) {
    auto load = [&](int channel, float* to) {
        const float* from = w + (channel * (TAPS * OTHERS) + other);
        #pragma unroll
        for (int k = 0; k < TAPS; k++) to[k] = __ldg(from + k * OTHERS);
    };
    constexpr bool even = CHANNELS % STEP == 0;  // then all threads do the same
    float now[TAPS], ahead[TAPS];
    if (STEP > 1 && (even || part < CHANNELS)) load(part, now);
    #pragma unroll (LANES <= (STEP > 1 ? 2 : 1) ? 2 : 1)
    for (int first = 0; first < CHANNELS; first += STEP) {
        int channel = first + part;
        if (!even && channel >= CHANNELS) break;
        if constexpr (STEP == 1) {
            load(channel, now);
            body(channel, now);
        } else {
            if ((even ? first : channel) + STEP < CHANNELS) load(channel + STEP, ahead);
            body(channel, now);
            #pragma unroll
            for (int k = 0; k < TAPS; k++) now[k] = ahead[k];
        }
    }
}

// acc[lane][row][column] = sum of w * pixel over every STEP-th input channel from `part` on, for output channel `oc` and the rows
// from `row0` on; entries after those are zero. Lanes lie LANE_FLOATS apart. w: [in][tap][out]. Rows outside the image are
// skipped at run time (the same for a whole warp), columns at compile time.
template <class L, int ROWS, int LANES, int LANE_FLOATS, int STEP = 1, int SIZE>
DEV void convolve(const float* planes, const float* w, int oc, int row0, float (&acc)[LANES][SIZE], int part = 0) {
    using P = Plane<L::IH, L::IW>;
    #pragma unroll
    for (int q = 0; q < LANES; q++)
        #pragma unroll
        for (int i = 0; i < SIZE; i++) acc[q][i] = 0.0f;
    each_channel<L::CI, L::CO, L::KH * L::KW, LANES, STEP>(w, oc, part, [&](int ci, const float* wv) {
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
    });
}

// The transpose: acc[lane][row][column] for input channel `ci` and the input rows from `row0` on (a multiple of the
// stride if the stride is more than one). wt: [out][tap][in]; planes hold gradients of the outputs.
template <class L, int ROWS, int LANES, int LANE_FLOATS, int STEP = 1, int SIZE>
DEV void convolve_back(const float* planes, const float* wt, int ci, int row0, float (&acc)[LANES][SIZE], int part = 0) {
    using P = Plane<L::OH, L::OW>;
    // Output rows that touch input row o are (row0 + o + PH - ky) / SH.
    constexpr int shift = (L::KH + L::SH - 1) / L::SH;
    constexpr int first = L::PH / L::SH - shift;
    constexpr int last = (ROWS - 1 + L::PH) / L::SH;
    #pragma unroll
    for (int q = 0; q < LANES; q++)
        #pragma unroll
        for (int i = 0; i < SIZE; i++) acc[q][i] = 0.0f;
    each_channel<L::CO, L::CI, L::KH * L::KW, LANES, STEP>(wt, ci, part, [&](int oc, const float* wv) {
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
    });
}

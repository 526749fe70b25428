// Solver steps of points and of boxes whose stages know nothing of each other.

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
    // What the layers before take for a sample, in whole float4s: every layer's part of a buffer is aligned.
    static __device__ constexpr int inputs(int upto) {
        int sum = 0, i = 0;
        ((sum += i++ < upto ? (Ls::CI * Ls::IH * Ls::IW + 3) / 4 * 4 : 0), ...);
        return sum;
    }
    static __device__ constexpr int outputs(int upto) {
        int sum = 0, i = 0;
        ((sum += i++ < upto ? (Ls::CO * Ls::OH * Ls::OW + 3) / 4 * 4 : 0), ...);
        return sum;
    }
    static __device__ constexpr int plane_floats() {  // largest image in padded planes
        int size = 0;
        ((size = most(size, most(Ls::CI * Plane<Ls::IH, Ls::IW>::size, Ls::CO * Plane<Ls::OH, Ls::OW>::size))), ...);
        return size;
    }
    // Planes of all lanes, twice: see `turn`. The sums over the block take their place in the end.
    static __device__ constexpr int both_planes(int lanes) { return most(2 * lanes * plane_floats(), 64); }
};

// Tableaux are structs with STAGES, SOLUTION (stages the solution needs), ERROR (whether there is an estimate) and
// functions A(stage, stage), DA (differences of rows), TA (their tail sums), B, C, E, TB and TE (tail sums of B and E).

// Shared memory of both ways: planes[lane] twice, then slopes[stage][lane][piece], private to their threads.
template <class N, class T, int LANES, int NT> struct StepMemory {
    using State = OutputChunk<typename LayerAt<N::count - 1, N>::type, NT>;
    static constexpr int slopes = Sizes<N>::both_planes(LANES);
    static constexpr int floats = slopes + T::STAGES * LANES * State::kept * NT;
};

// One trial step. Saved for the way back: inputs[layer][lane][stage][sample][entry], masks[layer][stage][sample][entry],
// signs of the error's centre. Null pointers: nothing is kept. errors[sample][4].
template <class N, class T, int LANES, int NT>
DEV void step_forward(const float* xc, const float* xr, float time, float h, Weights net, float* yc, float* yr,
                      float* errors, float* inputs, u8* masks, signed char* signs, int batch) {
    using First = typename LayerAt<0, N>::type;
    using S = Sizes<N>;
    using M = StepMemory<N, T, LANES, NT>;
    using D = typename M::State;
    constexpr int n = First::CI * First::IH * First::IW, lane_floats = S::plane_floats();
    extern __shared__ float shared[];
    float *now = shared, *next = shared + LANES * lane_floats, *slopes = shared + M::slopes;
    auto slope = [&](int stage, int lane, int piece) {
        return slopes + ((stage * LANES + lane) * D::pieces + piece) * D::entries * NT;
    };
    size_t b = blockIdx.x;
    const float* from[2] = {xc + b * n, LANES == 2 ? xr + b * n : nullptr};
    #pragma unroll 1
    for (int i = 0; i < T::STAGES; i++) {
        // The stage's input.
        #pragma unroll 1
        for (int piece = 0; piece < D::pieces; piece++) {
            D at(piece);
            float in[LANES][D::entries];
            #pragma unroll
            for (int q = 0; q < LANES; q++) at.load(from[q], in[q]);
            for (int j = 0; j < i; j++) {
                float a = h * T::A(i, j);
                if (a == 0.0f) continue;
                #pragma unroll
                for (int q = 0; q < LANES; q++) {
                    float f = (q & 1) ? fabsf(a) : a, k[D::entries];
                    load_private<D::entries, NT>(slope(j, q, piece), k);
                    #pragma unroll
                    for (int v = 0; v < D::entries; v++) in[q][v] = fmaf(f, k[v], in[q][v]);
                }
            }
            #pragma unroll
            for (int q = 0; q < LANES; q++) {
                at.write_planes(next + q * lane_floats, in[q]);
                if (inputs) at.store(inputs + ((size_t)(q * T::STAGES + i) * batch + b) * n, in[q]);
            }
        }
        turn(now, next);
        float stage_time = time + T::C(i) * h;
        each<0, N::count>([&](auto number) {
            constexpr int l = decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = OutputChunk<L, NT>;
            constexpr int nout = L::CO * L::OH * L::OW;
            constexpr bool last = l == N::count - 1;
            #pragma unroll 1
            for (int piece = 0; piece < O::pieces; piece++) {
                O at(piece);
                float acc[LANES][O::entries], shift[O::entries];
                convolve_chunk<L, LANES, lane_floats, false>(now, net.w[l], at, acc);
                float bias = net.bias[l][at.safe_channel()];
                if constexpr (L::TIME) at.load(net.shift[l], shift);
                u32 m[O::entries];
                #pragma unroll
                for (int v = 0; v < O::entries; v++) {
                    acc[0][v] += L::TIME ? bias + stage_time * shift[v] : bias;
                    m[v] = 3;
                    if constexpr (L::RELU) m[v] = relu<LANES>(acc[0][v], acc[LANES - 1][v]);
                }
                if (masks) at.store_bits(masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout, m);
                #pragma unroll
                for (int q = 0; q < LANES; q++) {
                    if constexpr (last) {
                        store_private<O::entries, NT>(slope(i, q, piece), acc[q]);
                    } else {
                        at.write_planes(next + q * lane_floats, acc[q]);
                        if (inputs)
                            at.store(inputs + (size_t)LANES * T::STAGES * batch * S::inputs(l + 1) + ((size_t)(q * T::STAGES + i) * batch + b) * nout, acc[q]);
                    }
                }
            }
            // Nobody but its thread reads a slope, and the next stage's input goes to the planes that are not being read.
            if constexpr (!last) turn(now, next);
        });
    }
    // The end and the error estimate.
    float low = 0.0f, high = 0.0f, size = 0.0f, speed = 0.0f;
    float* to[2] = {yc + b * n, LANES == 2 ? yr + b * n : nullptr};
    #pragma unroll 1
    for (int piece = 0; piece < D::pieces; piece++) {
        D at(piece);
        float x[LANES][D::entries], y[LANES][D::entries], e[2][D::entries], k[D::entries];
        #pragma unroll
        for (int q = 0; q < 2; q++)
            #pragma unroll
            for (int v = 0; v < D::entries; v++) e[q][v] = 0.0f;
        #pragma unroll
        for (int q = 0; q < LANES; q++) {
            at.load(from[q], x[q]);
            #pragma unroll
            for (int v = 0; v < D::entries; v++) y[q][v] = x[q][v];
            for (int j = 0; j < T::STAGES; j++) {
                float bj = h * T::B(j), ej = h * T::E(j);
                load_private<D::entries, NT>(slope(j, q, piece), k);
                #pragma unroll
                for (int v = 0; v < D::entries; v++) {
                    y[q][v] = fmaf((q & 1) ? fabsf(bj) : bj, k[v], y[q][v]);
                    e[q][v] = fmaf((q & 1) ? fabsf(ej) : ej, k[v], e[q][v]);
                }
            }
            at.store(to[q], y[q]);
        }
        u32 m[D::entries];
        load_private<D::entries, NT>(slope(0, 0, piece), k);
        #pragma unroll
        for (int v = 0; v < D::entries; v++) {
            m[v] = e[0][v] > 0.0f ? 1u : e[0][v] < 0.0f ? 0xffu : 0u;
            if (!at.has(v)) continue;
            float magnitude = fabsf(e[0][v]);
            // Not fmaxf, which would swallow a NaN.
            float least = magnitude - e[1][v];
            low += least < 0.0f ? 0.0f : least;
            high += magnitude + e[1][v];
            size += fabsf(x[0][v]);
            speed += fabsf(k[v]);
        }
        if (signs) at.store_bits(reinterpret_cast<u8*>(signs) + b * n, m);
    }
    block_sum2(low, high, shared);
    block_sum2(size, speed, shared);
    if (threadIdx.x == 0) *reinterpret_cast<float4*>(errors + b * 4) = make_float4(low, high, size, speed);
}

// Gradients at the start of a step. `grads[layer][lane][stage < last][sample][position][channel]` receives the gradients in front of
// each activation, for the gradients of weights.
template <class N, class T, int LANES, int NT>
DEV void step_backward(const float* gyc, const float* gyr, float h, float error_weight, Weights net, const u8* masks,
                       const signed char* signs, float* grads, float* gxc, float* gxr, int batch, int last_stage) {
    using First = typename LayerAt<0, N>::type;
    using S = Sizes<N>;
    using M = StepMemory<N, T, LANES, NT>;
    using D = typename M::State;
    constexpr int n = First::CI * First::IH * First::IW, lane_floats = S::plane_floats();
    extern __shared__ float shared[];
    float *now = shared, *next = shared + LANES * lane_floats, *slopes = shared + M::slopes;
    auto slope = [&](int stage, int lane, int piece) {
        return slopes + ((stage * LANES + lane) * D::pieces + piece) * D::entries * NT;
    };
    size_t b = blockIdx.x;
    const float* from[2] = {gyc + b * n, LANES == 2 ? gyr + b * n : nullptr};
    float* to[2] = {gxc + b * n, LANES == 2 ? gxr + b * n : nullptr};  // sums up what the stages say
    #pragma unroll 1
    for (int piece = 0; piece < D::pieces; piece++) {
        D at(piece);
        float g[LANES][D::entries], k[LANES][D::entries];
        u32 m[D::entries];
        #pragma unroll
        for (int q = 0; q < LANES; q++) { at.load(from[q], g[q]); at.store(to[q], g[q]); }
        #pragma unroll
        for (int v = 0; v < D::entries; v++) m[v] = 0;
        if (error_weight != 0.0f) at.load_bits(reinterpret_cast<const u8*>(signs) + b * n, m);
        for (int j = 0; j < last_stage; j++) {
            float bj = h * T::B(j), ej = h * T::E(j);
            #pragma unroll
            for (int v = 0; v < D::entries; v++) {
                k[0][v] = bj * g[0][v] + ej * (error_weight * (float)(signed char)m[v]);
                if constexpr (LANES == 2) k[1][v] = fabsf(bj) * g[1][v] + fabsf(ej) * error_weight;
            }
            #pragma unroll
            for (int q = 0; q < LANES; q++) store_private<D::entries, NT>(slope(j, q, piece), k[q]);
        }
    }
    #pragma unroll 1
    for (int i = last_stage - 1; i >= 0; i--) {
        each<0, N::count>([&](auto number) {
            constexpr int l = N::count - 1 - decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = OutputChunk<L, NT>;
            constexpr int nout = L::CO * L::OH * L::OW;
            #pragma unroll 1
            for (int piece = 0; piece < O::pieces; piece++) {
                O at(piece);
                float d[LANES][O::entries];
                if constexpr (l == N::count - 1) {
                    #pragma unroll
                    for (int q = 0; q < LANES; q++) load_private<O::entries, NT>(slope(i, q, piece), d[q]);
                } else {
                    convolve_chunk<typename LayerAt<l + 1, N>::type, LANES, lane_floats, true>(now, net.wt[l + 1], at, d);
                }
                if constexpr (L::RELU) {
                    u32 m[O::entries];
                    at.load_bits(masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout, m);
                    #pragma unroll
                    for (int v = 0; v < O::entries; v++) relu_back<LANES>(m[v], d[0][v], d[LANES - 1][v]);
                }
                #pragma unroll
                for (int q = 0; q < LANES; q++) {
                    at.write_planes(next + q * lane_floats, d[q]);
                    if (grads)
                        at.store_last(grads + (size_t)LANES * last_stage * batch * S::outputs(l) + ((size_t)(q * last_stage + i) * batch + b) * nout, d[q]);
                }
            }
            turn(now, next);
        });
        // To the stage's input, and from there to the state and the earlier slopes.
        #pragma unroll 1
        for (int piece = 0; piece < D::pieces; piece++) {
            D at(piece);
            float g[LANES][D::entries];
            convolve_chunk<First, LANES, lane_floats, true>(now, net.wt[0], at, g);
            #pragma unroll
            for (int q = 0; q < LANES; q++) {
                float sum[D::entries];
                at.load(to[q], sum);
                #pragma unroll
                for (int v = 0; v < D::entries; v++) sum[v] += g[q][v];
                at.store(to[q], sum);
            }
            for (int j = 0; j < i; j++) {
                float a = h * T::A(i, j);
                if (a == 0.0f) continue;
                #pragma unroll
                for (int q = 0; q < LANES; q++) {
                    float f = (q & 1) ? fabsf(a) : a, k[D::entries];
                    load_private<D::entries, NT>(slope(j, q, piece), k);
                    #pragma unroll
                    for (int v = 0; v < D::entries; v++) k[v] = fmaf(f, g[q][v], k[v]);
                    store_private<D::entries, NT>(slope(j, q, piece), k);
                }
            }
        }
    }
}

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

// Solver steps of boxes in difference form.

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

// Solver steps of boxes in difference form.

// Entries a thread keeps for the layers before `upto`.
template <class T, int NT> struct Kept;
template <class... Ls, int NT> struct Kept<Dynamics<Ls...>, NT> {
    static __device__ constexpr int upto(int limit) {
        int sum = 0, i = 0;
        ((sum += i++ < limit ? OutputChunk<Ls, NT>::kept : 0), ...);
        return sum;
    }
};

// Shared memory of both ways: planes[4 lanes] twice, ends of the state [2][piece], then of every layer before [2][piece] and
// behind [2][piece] its activation; all but the planes are private to their thread. So are the slopes and their changes,
// [stage][4 lanes][piece], too many for it: they lie in global memory, where each is read once in a stage.
template <class N, class T, int NT> struct DifferenceMemory {
    using State = OutputChunk<typename LayerAt<N::count - 1, N>::type, NT>;
    static constexpr int state = Sizes<N>::both_planes(4);
    static constexpr int layers = state + 2 * State::kept * NT;
    static constexpr int floats = layers + 4 * Kept<N, NT>::upto(N::count) * NT;
    static constexpr int slopes = T::STAGES * 4 * State::kept * NT;  // of a block
};

// inputs[layer][centre, radius][group][sample][entry] with the groups of ordinary inputs (one per stage) followed by those of
// differences (one per stage but the first); masks[layer][stage][sample][entry]; state_masks[stage][sample][entry]: bits 0, 1 the ends
// of the change that are telescoped, bits 2, 3 the ends of the input that came from the stage before; end_masks[sample][entry]: bits 0, 1
// of the end, bits 2, 3 of the error that are telescoped, bit 4: the error's lower end is the larger one.
template <class N, class T, int NT>
DEV void difference_forward(const float* xc, const float* xr, float time, float h, Weights net, float* yc, float* yr,
                            float* errors, float* inputs, u16* masks, u8* state_masks, u8* end_masks, float* memory, int batch) {
    using First = typename LayerAt<0, N>::type;
    using S = Sizes<N>;
    using M = DifferenceMemory<N, T, NT>;
    using D = typename M::State;
    constexpr int n = First::CI * First::IH * First::IW, groups = 2 * T::STAGES - 1;
    constexpr int lane_floats = S::plane_floats(), own = D::entries * NT;
    extern __shared__ float shared[];
    float *now = shared, *next = shared + 4 * lane_floats;
    size_t b = blockIdx.x;
    float *slopes = memory + b * M::slopes, *state = shared + M::state, *layers = shared + M::layers;
    auto slope = [&](int stage, int lane, int piece) { return slopes + ((stage * 4 + lane) * D::pieces + piece) * own; };
    #pragma unroll 1
    for (int i = 0; i < T::STAGES; i++) {
        #pragma unroll 1
        for (int piece = 0; piece < D::pieces; piece++) {
            D at(piece);
            float in[4][D::entries];
            u32 bits[D::entries];
            float sums[6][D::entries];  // the input, its change, its change telescoped: centre and radius
            at.load(xc + b * n, sums[0]);
            at.load(xr + b * n, sums[1]);
            #pragma unroll
            for (int v = 0; v < D::entries; v++) { sums[2][v] = 0.0f; sums[3][v] = 0.0f; sums[4][v] = 0.0f; sums[5][v] = 0.0f; }
            #pragma unroll
            for (int j = 0; j < T::STAGES - 1; j++) {
                if (j >= i) continue;
                float a = h * T::A(i, j), d = h * T::DA(i, j), t = h * T::TA(i, j);
                float k[4][D::entries];
                #pragma unroll
                for (int q = 0; q < 4; q++) load_private<D::entries, NT>(slope(j, j == 0 ? q & 1 : q, piece), k[q]);
                #pragma unroll
                for (int v = 0; v < D::entries; v++) {
                    sums[0][v] = fmaf(a, k[0][v], sums[0][v]); sums[1][v] = fmaf(fabsf(a), k[1][v], sums[1][v]);
                    sums[2][v] = fmaf(d, k[0][v], sums[2][v]); sums[3][v] = fmaf(fabsf(d), k[1][v], sums[3][v]);
                    sums[4][v] = fmaf(t, k[2][v], sums[4][v]); sums[5][v] = fmaf(fabsf(t), k[3][v], sums[5][v]);
                }
            }
            float *lower = state + piece * own, *upper = state + (D::pieces + piece) * own;
            float pl[D::entries], pu[D::entries];
            if (i > 0) { load_private<D::entries, NT>(lower, pl); load_private<D::entries, NT>(upper, pu); }
            #pragma unroll
            for (int v = 0; v < D::entries; v++) {
                float c = sums[0][v], r = sums[1][v], ac = sums[2][v], ar = sums[3][v], bc = sums[4][v], br = sums[5][v];
                float l = c - r, u = c + r;
                bits[v] = 0;
                in[2][v] = 0.0f; in[3][v] = 0.0f;
                if (i > 0) {
                    float dl, du;
                    bits[v] = meet(ac - ar, ac + ar, bc - br, bc + br, dl, du);
                    bits[v] |= meet(c - r, c + r, pl[v] + dl, pu[v] + du, l, u) << 2;
                    c = 0.5f * (l + u); r = 0.5f * (u - l);
                    in[2][v] = 0.5f * (dl + du); in[3][v] = 0.5f * (du - dl);
                }
                pl[v] = l; pu[v] = u;
                in[0][v] = c; in[1][v] = r;
            }
            store_private<D::entries, NT>(lower, pl);
            store_private<D::entries, NT>(upper, pu);
            #pragma unroll
            for (int q = 0; q < 4; q++) {
                if (q >= 2 && i == 0) break;
                at.write_planes(next + q * lane_floats, in[q]);
                int group = q < 2 ? i : T::STAGES + i - 1;
                if (inputs) at.store(inputs + ((size_t)((q & 1) * groups + group) * batch + b) * n, in[q]);
            }
            if (state_masks) at.store_bits(state_masks + ((size_t)i * batch + b) * n, bits);
        }
        turn(now, next);
        float stage_time = time + T::C(i) * h, elapsed = i > 0 ? (T::C(i) - T::C(i > 0 ? i - 1 : 0)) * h : 0.0f;
        each<0, N::count>([&](auto number) {
            constexpr int l = decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = OutputChunk<L, NT>;
            constexpr int nout = L::CO * L::OH * L::OW;
            constexpr bool last = l == N::count - 1;
            float* layer = layers + 4 * Kept<N, NT>::upto(l) * NT;
            #pragma unroll 1
            for (int piece = 0; piece < O::pieces; piece++) {
                O at(piece);
                float acc[4][O::entries], shift[O::entries], ends[4][O::entries];
                if (i == 0) convolve_chunk<L, 2, lane_floats, false>(now, net.w[l], at, acc);
                else convolve_chunk<L, 4, lane_floats, false>(now, net.w[l], at, acc);
                float bias = net.bias[l][at.safe_channel()];
                if constexpr (L::TIME) at.load(net.shift[l], shift);
                auto end = [&](int which) { return layer + (which * O::pieces + piece) * O::entries * NT; };
                if (i > 0) {
                    #pragma unroll
                    for (int e = 0; e < 4; e++) load_private<O::entries, NT>(end(e), ends[e]);
                }
                u32 m[O::entries];
                #pragma unroll
                for (int v = 0; v < O::entries; v++) {
                    float &pc = acc[0][v], &pr = acc[1][v], &dc = acc[2][v], &dr = acc[3][v];
                    pc += L::TIME ? bias + stage_time * shift[v] : bias;
                    Ends before, behind;
                    if (i == 0) {
                        before = {pc - pr, pc + pr};
                        m[v] = (before.lower > 0.0f ? LOWER_ON : 0u) | (before.upper > 0.0f ? UPPER_ON : 0u);
                        behind = before;
                        if constexpr (L::RELU) behind = {positive(before.lower), positive(before.upper)};
                        pc = 0.5f * (behind.lower + behind.upper); pr = 0.5f * (behind.upper - behind.lower);
                    } else {
                        if constexpr (L::TIME) dc += elapsed * shift[v];
                        before = {ends[0][v], ends[1][v]};
                        behind = {ends[2][v], ends[3][v]};
                        m[v] = chain<L::RELU>(pc, pr, dc, dr, before, behind);
                    }
                    ends[0][v] = before.lower; ends[1][v] = before.upper; ends[2][v] = behind.lower; ends[3][v] = behind.upper;
                }
                #pragma unroll
                for (int e = 0; e < 4; e++) store_private<O::entries, NT>(end(e), ends[e]);
                if (masks) at.store_bits(masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout, m);
                #pragma unroll
                for (int q = 0; q < 4; q++) {
                    if (q >= 2 && i == 0) break;
                    if constexpr (last) {
                        store_private<O::entries, NT>(slope(i, q, piece), acc[q]);
                    } else {
                        at.write_planes(next + q * lane_floats, acc[q]);
                        int group = q < 2 ? i : T::STAGES + i - 1;
                        if (inputs)
                            at.store(inputs + (size_t)2 * groups * batch * S::inputs(l + 1) + ((size_t)((q & 1) * groups + group) * batch + b) * nout, acc[q]);
                    }
                }
            }
            // Nobody but its thread reads a slope, and the next stage's input goes to the planes that are not being read.
            if constexpr (!last) turn(now, next);
        });
    }
    float low = 0.0f, high = 0.0f, size = 0.0f, speed = 0.0f;
    #pragma unroll 1
    for (int piece = 0; piece < D::pieces; piece++) {
        D at(piece);
        float x[D::entries], y[2][D::entries];
        at.load(xc + b * n, x);
        at.load(xr + b * n, y[1]);
        // The end and the error, both also telescoped: centre and radius.
        float sums[8][D::entries], first[D::entries];
        #pragma unroll
        for (int v = 0; v < D::entries; v++) {
            sums[0][v] = x[v]; sums[1][v] = y[1][v]; sums[2][v] = x[v]; sums[3][v] = y[1][v];
            sums[4][v] = 0.0f; sums[5][v] = 0.0f; sums[6][v] = 0.0f; sums[7][v] = 0.0f;
        }
        for (int j = 0; j < T::STAGES; j++) {
            float w = h * T::B(j), e = h * T::E(j), tw = h * T::TB(j), te = h * T::TE(j);
            float k[4][D::entries];
            #pragma unroll
            for (int q = 0; q < 4; q++) load_private<D::entries, NT>(slope(j, j == 0 ? q & 1 : q, piece), k[q]);
            #pragma unroll
            for (int v = 0; v < D::entries; v++) {
                if (j == 0) first[v] = k[0][v];
                sums[0][v] = fmaf(w, k[0][v], sums[0][v]); sums[1][v] = fmaf(fabsf(w), k[1][v], sums[1][v]);
                sums[2][v] = fmaf(tw, k[2][v], sums[2][v]); sums[3][v] = fmaf(fabsf(tw), k[3][v], sums[3][v]);
                sums[4][v] = fmaf(e, k[0][v], sums[4][v]); sums[5][v] = fmaf(fabsf(e), k[1][v], sums[5][v]);
                sums[6][v] = fmaf(te, k[2][v], sums[6][v]); sums[7][v] = fmaf(fabsf(te), k[3][v], sums[7][v]);
            }
        }
        u32 m[D::entries];
        #pragma unroll
        for (int v = 0; v < D::entries; v++) {
            float ac = sums[0][v], ar = sums[1][v], bc = sums[2][v], br = sums[3][v];
            float fc = sums[4][v], fr = sums[5][v], tc = sums[6][v], tr = sums[7][v];
            float l, u;
            m[v] = meet(ac - ar, ac + ar, bc - br, bc + br, l, u);
            y[0][v] = 0.5f * (l + u); y[1][v] = 0.5f * (u - l);
            m[v] |= meet(fc - fr, fc + fr, tc - tr, tc + tr, l, u) << 2;
            if (-l > u) m[v] |= 16u;
            if (!at.has(v)) continue;
            float least = l > -u ? l : -u;
            low += least < 0.0f ? 0.0f : least;
            high += -l > u ? -l : u;
            size += fabsf(x[v]);
            speed += fabsf(first[v]);
        }
        at.store(yc + b * n, y[0]);
        at.store(yr + b * n, y[1]);
        if (end_masks) at.store_bits(end_masks + b * n, m);
    }
    block_sum2(low, high, shared);
    block_sum2(size, speed, shared);
    if (threadIdx.x == 0) *reinterpret_cast<float4*>(errors + b * 4) = make_float4(low, high, size, speed);
}

// grads[layer][centre, radius][group][sample][position][channel]: ordinary groups of the stages before `last_stage`, then differences of those
// but the first.
template <class N, class T, int NT>
DEV void difference_backward(const float* gyc, const float* gyr, float h, float error_weight, Weights net, const u16* masks,
                             const u8* state_masks, const u8* end_masks, float* memory, float* grads, float* gxc, float* gxr, int batch,
                             int last_stage) {
    using First = typename LayerAt<0, N>::type;
    using S = Sizes<N>;
    using M = DifferenceMemory<N, T, NT>;
    using D = typename M::State;
    constexpr int n = First::CI * First::IH * First::IW;
    constexpr int lane_floats = S::plane_floats(), own = D::entries * NT;
    extern __shared__ float shared[];
    float *now = shared, *next = shared + 4 * lane_floats;
    size_t b = blockIdx.x;
    float *slopes = memory + b * M::slopes, *state = shared + M::state, *layers = shared + M::layers;
    auto slope = [&](int stage, int lane, int piece) { return slopes + ((stage * 4 + lane) * D::pieces + piece) * own; };
    int groups = 2 * last_stage - 1;
    float *gx[2] = {gxc + b * n, gxr + b * n};  // sum up what the stages say
    // Nothing is owed yet.
    for (int v = M::state + threadIdx.x; v < M::floats; v += NT) shared[v] = 0.0f;
    __syncthreads();
    #pragma unroll 1
    for (int piece = 0; piece < D::pieces; piece++) {
        D at(piece);
        float gc[D::entries], gr[D::entries], parts[8][D::entries];
        u32 m[D::entries];
        at.load(gyc + b * n, gc);
        at.load(gyr + b * n, gr);
        at.load_bits(end_masks + b * n, m);
        #pragma unroll
        for (int v = 0; v < D::entries; v++) {
            share(m[v], {0.5f * (gc[v] - gr[v]), 0.5f * (gc[v] + gr[v])}, parts[0][v], parts[1][v], parts[2][v], parts[3][v]);
            share(m[v] >> 2, {(m[v] & 16u) ? -error_weight : 0.0f, (m[v] & 16u) ? 0.0f : error_weight}, parts[4][v], parts[5][v], parts[6][v], parts[7][v]);
            gr[v] = parts[1][v] + parts[3][v];
        }
        at.store(gx[0], gc);
        at.store(gx[1], gr);
        for (int j = 0; j < last_stage; j++) {
            float w = h * T::B(j), e = h * T::E(j), tw = h * T::TB(j), te = h * T::TE(j);
            float k[4][D::entries];
            #pragma unroll
            for (int v = 0; v < D::entries; v++) {
                k[0][v] = w * parts[0][v] + e * parts[4][v]; k[1][v] = fabsf(w) * parts[1][v] + fabsf(e) * parts[5][v];
                k[2][v] = tw * parts[2][v] + te * parts[6][v]; k[3][v] = fabsf(tw) * parts[3][v] + fabsf(te) * parts[7][v];
                if (j == 0) { k[0][v] += k[2][v]; k[1][v] += k[3][v]; k[2][v] = 0.0f; k[3][v] = 0.0f; }
            }
            #pragma unroll
            for (int q = 0; q < 4; q++) store_private<D::entries, NT>(slope(j, q, piece), k[q]);
        }
    }
    #pragma unroll 1
    for (int i = last_stage - 1; i >= 0; i--) {
        each<0, N::count>([&](auto number) {
            constexpr int l = N::count - 1 - decltype(number)::value;
            using L = typename LayerAt<l, N>::type;
            using O = OutputChunk<L, NT>;
            constexpr int nout = L::CO * L::OH * L::OW;
            float* layer = layers + 4 * Kept<N, NT>::upto(l) * NT;
            #pragma unroll 1
            for (int piece = 0; piece < O::pieces; piece++) {
                O at(piece);
                float d[4][O::entries], owed[4][O::entries];
                if constexpr (l == N::count - 1) {
                    #pragma unroll
                    for (int q = 0; q < 4; q++) load_private<O::entries, NT>(slope(i, q, piece), d[q]);
                } else {
                    using Next = typename LayerAt<l + 1, N>::type;
                    if (i == 0) convolve_chunk<Next, 2, lane_floats, true>(now, net.wt[l + 1], at, d);
                    else convolve_chunk<Next, 4, lane_floats, true>(now, net.wt[l + 1], at, d);
                }
                auto end = [&](int which) { return layer + (which * O::pieces + piece) * O::entries * NT; };
                const u16* mask = masks + (size_t)T::STAGES * batch * S::outputs(l) + ((size_t)i * batch + b) * nout;
                u32 m[O::entries], earlier[O::entries];
                at.load_bits(mask, m);
                if (i > 0) at.load_bits(mask - (size_t)batch * nout, earlier);
                #pragma unroll
                for (int e = 0; e < 4; e++) load_private<O::entries, NT>(end(e), owed[e]);
                #pragma unroll
                for (int v = 0; v < O::entries; v++) {
                    Ends before = {owed[0][v], owed[1][v]}, behind = {owed[2][v], owed[3][v]};
                    if (i == 0) {
                        Ends a = {0.5f * (d[0][v] - d[1][v]) + behind.lower, 0.5f * (d[0][v] + d[1][v]) + behind.upper};
                        if constexpr (L::RELU) {
                            if (!(m[v] & LOWER_ON)) a.lower = 0.0f;
                            if (!(m[v] & UPPER_ON)) a.upper = 0.0f;
                        }
                        a.lower += before.lower; a.upper += before.upper;
                        d[0][v] = a.lower + a.upper; d[1][v] = a.upper - a.lower;
                    } else {
                        chain_back<L::RELU>(m[v], earlier[v], d[0][v], d[1][v], d[2][v], d[3][v], before, behind);
                        owed[0][v] = before.lower; owed[1][v] = before.upper; owed[2][v] = behind.lower; owed[3][v] = behind.upper;
                    }
                }
                if (i > 0) {
                    #pragma unroll
                    for (int e = 0; e < 4; e++) store_private<O::entries, NT>(end(e), owed[e]);
                }
                #pragma unroll
                for (int q = 0; q < 4; q++) {
                    if (q >= 2 && i == 0) break;
                    at.write_planes(next + q * lane_floats, d[q]);
                    int group = q < 2 ? i : last_stage + i - 1;
                    if (grads)
                        at.store_last(grads + (size_t)2 * groups * batch * S::outputs(l) + ((size_t)((q & 1) * groups + group) * batch + b) * nout, d[q]);
                }
            }
            turn(now, next);
        });
        #pragma unroll 1
        for (int piece = 0; piece < D::pieces; piece++) {
            D at(piece);
            float g[4][D::entries];
            if (i == 0) convolve_chunk<First, 2, lane_floats, true>(now, net.wt[0], at, g);
            else convolve_chunk<First, 4, lane_floats, true>(now, net.wt[0], at, g);
            float *lower = state + piece * own, *upper = state + (D::pieces + piece) * own;
            float pl[D::entries], pu[D::entries], sums[2][D::entries];
            load_private<D::entries, NT>(lower, pl);
            load_private<D::entries, NT>(upper, pu);
            #pragma unroll
            for (int q = 0; q < 2; q++) at.load(gx[q], sums[q]);
            // What goes to the slopes by way of the input, of its change and of its change telescoped: centre and radius.
            float parts[6][D::entries];
            u32 m[D::entries];
            at.load_bits(state_masks + ((size_t)i * batch + b) * n, m);
            #pragma unroll
            for (int v = 0; v < D::entries; v++) {
                Ends in = {0.5f * (g[0][v] - g[1][v]) + pl[v], 0.5f * (g[0][v] + g[1][v]) + pu[v]};
                if (i > 0) {
                    Ends change = {0.5f * (g[2][v] - g[3][v]), 0.5f * (g[2][v] + g[3][v])}, owed = {0.0f, 0.0f};
                    if (m[v] & 4) { owed.lower = in.lower; change.lower += in.lower; in.lower = 0.0f; }
                    if (m[v] & 8) { owed.upper = in.upper; change.upper += in.upper; in.upper = 0.0f; }
                    pl[v] = owed.lower; pu[v] = owed.upper;
                    share(m[v], change, parts[2][v], parts[3][v], parts[4][v], parts[5][v]);
                }
                parts[0][v] = in.lower + in.upper; parts[1][v] = in.upper - in.lower;
                sums[0][v] += parts[0][v]; sums[1][v] += parts[1][v];
            }
            #pragma unroll
            for (int q = 0; q < 2; q++) at.store(gx[q], sums[q]);
            if (i == 0) continue;
            store_private<D::entries, NT>(lower, pl);
            store_private<D::entries, NT>(upper, pu);
            #pragma unroll
            for (int j = 0; j < T::STAGES - 1; j++) {
                if (j >= i) continue;
                float a = h * T::A(i, j), da = h * T::DA(i, j), t = h * T::TA(i, j);
                float k[4][D::entries];
                #pragma unroll
                for (int q = 0; q < (j == 0 ? 2 : 4); q++) load_private<D::entries, NT>(slope(j, q, piece), k[q]);
                #pragma unroll
                for (int v = 0; v < D::entries; v++) {
                    float kc = a * parts[0][v] + da * parts[2][v], kr = fabsf(a) * parts[1][v] + fabsf(da) * parts[3][v];
                    float mc = t * parts[4][v], mr = fabsf(t) * parts[5][v];
                    if (j == 0) { kc += mc; kr += mr; }
                    else { k[2][v] += mc; k[3][v] += mr; }
                    k[0][v] += kc; k[1][v] += kr;
                }
                #pragma unroll
                for (int q = 0; q < (j == 0 ? 2 : 4); q++) store_private<D::entries, NT>(slope(j, q, piece), k[q]);
            }
        }
    }
}

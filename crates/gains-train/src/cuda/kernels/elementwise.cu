// Activations, masks, sums over a block.

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

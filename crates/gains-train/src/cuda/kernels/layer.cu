// A single layer.

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

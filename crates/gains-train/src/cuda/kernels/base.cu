// Kernels of the trainer, specialised by a generated tail: one struct of constants per layer (see source.rs).
//
// Tensors are [sample][channel][row][column]. A thread owns "items" of a layer: one output channel and a few whole
// rows of it, so that a weight is loaded once for many products, lanes of a warp read weights side by side and pixels
// by broadcast; in solver steps it owns chunks (chunk.cu). Lanes of numbers travel together: points have 1 (value), boxes 2 (centre, radius), boxes in difference
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

// Rows in shared memory are padded to whole float4s, planes by one more against bank conflicts, or by two where four planes
// would lie on two banks' worth of float4s. (source.rs computes the same sizes.)
template <int H, int W> struct Plane {
    static constexpr int row = (W + 3) / 4 * 4;
    static constexpr int size = H * row + (H * row % 16 == 12 ? 8 : 4);
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

// What the layers of a network's stretch look like in memory.
struct Weights {
    const float* w[8];      // [in][tap][out]
    const float* wt[8];     // [out][tap][in]
    const float* bias[8];   // [out]
    const float* shift[8];  // [out][position]: what a unit of time adds; unused without a time channel
};

// The rows that a gradient is summed over: `count` groups of `batch` samples. Group q reads inputs at group `source[q]`;
// `time[q]` and `bias[q]` are the factors of its part in the gradients of time taps and biases.
struct Rows {
    int count, batch;
    float time[26];
    float bias[26];
    int source[26];
};

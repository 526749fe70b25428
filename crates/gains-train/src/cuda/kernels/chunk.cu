// How a solver step is dealt out: a block has one sample, a thread one channel of a layer's result and one of four parts of
// the channels that it sums over, every fourth of them, for all lanes and several rows at once. So a weight is loaded once for
// many products. Lanes of a warp are 8 channels times 4 parts. The four threads of a channel add up their sums by shuffles,
// after which each has a quarter of the entries, its chunk, and owns that: it activates it, remembers it and hands it on to the
// next layer. Weights, chunks, and gradients with their channels last are all read and written in whole sectors.

// The chunks of an H×W image of C channels that a thread owns, NT threads being there. An image of many rows is worked on in
// groups of rows, one of many channels in slots of NT/4 channels: a thread has a piece for each of both. Where the sizes do not
// fit, chunks have fewer entries or none; their threads work all the same, on numbers that lead nowhere, as shuffles need
// whole warps. (source.rs computes the same sizes.)
template <int C, int H, int W, int NT> struct Chunk {
    static __device__ constexpr int most_rows() {
        int rows = H;
        while (rows > 1 && rows * W > 32) rows = (rows + 1) / 2;
        return rows;
    }
    static constexpr int rows = most_rows();
    static constexpr int groups = (H + rows - 1) / rows;
    static constexpr int entries = (rows * W + 3) / 4;
    static constexpr int items = (C + 7) / 8 * 32;
    static constexpr int pieces = (items + NT - 1) / NT * groups;
    static constexpr int kept = pieces * entries;
    static constexpr bool busy_threads = items % NT == 0;
    static constexpr bool whole = busy_threads && C % 8 == 0 && H % rows == 0 && rows * W % 4 == 0;
    static constexpr bool vectors = entries % 4 == 0 && rows * W % 4 == 0 && H * W % 4 == 0;

    int channel, part, row0, position, count;

    DEV explicit Chunk(int piece) {
        int item = threadIdx.x + piece / groups * NT;
        channel = item / 32 * 8 + item % 8;
        part = item / 8 % 4;
        row0 = piece % groups * rows;
        position = row0 * W + part * entries;
        int end = (row0 + rows < H ? row0 + rows : H) * W;
        count = channel < C ? end - position : 0;
    }
    // Whether there is an entry v: with vectors the same for each four of them.
    DEV bool has(int v) const { return whole || v < count; }
    // Whether the thread's warp has any channel: the same for all of it.
    DEV bool busy() const { return busy_threads || channel / 8 * 8 < C; }
    // A channel whose weights can be loaded.
    DEV int safe_channel() const { return whole || channel < C ? channel : C - 1; }

    // Entries that are not there become zero.
    DEV void load(const float* image, float* r) const {
        const float* p = image + (channel * (H * W) + position);
        if constexpr (vectors) {
            #pragma unroll
            for (int v = 0; v < entries; v += 4) {
                float4 f = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (has(v)) f = *reinterpret_cast<const float4*>(p + v);
                r[v] = f.x; r[v + 1] = f.y; r[v + 2] = f.z; r[v + 3] = f.w;
            }
        } else {
            #pragma unroll
            for (int v = 0; v < entries; v++) r[v] = has(v) ? p[v] : 0.0f;
        }
    }
    DEV void store(float* image, const float* r) const { put<vectors>(image + (channel * (H * W) + position), r); }
    // To padded planes.
    DEV void write_planes(float* planes, const float* r) const {
        using P = Plane<H, W>;
        float* plane = planes + channel * P::size;
        if constexpr (vectors && W % 4 == 0) {
            put<true>(plane + position, r);
        } else {
            #pragma unroll
            for (int v = 0; v < entries; v++)
                if (has(v)) plane[(position + v) / W * P::row + (position + v) % W] = r[v];
        }
    }
    // To an image with the channels last.
    DEV void store_last(float* image, const float* r) const {
        float* p = image + (position * C + channel);
        #pragma unroll
        for (int v = 0; v < entries; v++)
            if (has(v)) p[v * C] = r[v];
    }
    template <class T> DEV void store_bits(T* image, const u32* m) const {
        constexpr int step = vectors ? 4 : 1;
        T* p = image + (channel * (H * W) + position);
        #pragma unroll
        for (int v = 0; v < entries; v += step)
            if (has(v)) store_masks<step>(p + v, m + v);
    }
    template <class T> DEV void load_bits(const T* image, u32* m) const {
        constexpr int step = vectors ? 4 : 1;
        const T* p = image + (channel * (H * W) + position);
        #pragma unroll
        for (int v = 0; v < entries; v += step) {
            #pragma unroll
            for (int w = 0; w < step; w++) m[v + w] = 0;
            if (has(v)) load_masks<step>(p + v, m + v);
        }
    }

  private:
    template <bool VECTORS> DEV void put(float* p, const float* r) const {
        constexpr int step = VECTORS ? 4 : 1;
        #pragma unroll
        for (int v = 0; v < entries; v += step)
            if (has(v)) store_row<step>(p + v, r + v);
    }
};
template <class L, int NT> using OutputChunk = Chunk<L::CO, L::OH, L::OW, NT>;
template <class L, int NT> using InputChunk = Chunk<L::CI, L::IH, L::IW, NT>;

// Memory that is private to its thread, N floats for each of the NT: threads lie side by side.
template <int N, int NT> DEV void load_private(const float* p, float* r) {
    constexpr int step = N % 4 == 0 ? 4 : 1;
    #pragma unroll
    for (int v = 0; v < N; v += step) load_row<step>(p + v * NT + threadIdx.x * step, r + v);
}
template <int N, int NT> DEV void store_private(float* p, const float* r) {
    constexpr int step = N % 4 == 0 ? 4 : 1;
    #pragma unroll
    for (int v = 0; v < N; v += step) store_row<step>(p + v * NT + threadIdx.x * step, r + v);
}

// W x (BACK: the transpose) of the first LANES lanes, for the chunk. All threads of a warp must come here together.
template <class L, int LANES, int LANE_FLOATS, bool BACK, class At>
DEV void convolve_chunk(const float* planes, const float* w, const At& at, float out[][At::entries]) {
    constexpr int E = At::entries;
    if (!at.busy()) {
        #pragma unroll
        for (int q = 0; q < LANES; q++)
            #pragma unroll
            for (int v = 0; v < E; v++) out[q][v] = 0.0f;
        return;
    }
    float acc[LANES][4 * E];
    if constexpr (BACK) convolve_back<L, At::rows, LANES, LANE_FLOATS, 4>(planes, w, at.safe_channel(), at.row0, acc, at.part);
    else convolve<L, At::rows, LANES, LANE_FLOATS, 4>(planes, w, at.safe_channel(), at.row0, acc, at.part);
    // Each gives away the half that the other one keeps, then the same with half of that.
    bool second = at.part & 2, odd = at.part & 1;
    #pragma unroll
    for (int q = 0; q < LANES; q++) {
        #pragma unroll
        for (int v = 0; v < 2 * E; v++) {
            float give = second ? acc[q][v] : acc[q][v + 2 * E], keep = second ? acc[q][v + 2 * E] : acc[q][v];
            acc[q][v] = keep + __shfl_xor_sync(0xffffffffu, give, 16);
        }
        #pragma unroll
        for (int v = 0; v < E; v++) {
            float give = odd ? acc[q][v] : acc[q][v + E], keep = odd ? acc[q][v + E] : acc[q][v];
            out[q][v] = keep + __shfl_xor_sync(0xffffffffu, give, 8);
        }
    }
}

// Planes are there twice: a layer reads the ones and writes the others, so that one barrier parts it from the next. What is read
// after this was written before it, and what is written after it was read before it.
DEV void turn(float*& now, float*& next) {
    __syncthreads();
    float* other = now; now = next; next = other;
}

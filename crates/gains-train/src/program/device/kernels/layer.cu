// Convolutions and linear layers as products of matrices, whose entries are looked up where they lie: no patches are written
// out, and no sample has to fit into shared memory.
//
// A block computes a tile of 64 × 64 sums, 16 terms at a time; a thread has 4 × 4 of them. Terms run tap by tap, and channel by
// channel within, so that neighbouring threads read neighbouring channels.

#define TILE 64
#define DEPTH 16

// A layer: `pixels[position·taps + tap]` is the pixel under a tap, `positions[pixel·taps + tap]` the position from where a tap
// sees a pixel, −1 if there is none. Weights lie as in model files: output, (time and) channel, tap.
struct Layer {
    const int* pixels;
    const int* positions;
    int inputs, channels, outputs, taps, image, places, timed;

    DEV int depth() const { return (channels + timed) * taps; }
    // Term number k: its tap, and its channel, which is −1 for the time.
    DEV void term(int k, int& tap, int& channel) const {
        if (k < timed * taps) { tap = k; channel = -1; return; }
        k -= timed * taps;
        tap = k / channels;
        channel = k % channels;
    }
    // Where the weight of a term is among those of an output.
    DEV int weight(int k) const {
        int tap, channel;
        term(k, tap, channel);
        return (channel + timed) * taps + tap;
    }
};

// What a kernel sees of a batch: rows are samples and positions, columns are terms.
struct Patches {
    static constexpr bool ALONG_TERMS = true;
    struct Row { int base, pixels; };
    struct Term { int tap, channel; };
    Layer layer;
    const real* x;
    real time;

    DEV Row row(int m) const {
        return {m / layer.places * layer.image * layer.channels, m % layer.places * layer.taps};
    }
    DEV Term term(int k) const {
        Term t;
        layer.term(k, t.tap, t.channel);
        return t;
    }
    DEV real at(Row row, Term term) const {
        int pixel = layer.pixels[row.pixels + term.tap];
        if (pixel < 0) return (real)0;
        return term.channel < 0 ? time : x[row.base + pixel * layer.channels + term.channel];
    }
};

// The same with rows and columns exchanged.
struct PatchColumns {
    static constexpr bool ALONG_TERMS = false;
    typedef Patches::Term Row;
    typedef Patches::Row Term;
    Patches patches;

    DEV Row row(int k) const { return patches.term(k); }
    DEV Term term(int m) const { return patches.row(m); }
    DEV real at(Row row, Term term) const { return patches.at(term, row); }
};

// Weights: rows are outputs, columns terms of a patch.
struct Weights {
    static constexpr bool ALONG_TERMS = true;
    typedef int Row;
    typedef int Term;
    Layer layer;
    const real* w;

    DEV Row row(int output) const { return output * layer.depth(); }
    DEV Term term(int k) const { return layer.weight(k); }
    DEV real at(Row row, Term term) const { return w[row + term]; }
};

// Gradients of outputs: rows are outputs, columns are samples and positions.
struct Pulls {
    static constexpr bool ALONG_TERMS = false;
    typedef int Row;
    typedef int Term;
    const real* g;
    int outputs;

    DEV Row row(int output) const { return output; }
    DEV Term term(int m) const { return m * outputs; }
    DEV real at(Row row, Term term) const { return g[term + row]; }
};

// Gradients of the outputs that see a pixel: rows are samples and pixels, columns taps and outputs.
struct Views {
    static constexpr bool ALONG_TERMS = true;
    struct Row { int base, positions; };
    struct Term { int tap, output; };
    Layer layer;
    const real* g;

    DEV Row row(int m) const { return {m / layer.image * layer.places * layer.outputs, m % layer.image * layer.taps}; }
    DEV Term term(int k) const { return {k / layer.outputs, k % layer.outputs}; }
    DEV real at(Row row, Term term) const {
        int position = layer.positions[row.positions + term.tap];
        return position < 0 ? (real)0 : g[row.base + position * layer.outputs + term.output];
    }
};

// Weights by channel: rows are channels, columns taps and outputs.
struct Returns {
    static constexpr bool ALONG_TERMS = true;
    typedef int Row;
    typedef Views::Term Term;
    Layer layer;
    const real* w;

    DEV Row row(int channel) const { return (channel + layer.timed) * layer.taps; }
    DEV Term term(int k) const { return {k / layer.outputs, k % layer.outputs}; }
    DEV real at(Row row, Term term) const { return w[term.output * layer.depth() + row + term.tap]; }
};

// A tile of a factor into shared memory. Neighbouring threads follow its terms or its rows, as it lies.
template <class F> struct Loader {
    static constexpr bool ALONG = F::ALONG_TERMS;
    const F& factor;
    int first, count;
    typename F::Row rows[ALONG ? 4 : 1];

    DEV Loader(const F& factor, int first, int count) : factor(factor), first(first), count(count) {
        if constexpr (ALONG) {
            for (int j = 0; j < 4; j++) rows[j] = factor.row(clip(row(j)));
        } else {
            rows[0] = factor.row(clip(row(0)));
        }
    }
    DEV int row(int j) const { return first + (ALONG ? (int)threadIdx.x / DEPTH + j * (THREADS / DEPTH) : (int)threadIdx.x % TILE); }
    DEV int clip(int row) const { return row < count ? row : 0; }

    DEV void load(real (&tile)[DEPTH][TILE + 1], int from, int to) const {
        if constexpr (ALONG) {
            int k = threadIdx.x % DEPTH;
            bool there = from + k < to;
            typename F::Term term = factor.term(there ? from + k : 0);
            for (int j = 0; j < 4; j++) {
                int m = row(j);
                tile[k][m - first] = there && m < count ? factor.at(rows[j], term) : (real)0;
            }
        } else {
            int m = row(0);
            for (int j = 0; j < 4; j++) {
                int k = threadIdx.x / TILE + j * (THREADS / TILE);
                bool there = from + k < to && m < count;
                tile[k][m - first] = there ? factor.at(rows[0], factor.term(from + k)) : (real)0;
            }
        }
    }
};

// out(m, n) = Σ left(m, k)·right(n, k) over the terms from one to another.
template <class A, class B, class Out> DEV void product(int rows, int columns, int from, int to, const A& left, const B& right, const Out& out) {
    __shared__ real a[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
    int row0 = blockIdx.x * TILE, column0 = blockIdx.y * TILE;
    Loader<A> of_left(left, row0, rows);
    Loader<B> of_right(right, column0, columns);
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    real sum[4][4] = {};
    for (int k = from; k < to; k += DEPTH) {
        of_left.load(a, k, to);
        of_right.load(b, k, to);
        __syncthreads();
        #pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            real l[4], r[4];
            #pragma unroll
            for (int i = 0; i < 4; i++) { l[i] = a[d][y + 16 * i]; r[i] = b[d][x + 16 * i]; }
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] += l[i] * r[j];
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            int m = row0 + y + 16 * i, n = column0 + x + 16 * j;
            if (m < rows && n < columns) out(m, n, sum[i][j]);
        }
}

#define GEOMETRY const int* pixels, const int* positions, int channels, int outputs, int taps, int image, int places, int timed
#define LAYER Layer{pixels, positions, image * channels, channels, outputs, taps, image, places, timed}

// W x + b + t·u, or of changes without b; of radii |W| r.
BLOCK_KERNEL layer_forward(GEOMETRY, const real* x, const real* w, const real* bias, double time, real* y, int rows) {
    Layer layer = LAYER;
    Patches patches = {layer, x, (real)time};
    Weights weights = {layer, w};
    product(rows, outputs, 0, layer.depth(), patches, weights, [&](int m, int n, real sum) {
        y[m * outputs + n] = bias ? bias[n] + sum : sum;
    });
}
// The gradient of the input.
BLOCK_KERNEL layer_back(GEOMETRY, const real* g, const real* w, real* part, int rows) {
    Layer layer = LAYER;
    Views views = {layer, g};
    Returns returns = {layer, w};
    product(rows, channels, 0, taps * outputs, views, returns, [&](int m, int n, real sum) { part[m * channels + n] = sum; });
}
// That of the weights: a slab for each stretch of samples and positions.
BLOCK_KERNEL layer_weights(GEOMETRY, const real* x, const real* g, double time, real* slabs, int stretch, int rows) {
    Layer layer = LAYER;
    Pulls pulls = {g, outputs};
    PatchColumns patches = {Patches{layer, x, (real)time}};
    int depth = layer.depth(), from = blockIdx.z * stretch, to = from + stretch < rows ? from + stretch : rows;
    real* slab = slabs + (long long)blockIdx.z * outputs * depth;
    product(outputs, depth, from, to, pulls, patches, [&](int o, int k, real sum) { slab[o * depth + layer.weight(k)] = sum; });
}
// Sums over stretches of rows, column by column.
KERNEL column_sums(const real* g, int columns, int stretch, int rows, real* slabs, int n) {
    int i = entry();
    if (i >= n) return;
    int from = i / columns * stretch, to = from + stretch < rows ? from + stretch : rows;
    real sum = (real)0;
    for (int m = from; m < to; m++) sum += g[m * columns + i % columns];
    slabs[i] = sum;
}
// into += Σ slabs, in their order.
KERNEL add_slabs(const real* slabs, int count, real* into, int n) {
    int i = entry();
    if (i >= n) return;
    real sum = (real)0;
    for (int s = 0; s < count; s++) sum += slabs[(long long)s * n + i];
    into[i] += sum;
}

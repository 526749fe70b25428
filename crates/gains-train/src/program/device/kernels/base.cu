// Operators of programs on a device, the same rules as in ops/. A line in front says what `real` is: what values and
// parameters are stored in. Elementwise rules, and sums over many entries other than products of matrices, are in double.
//
// Every block has 256 threads. A KERNEL's threads know nothing of each other; those of a BLOCK_KERNEL meet at barriers. Sums are
// formed in an order that depends on sizes alone, and nothing is added atomically, so a run repeats itself bit for bit.

#define DEV __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define BLOCK_KERNEL extern "C" __global__ void
#define THREADS 256

typedef unsigned int u32;

// Where several values lie: centres, then radii where there are any; also of what is written.
struct Places { const real* at[18]; };
struct Factors { double at[9]; };

DEV int entry() { return (int)(blockIdx.x * THREADS + threadIdx.x); }
DEV double sign_of(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }

// Adds up what the threads of a block have; the first one has it then.
template <int N> DEV void gather_sums(double (&sum)[N]) {
    __shared__ double part[N][THREADS];
    for (int k = 0; k < N; k++) part[k][threadIdx.x] = sum[k];
    __syncthreads();
    for (int d = THREADS / 2; d > 0; d /= 2) {
        if (threadIdx.x < d) for (int k = 0; k < N; k++) part[k][threadIdx.x] += part[k][threadIdx.x + d];
        __syncthreads();
    }
    for (int k = 0; k < N; k++) sum[k] = part[k][0];
    __syncthreads();
}

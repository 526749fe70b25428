// What a C++ compiler needs to take the kernels for a processor: the words of CUDA, and threads that meet at barriers.
//
// A KERNEL's threads run one after the other. Those of a BLOCK_KERNEL are fibers: each runs until it comes to a barrier, then the
// next one does. Threads that do not come to the same barriers are an error, as on a device.

#include <cmath>
#include <csetjmp>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static thread_local

struct Index { unsigned x, y, z; };
static thread_local Index threadIdx, blockIdx, gridDim;
using std::isnan;

namespace fibers {
constexpr unsigned COUNT = 256;
constexpr size_t STACK = 64 * 1024;
struct Fiber {
    jmp_buf here;
    std::vector<char> stack;
    bool begun = false, done = false;
};
static thread_local std::vector<Fiber> all;
static thread_local Fiber* current;
static thread_local jmp_buf scheduler;
static thread_local void (*body)(const void*);
static thread_local const void* argument;
static thread_local ucontext_t origin;

// A fiber lives on from block to block.
static void live() {
    for (;;) {
        body(argument);
        current->done = true;
        if (_setjmp(current->here) == 0) _longjmp(scheduler, 1);
    }
}
static void resume(Fiber& fiber) {
    current = &fiber;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.begun) _longjmp(fiber.here, 1);
    fiber.begun = true;
    ucontext_t context;
    getcontext(&context);
    fiber.stack.resize(STACK);
    context.uc_stack.ss_sp = fiber.stack.data();
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, live, 0);
    swapcontext(&origin, &context);
}
static void barrier() {
    if (_setjmp(current->here) == 0) _longjmp(scheduler, 1);
}
// Whether all threads of a block came to the same barriers.
template <class F> bool run(const F& f) {
    if (all.empty()) all.resize(COUNT);
    body = [](const void* f) { (*static_cast<const F*>(f))(); };
    argument = &f;
    for (Fiber& fiber : all) fiber.done = false;
    for (;;) {
        unsigned done = 0;
        for (unsigned t = 0; t < COUNT; t++) {
            threadIdx.x = t;
            resume(all[t]);
            done += all[t].done;
        }
        if (done == COUNT) return true;
        if (done != 0) return false;
    }
}
}
static void __syncthreads() { fibers::barrier(); }

// Kinds of arguments, as `Argument` has them.
template <class A> constexpr int kind() {
    if (std::is_pointer<A>::value) return 0;
    if (std::is_same<A, int>::value) return 1;
    if (std::is_same<A, double>::value) return 2;
    return sizeof(A) == 144 ? 3 : 4;
}
template <class... A, size_t... I>
static int launch(void (*kernel)(A...), std::index_sequence<I...>, const unsigned* blocks, bool meets, void** arguments) {
    auto call = [&] { kernel(*static_cast<A*>(arguments[I])...); };
    gridDim = {blocks[0], blocks[1], blocks[2]};
    for (unsigned z = 0; z < blocks[2]; z++)
        for (unsigned y = 0; y < blocks[1]; y++)
            for (unsigned x = 0; x < blocks[0]; x++) {
                blockIdx = {x, y, z};
                if (meets) {
                    if (!fibers::run(call)) return 2;
                } else {
                    for (unsigned t = 0; t < fibers::COUNT; t++) { threadIdx.x = t; call(); }
                }
            }
    return 0;
}
// 0, or 1 if the arguments are not those of the kernel, or 2 if threads did not meet.
template <class... A> static int check_and_launch(void (*kernel)(A...), const unsigned* blocks, bool meets, int count, void** arguments, const int* kinds) {
    const int expected[] = {kind<A>()...};
    if (count != (int)sizeof...(A)) return 1;
    for (int k = 0; k < count; k++) if (kinds[k] != expected[k]) return 1;
    return launch(kernel, std::index_sequence_for<A...>{}, blocks, meets, arguments);
}

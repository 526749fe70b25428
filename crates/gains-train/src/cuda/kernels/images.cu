// Pixels.

// Images lie channels last, tensors channels first.
struct Picture {
    int channels, positions;
};
KERNEL gather_images(const u8* images, const u32* indices, float* out, Picture p, int total) {
    int n = p.channels * p.positions;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int b = i / n, e = i % n, c = e / p.positions, at = e % p.positions;
        out[i] = __fdiv_rn((float)images[(size_t)indices[b] * n + at * p.channels + c], 255.0f);
    }
}
// normal: mean, then deviation of each channel.
KERNEL normalise(const float* pixels, const float* normal, float* out, Picture p, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int c = i % (p.channels * p.positions) / p.positions;
        out[i] = (pixels[i] - normal[c]) / normal[p.channels + c];
    }
}
KERNEL surround(const float* pixels, const float* normal, float radius, float* centre, float* width, Picture p, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int c = i % (p.channels * p.positions) / p.positions;
        float lo = fmaxf(pixels[i] - radius, 0.0f), up = fminf(pixels[i] + radius, 1.0f);
        centre[i] = (0.5f * (lo + up) - normal[c]) / normal[p.channels + c];
        width[i] = 0.5f * (up - lo) / normal[p.channels + c];
    }
}
DEV float uniform(u64 seed, u32 position) {
    u32 x = (u32)seed ^ position * 0x9E3779B9u, high = (u32)(seed >> 32);
    x ^= high << 16 | high >> 16;
    for (int i = 0; i < 2; i++) {
        x ^= x >> 16; x *= 0x7FEB352Du; x ^= x >> 15; x *= 0x846CA68Bu; x ^= x >> 16;
    }
    return (float)(x >> 8) * (1.0f / 16777216.0f);
}
KERNEL scatter_noise(const float* pixels, float reach, u64 seed, float* out, Picture p, int total) {
    int n = p.channels * p.positions;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int b = i / n, e = i % n, c = e / p.positions, at = e % p.positions;
        float v = pixels[i] + reach * (2.0f * uniform(seed, (u32)(b * n + at * p.channels + c)) - 1.0f);
        out[i] = fminf(fmaxf(v, 0.0f), 1.0f);
    }
}
KERNEL ascend_sign(float* attacked, const float* gradient, const float* pixels, float rate, float reach, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float g = gradient[i], v = attacked[i] + (g > 0.0f ? rate : g < 0.0f ? -rate : 0.0f);
        v = fminf(fmaxf(v, pixels[i] - reach), pixels[i] + reach);
        attacked[i] = fminf(fmaxf(v, 0.0f), 1.0f);
    }
}

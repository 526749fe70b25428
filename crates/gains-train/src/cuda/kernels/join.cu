// Pooling, joining, adding.

KERNEL pool_forward(const float* x, float* y, int positions, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float sum = 0.0f;
        for (int p = 0; p < positions; p++) sum += x[(size_t)i * positions + p];
        y[i] = sum / (float)positions;
    }
}
KERNEL pool_backward(const float* g, float* gx, int positions, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) gx[i] = g[i / positions] / (float)positions;
}
KERNEL add_to(float* into, const float* part, float factor, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) into[i] += factor * part[i];
}
KERNEL scaled(const float* part, float factor, float* out, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) out[i] = factor * part[i];
}
// The hull so far (lower, upper) with the trajectory each end came from, widened by box number `index`.
KERNEL hull_with(const float* c, const float* r, float* lower, float* upper, u8* low_from, u8* up_from, int index, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float l = c[i] - r[i], u = c[i] + r[i];
        if (index == 0 || !(l >= lower[i])) { lower[i] = l; low_from[i] = (u8)index; }
        if (index == 0 || !(u <= upper[i])) { upper[i] = u; up_from[i] = (u8)index; }
    }
}
KERNEL recentre(float* lower, float* upper, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float l = lower[i], u = upper[i];
        lower[i] = 0.5f * (l + u); upper[i] = 0.5f * (u - l);
    }
}
KERNEL hull_back(const float* gc, const float* gr, const u8* low_from, const u8* up_from, float* oc, float* orr, int index, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float l = low_from[i] == index ? 0.5f * (gc[i] - gr[i]) : 0.0f, u = up_from[i] == index ? 0.5f * (gc[i] + gr[i]) : 0.0f;
        oc[i] = l + u; orr[i] = u - l;
    }
}

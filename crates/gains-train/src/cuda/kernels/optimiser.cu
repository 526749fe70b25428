// Adam.

KERNEL gradient_norm(const float* g, int n, double* out) {
    __shared__ double part[1024];
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += (double)g[i] * (double)g[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d >>= 1) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sqrt(part[0]);
}
KERNEL adam(float* p, const float* g, float* m, float* v, const double* norm, float rate, float decay, float beta1, float beta2,
            float epsilon, float clip, float correction1, float correction2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double factor = (double)clip / (*norm + 1e-6);
    float grad = factor < 1.0 ? (float)(g[i] * factor) : g[i];
    grad = fmaf(decay, p[i], grad);
    m[i] = beta1 * m[i] + (1.0f - beta1) * grad;
    v[i] = beta2 * v[i] + (1.0f - beta2) * grad * grad;
    p[i] -= rate / correction1 * m[i] / (sqrtf(v[i]) / correction2 + epsilon);
}

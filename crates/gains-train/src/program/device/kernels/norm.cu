// Batch normalisation, channel by channel.

// Mean and variance: a block for each channel.
BLOCK_KERNEL norm_measure(const real* x, int channels, int count, double* mean, double* variance) {
    int channel = blockIdx.x;
    double sum[1] = {0.0};
    for (int k = threadIdx.x; k < count; k += THREADS) sum[0] += (double)x[k * channels + channel];
    gather_sums(sum);
    double middle = sum[0] / (double)count;
    sum[0] = 0.0;
    for (int k = threadIdx.x; k < count; k += THREADS) {
        double apart = (double)x[k * channels + channel] - middle;
        sum[0] += apart * apart;
    }
    gather_sums(sum);
    if (threadIdx.x == 0) {
        mean[channel] = middle;
        variance[channel] = sum[0] / (double)count;
    }
}
KERNEL norm_running(const real* means, const real* variances, double* mean, double* variance, int channels) {
    int i = entry();
    if (i >= channels) return;
    mean[i] = means[i];
    variance[i] = variances[i];
}
KERNEL norm_follow(real* means, real* variances, const double* mean, const double* variance, double momentum, double corrected, int channels) {
    int i = entry();
    if (i >= channels) return;
    means[i] = (real)((1.0 - momentum) * (double)means[i] + momentum * mean[i]);
    variances[i] = (real)((1.0 - momentum) * (double)variances[i] + momentum * corrected * variance[i]);
}
// Centres, of changes without what is added, or `radii`.
KERNEL norm_forward(const real* x, const double* mean, const double* variance, double eps, const real* factors, const real* summands,
                    int biased, int radii, real* out, int channels, int n) {
    int i = entry();
    if (i >= n) return;
    int channel = i % channels;
    double scale = (factors ? (double)factors[channel] : 1.0) / sqrt(variance[channel] + eps), value = x[i];
    if (radii) {
        out[i] = (real)(value * fabs(scale));
    } else {
        double shift = biased && summands ? (double)summands[channel] : 0.0;
        out[i] = (real)((value - (biased ? mean[channel] : 0.0)) * scale + shift);
    }
}
// Σ g, Σ g·(normalised x), Σ (gradient of radii)·(normalised radius): a block for each channel.
BLOCK_KERNEL norm_sums(const real* x, const real* xr, const real* g, const real* gr, const double* mean, const double* variance, double eps,
                       int biased, int channels, int count, double* sums) {
    int channel = blockIdx.x;
    double deviation = sqrt(variance[channel] + eps), middle = biased ? mean[channel] : 0.0;
    double sum[3] = {0.0, 0.0, 0.0};
    for (int k = threadIdx.x; k < count; k += THREADS) {
        int at = k * channels + channel;
        sum[0] += (double)g[at];
        sum[1] += (double)g[at] * (((double)x[at] - middle) / deviation);
        if (gr) sum[2] += (double)gr[at] * (double)xr[at] / deviation;
    }
    gather_sums(sum);
    if (threadIdx.x == 0) for (int k = 0; k < 3; k++) sums[3 * channel + k] = sum[k];
}
KERNEL norm_parameters(const double* sums, int biased, real* factors, real* summands, real* magnitudes, int channels) {
    int i = entry();
    if (i >= channels) return;
    factors[i] += (real)sums[3 * i + 1];
    if (biased) summands[i] += (real)sums[3 * i];
    if (magnitudes) magnitudes[i] += (real)sums[3 * i + 2];
}
// The gradient of the input, whose statistics depend on it if they are its `own`.
KERNEL norm_back(const real* x, const real* g, const double* mean, const double* variance, double eps, const real* factors, const double* sums,
                 int own, double count, int biased, int radii, real* out, int channels, int n) {
    int i = entry();
    if (i >= n) return;
    int channel = i % channels;
    double deviation = sqrt(variance[channel] + eps);
    double scale = (factors ? (double)factors[channel] : 1.0) / deviation, on = g[i];
    if (radii) {
        out[i] = (real)(on * fabs(scale));
        return;
    }
    if (own) {
        double normal = ((double)x[i] - (biased ? mean[channel] : 0.0)) / deviation;
        on -= (sums[3 * channel] + normal * sums[3 * channel + 1]) / count;
    }
    out[i] = (real)(scale * on);
}

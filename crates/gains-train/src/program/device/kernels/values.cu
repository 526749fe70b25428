// Sums, copies, and parameters with what goes with them.

KERNEL add_to(real* sum, const real* part, int n) {
    int i = entry();
    if (i < n) sum[i] += part[i];
}
// Σ c·x of at most nine, onto what is there already if that is meant.
KERNEL combine(real* out, int n, int count, int onto, Places x, Factors c) {
    int i = entry();
    if (i >= n) return;
    real sum = onto ? out[i] : (real)0;
    for (int k = 0; k < count; k++) sum += (real)c.at[k] * x.at[k][i];
    out[i] = sum;
}
// Columns of a matrix to those of another; n is how many numbers they hold.
KERNEL copy_columns(const real* from, int from_columns, int first, real* to, int to_columns, int start, int columns, int n) {
    int i = entry();
    if (i >= n) return;
    int row = i / columns, column = i % columns;
    to[row * to_columns + start + column] = from[row * from_columns + first + column];
}
KERNEL magnitudes(const real* values, real* out, int n) {
    int i = entry();
    if (i < n) out[i] = values[i] < (real)0 ? -values[i] : values[i];
}
// Gradients of parameters, with those of their magnitudes where there are some.
KERNEL settle(const real* of_values, const real* of_magnitudes, const real* values, real* out, int n) {
    int i = entry();
    if (i >= n) return;
    real sum = of_values[i];
    if (of_magnitudes) sum += (real)sign_of(values[i]) * of_magnitudes[i];
    out[i] = sum;
}
// Squares of what is learned, added up by block.
BLOCK_KERNEL squares(const real* gradients, const real* learned, double* out, int n) {
    double sum[1] = {0.0};
    for (int i = entry(); i < n; i += gridDim.x * THREADS)
        if (learned[i] != (real)0) sum[0] += (double)gradients[i] * (double)gradients[i];
    gather_sums(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum[0];
}
// A step of Adam (0), AdamW (1) or gradient descent with momentum (2): optimiser/ says what they are.
KERNEL follow(int rule, real* values, real* first, real* second, const real* gradients, const real* learned, double scale, double rate,
              double decay, double beta1, double beta2, double epsilon, double correction, double root, int n) {
    int i = entry();
    if (i >= n || learned[i] == (real)0) return;
    double p = values[i], m = first[i], v = second[i], g = (double)gradients[i] * scale;
    if (rule == 1) p *= 1.0 - rate * decay; else g += decay * p;
    if (rule == 2) {
        m = beta1 * m + g;
        p -= rate * m;
    } else {
        m = beta1 * m + (1.0 - beta1) * g;
        v = beta2 * v + (1.0 - beta2) * g * g;
        p -= rate / correction * m / (sqrt(v) / root + epsilon);
    }
    values[i] = (real)p;
    first[i] = (real)m;
    second[i] = (real)v;
}
KERNEL track(real* averages, const real* values, double keep, double take, int n) {
    int i = entry();
    if (i < n) averages[i] = (real)keep * averages[i] + (real)take * values[i];
}

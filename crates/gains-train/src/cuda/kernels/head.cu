// The last layer and the loss.

// One warp per sample. w: [class][input]. Writes the gradients of the (differences of) logits: gc, gr [sample][class], and
// results[sample][4]: cross-entropy, weighted width, whether the label comes first, 1. Where `given` is not null it holds the
// gradients of the margins [sample][class] that take the place of those of the cross-entropy; where `margins` is not null they go there.
template <int LANES>
DEV void head_loss(const float* xc, const float* xr, const float* w, const float* bias, const u8* labels, const float* widths,
                   float weight, float width_weight, int squared, const float* given, float* margins, float* gc, float* gr, float* gxc,
                   float* gxr, float* results, int inputs, int classes, int batch) {
    int b = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (b >= batch) return;
    int y = labels[b];
    const float* x = xc + (size_t)b * inputs;
    const float* rad = LANES == 2 ? xr + (size_t)b * inputs : nullptr;
    extern __shared__ float shared[];
    float* top = shared + (threadIdx.x >> 5) * 2 * classes;  // worst-case logits, then radii
    float largest = -3.4e38f;
    for (int j = lane; j < classes; j += 32) {
        float c = 0.0f, r = 0.0f;
        if (LANES == 1) {
            for (int i = 0; i < inputs; i++) c = fmaf(w[j * inputs + i], x[i], c);
            c += bias[j];
        } else {
            for (int i = 0; i < inputs; i++) {
                float d = w[j * inputs + i] - w[y * inputs + i];
                c = fmaf(d, x[i], c);
                r = fmaf(fabsf(d), rad[i], r);
            }
            c += bias[j] - bias[y];
        }
        top[j] = c + r;
        top[classes + j] = r;
    }
    __syncwarp();
    bool first = true;
    for (int j = 0; j < classes; j++) {
        float t = top[j];
        if (!(t <= largest)) largest = t;
        if (j != y && !(t < top[y])) first = false;
    }
    float sum = 0.0f, width = 0.0f;
    for (int j = 0; j < classes; j++) {
        sum += expf(top[j] - largest);
        float r = 2.0f * top[classes + j];
        width += squared ? r * r : r;
    }
    float row = widths[b];
    const float* pull = given ? given + (size_t)b * classes : nullptr;
    for (int j = lane; j < classes; j += 32) {
        float p = expf(top[j] - largest) / sum;
        if (margins) margins[b * classes + j] = top[j] - top[y];
        if (LANES == 1) {
            float g = weight * (p - (j == y ? 1.0f : 0.0f));
            if (pull) {
                g = j == y ? 0.0f : pull[j];
                if (j == y) for (int k = 0; k < classes; k++) g -= k == y ? 0.0f : pull[k];
            }
            gc[b * classes + j] = g;
        } else {
            float r = top[classes + j];
            float g = j == y ? 0.0f : pull ? pull[j] : weight * p;
            float gw = j == y ? 0.0f : width_weight * row * (squared ? 8.0f * r : 2.0f);
            gc[b * classes + j] = g;
            gr[b * classes + j] = g + gw;
        }
    }
    __syncwarp();
    for (int i = lane; i < inputs; i += 32) {
        float c = 0.0f, r = 0.0f;
        for (int j = 0; j < classes; j++) {
            if (LANES == 1) c = fmaf(gc[b * classes + j], w[j * inputs + i], c);
            else {
                float d = w[j * inputs + i] - w[y * inputs + i];
                c = fmaf(gc[b * classes + j], d, c);
                r = fmaf(gr[b * classes + j], fabsf(d), r);
            }
        }
        gxc[(size_t)b * inputs + i] = c;
        if (LANES == 2) gxr[(size_t)b * inputs + i] = r;
    }
    if (lane == 0) {
        results[b * 4] = logf(sum) + largest - top[y];
        results[b * 4 + 1] = LANES == 2 ? row * width : 0.0f;
        results[b * 4 + 2] = first ? 1.0f : 0.0f;
        results[b * 4 + 3] = 1.0f;
    }
}
KERNEL loss_points(const float* xc, const float* xr, const float* w, const float* bias, const u8* labels, const float* widths, float weight,
                   float width_weight, int squared, const float* given, float* margins, float* gc, float* gr, float* gxc, float* gxr,
                   float* results, int inputs, int classes, int batch) {
    head_loss<1>(xc, xr, w, bias, labels, widths, weight, width_weight, squared, given, margins, gc, gr, gxc, gxr, results, inputs, classes, batch);
}
KERNEL loss_boxes(const float* xc, const float* xr, const float* w, const float* bias, const u8* labels, const float* widths, float weight,
                  float width_weight, int squared, const float* given, float* margins, float* gc, float* gr, float* gxc, float* gxr,
                  float* results, int inputs, int classes, int batch) {
    head_loss<2>(xc, xr, w, bias, labels, widths, weight, width_weight, squared, given, margins, gc, gr, gxc, gxr, results, inputs, classes, batch);
}
// Adds to the head's gradient. One block per class; inputs along x, slices of the batch along y; the bias is input number `inputs`.
KERNEL head_gradient(const float* xc, const float* xr, const float* w, const u8* labels, const float* gc, const float* gr, float* gw,
                     float* gb, int boxes, int inputs, int classes, int batch) {
    extern __shared__ float part[];
    int j = blockIdx.x, slices = blockDim.y;
    for (int i0 = 0; i0 <= inputs; i0 += blockDim.x) {
        int i = i0 + threadIdx.x;
        float sum = 0.0f;
        if (i <= inputs) {
            bool is_bias = i == inputs;
            for (int b = threadIdx.y; b < batch; b += slices) {
                int y = labels[b];
                float x = is_bias ? 1.0f : xc[(size_t)b * inputs + i];
                if (!boxes) { sum = fmaf(gc[b * classes + j], x, sum); continue; }
                float r = is_bias ? 0.0f : xr[(size_t)b * inputs + i];
                float wy = is_bias ? 0.0f : w[y * inputs + i];
                int from = j == y ? 0 : j, to = j == y ? classes : j + 1;
                float sign = j == y ? -1.0f : 1.0f;
                for (int k = from; k < to; k++) {
                    if (k == y) continue;
                    float d = is_bias ? 0.0f : w[k * inputs + i] - wy;
                    float s = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
                    sum += sign * (gc[b * classes + k] * x + gr[b * classes + k] * s * r);
                }
            }
        }
        part[threadIdx.y * blockDim.x + threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && i <= inputs) {
            for (int s = 1; s < slices; s++) sum += part[s * blockDim.x + threadIdx.x];
            if (i == inputs) gb[j] += sum; else gw[j * inputs + i] += sum;
        }
        __syncthreads();
    }
}

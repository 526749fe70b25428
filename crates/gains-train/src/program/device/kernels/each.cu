// The same operators at points.

template <class T> DEV T at_point(int rule, Curve c, const T (&x)[3]) {
    switch (rule) {
        case OVER_CURVE: return curve_at(c, x[0]);
        case OVER_PRODUCT: return x[0] * x[1];
        case OVER_MAXIMUM: return larger(x[0], x[1]);
        default: return blend_at(x[0], x[1], x[2]);
    }
}
KERNEL each_forward(int rule, int f, double a, double b, int count, Places x, real* out, int n) {
    int i = entry();
    if (i >= n) return;
    Plain numbers[3];
    for (int k = 0; k < 3; k++) numbers[k] = {k < count ? (double)x.at[k][i] : 0.0};
    out[i] = (real)at_point<Plain>(rule, Curve{f, a, b}, numbers).value;
}
KERNEL each_back(int rule, int f, double a, double b, int count, Places x, const real* g, Places out, int n) {
    int i = entry();
    if (i >= n) return;
    Dual<3> numbers[3];
    for (int k = 0; k < 3; k++) numbers[k] = Dual<3>::variable(k < count ? (double)x.at[k][i] : 0.0, k);
    Dual<3> y = at_point<Dual<3>>(rule, Curve{f, a, b}, numbers);
    for (int k = 0; k < count; k++) ((real*)out.at[k])[i] = (real)(y.slopes[k] * (double)g[i]);
}

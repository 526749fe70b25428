// Elementwise operators (ops/): their values at points, over boxes, their changes, and what two enclosures have in common. A rule
// is said once, over numbers that may carry slopes.

enum { OVER_CURVE, OVER_PRODUCT, OVER_MAXIMUM, OVER_BLEND, MOVED_CURVE, MOVED_PRODUCT, MOVED_MAXIMUM, MOVED_BLEND, MEET, HULL, VALUE, CHANGE };

template <class T> DEV T blend_at(const T& u, const T& g, const T& y) { return g + u * (y - g); }

template <class T> DEV Span<T> blend_over(const Span<T>& u, const Span<T>& g, const Span<T>& y) {
    return {smaller(blend_at(u.low, g.low, y.low), blend_at(u.high, g.low, y.low)),
            larger(blend_at(u.low, g.high, y.high), blend_at(u.high, g.high, y.high))};
}
template <class T> DEV bool leads(const Span<T>& x, const Span<T>& y) { return x.low.value >= y.high.value; }

template <class T> DEV Span<T> maximum_moved(const Span<T>& x, const Span<T>& y, const Span<T>& later_x, const Span<T>& later_y,
                                             const Span<T>& dx, const Span<T>& dy) {
    if (leads(x, y) && leads(later_x, later_y)) return dx;
    if (leads(y, x) && leads(later_y, later_x)) return dy;
    return dx.hull(dy);
}
template <class T> DEV Span<T> blend_moved(const Span<T>& u, const Span<T>& g, const Span<T>& y, const Span<T>& du, const Span<T>& dg,
                                           const Span<T>& dy) {
    T one = T::constant(1.0);
    Span<T> rest = {one - u.high, one - u.low};
    return y.minus(g).times(du).plus(rest.times(dg)).plus(u.times(dy));
}

// A rule of so many intervals.
template <int COUNT, class T> DEV Span<T> apply(int rule, Curve c, const Span<T> (&x)[COUNT]) {
    if constexpr (COUNT == 1) {
        return curve_over(c, x[0]);
    } else if constexpr (COUNT == 2) {
        switch (rule) {
            case OVER_PRODUCT: return x[0].times(x[1]);
            case OVER_MAXIMUM: return {larger(x[0].low, x[1].low), larger(x[0].high, x[1].high)};
            case MEET: return x[0].meet(x[1]);
            default: return x[0].hull(x[1]);
        }
    } else if constexpr (COUNT == 3) {
        switch (rule) {
            case OVER_BLEND: return blend_over(x[0], x[1], x[2]);
            case MOVED_CURVE: return curve_moved(c, x[0].hull(x[1]), x[2]);
            case VALUE: return x[0].meet(x[1].plus(x[2]));
            default: return x[0].meet(x[2].minus(x[1]));
        }
    } else if constexpr (COUNT == 6) {
        // Arguments before, after, and how far those are apart.
        if (rule == MOVED_PRODUCT) return x[2].times(x[5]).plus(x[1].times(x[4]));
        return maximum_moved(x[0], x[1], x[2], x[3], x[4], x[5]);
    } else {
        return blend_moved(x[3], x[1], x[2], x[6], x[7], x[8]);
    }
}

template <int COUNT> DEV void rule_forward(int rule, Curve c, const Places& x, real* centre, real* radius, int n) {
    int i = entry();
    if (i >= n) return;
    Span<Plain> spans[COUNT];
    #pragma unroll
    for (int k = 0; k < COUNT; k++) {
        double middle = x.at[k][i], reach = x.at[COUNT + k][i];
        spans[k] = {{middle - reach}, {middle + reach}};
    }
    Span<Plain> y = apply<COUNT, Plain>(rule, c, spans);
    // Should rounding have crossed the ends of an intersection, it is their middle.
    double half = 0.5 * (y.high.value - y.low.value);
    centre[i] = (real)(0.5 * (y.low.value + y.high.value));
    radius[i] = (real)(half < 0.0 ? 0.0 : half);
}

// Gradients of the arguments, centres and radii.
template <int COUNT> DEV void rule_back(int rule, Curve c, const Places& x, const real* on_centre, const real* on_radius, const Places& out, int n) {
    int i = entry();
    if (i >= n) return;
    typedef Dual<2 * COUNT> T;
    Span<T> spans[COUNT];
    #pragma unroll
    for (int k = 0; k < COUNT; k++) {
        double middle = x.at[k][i], reach = x.at[COUNT + k][i];
        spans[k] = {T::variable(middle - reach, 2 * k), T::variable(middle + reach, 2 * k + 1)};
    }
    Span<T> y = apply<COUNT, T>(rule, c, spans);
    double of_centre = 0.5 * (double)on_centre[i], of_radius = 0.5 * (double)on_radius[i];
    // A radius that was cut off at 0 does not move.
    if (!(y.high.value > y.low.value)) of_radius = 0.0;
    #pragma unroll
    for (int k = 0; k < COUNT; k++) {
        double low = of_centre * (y.low.slopes[2 * k] + y.high.slopes[2 * k]) + of_radius * (y.high.slopes[2 * k] - y.low.slopes[2 * k]);
        double high = of_centre * (y.low.slopes[2 * k + 1] + y.high.slopes[2 * k + 1]) +
                      of_radius * (y.high.slopes[2 * k + 1] - y.low.slopes[2 * k + 1]);
        ((real*)out.at[k])[i] = (real)(low + high);
        ((real*)out.at[COUNT + k])[i] = (real)(high - low);
    }
}

#define RULE(COUNT)                                                                                                                 \
    KERNEL rule_forward_##COUNT(int rule, int f, double a, double b, Places x, real* centre, real* radius, int n) {                 \
        rule_forward<COUNT>(rule, Curve{f, a, b}, x, centre, radius, n);                                                            \
    }                                                                                                                               \
    KERNEL rule_back_##COUNT(int rule, int f, double a, double b, Places x, const real* on_centre, const real* on_radius, Places out, \
                             int n) {                                                                                               \
        rule_back<COUNT>(rule, Curve{f, a, b}, x, on_centre, on_radius, out, n);                                                    \
    }

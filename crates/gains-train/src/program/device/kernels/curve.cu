// Elementwise functions: values, slopes, images and ranges of slopes, as gains-core knows them (activation.rs, smooth.rs).

enum { RELU, LEAKY_RELU, SIGMOID, TANH, ABSOLUTE, SOFTPLUS, SILU, GELU, GELU_TANH, ELU, SIN, COS, SQUARE, CLAMP, INVERSE_ROOT };

#define PI 3.14159265358979323846
#define ROOT_HALF 0.70710678118654752440
#define TWO_BY_ROOT_PI 1.12837916709551257390
#define SILU_BEND 2.3993572805154677
#define SILU_TURN (-1.278464542761074)
#define GELU_TURN (-0.7517915246935645)
#define GELU_TANH_BEND 1.4185040087908284
#define GELU_TANH_TURN (-0.7524614220710163)
#define GELU_END 40.0
#define CUBIC 0.044715
#define FAR_WAVES 1e6
#define EPSILON 2.220446049250313e-16
#define MOST_PIECES 6

// A function, with the numbers it is given: a slope, alpha, an eps, or both ends of a clamp.
struct Curve { int f; double a, b; };

// Two ends; NaN if one is.
struct Ends { double lower, upper; };
DEV Ends ends_of(double a, double b) {
    if (isnan(a) || isnan(b)) return {a + b, a + b};
    return {a < b ? a : b, a < b ? b : a};
}
DEV Ends around(Ends x, Ends y) {
    Ends low = ends_of(x.lower, y.lower), high = ends_of(x.upper, y.upper);
    return {low.lower, high.upper};
}
DEV double magnitude(Ends x) { return fmax(fabs(x.lower), fabs(x.upper)); }

DEV double logistic(double x) {
    if (x >= 0.0) return 1.0 / (1.0 + exp(-x));
    double e = exp(x);
    return e / (1.0 + e);
}
DEV double gelu_inner(double x) { return TWO_BY_ROOT_PI * ROOT_HALF * (x + CUBIC * x * x * x); }

DEV double value_of(Curve c, double x) {
    switch (c.f) {
        case RELU: return x < 0.0 ? 0.0 : x;
        case LEAKY_RELU: return x > 0.0 ? x : c.a * x;
        case SIGMOID: return logistic(x);
        case TANH: return tanh(x);
        case ABSOLUTE: return fabs(x);
        case SOFTPLUS: return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
        case SILU: return x * logistic(x);
        case GELU: return 0.5 * x * erfc(-x * ROOT_HALF);
        case GELU_TANH: return 0.5 * x * (1.0 + tanh(gelu_inner(x)));
        case ELU: return x > 0.0 ? x : c.a * expm1(x);
        case SIN: return sin(x);
        case COS: return cos(x);
        case SQUARE: return x * x;
        case CLAMP: return x < c.a ? c.a : x > c.b ? c.b : x;
        default: return 1.0 / sqrt((x < 0.0 ? 0.0 : x) + c.a);
    }
}
DEV double slope_of(Curve c, double x) {
    switch (c.f) {
        case RELU: return x > 0.0 ? 1.0 : 0.0;
        case LEAKY_RELU: return x > 0.0 ? 1.0 : c.a;
        case SIGMOID: { double s = logistic(-fabs(x)); return s * (1.0 - s); }
        case TANH: { double h = cosh(x); return 1.0 / (h * h); }
        case ABSOLUTE: return x > 0.0 ? 1.0 : -1.0;
        case SOFTPLUS: return logistic(x);
        case SILU: { double s = logistic(x); return s + x * s * logistic(-x); }
        case GELU:
            if (fabs(x) > GELU_END) return x > 0.0 ? 1.0 : 0.0;
            return 0.5 * erfc(-x * ROOT_HALF) + x * 0.5 * TWO_BY_ROOT_PI * ROOT_HALF * exp(-0.5 * x * x);
        case GELU_TANH: {
            if (fabs(x) > GELU_END) return x > 0.0 ? 1.0 : 0.0;
            double inner = gelu_inner(x), h = cosh(inner);
            double steepness = TWO_BY_ROOT_PI * ROOT_HALF * (1.0 + 3.0 * CUBIC * x * x);
            return 0.5 * (1.0 + tanh(inner)) + 0.5 * x * steepness / (h * h);
        }
        case ELU: return x > 0.0 ? 1.0 : c.a * exp(x);
        case SIN: return cos(x);
        case COS: return -sin(x);
        case SQUARE: return 2.0 * x;
        case CLAMP: return x < c.a || x > c.b ? 0.0 : 1.0;
        default: return x < 0.0 ? 0.0 : -0.5 / ((x + c.a) * sqrt(x + c.a));
    }
}
// How fast the slope changes, by differences of slopes.
DEV double bend_of(Curve c, double x) {
    double h = 1e-5 * (1.0 + fabs(x));
    return (slope_of(c, x + h) - slope_of(c, x - h)) / (2.0 * h);
}

// Whether a point `offset + 2πk` is inside.
DEV bool wave_meets(Ends x, double phase, double offset) {
    double from = (x.lower + phase - offset) / (2.0 * PI), to = (x.upper + phase - offset) / (2.0 * PI);
    return floor(to + 1e-9) >= from - 1e-9;
}
// Where a function turns around inside an interval, the value there takes the place of that end; `ends` are the values at both.
DEV Ends image_of(Curve c, Ends x, Ends ends) {
    double turn = 0.0;
    switch (c.f) {
        case ABSOLUTE:
        case SQUARE: break;
        case SILU: turn = SILU_TURN; break;
        case GELU: turn = GELU_TURN; break;
        case GELU_TANH: turn = GELU_TANH_TURN; break;
        case SIN:
        case COS: {
            double phase = c.f == SIN ? 0.0 : 0.5 * PI;
            if (isnan(x.lower) || isnan(x.upper)) return ends;
            bool wide = !(magnitude(x) <= FAR_WAVES && x.upper - x.lower < 2.0 * PI);
            return {wide || wave_meets(x, phase, -0.5 * PI) ? -1.0 : ends.lower, wide || wave_meets(x, phase, 0.5 * PI) ? 1.0 : ends.upper};
        }
        default: return ends;
    }
    if (x.lower < turn && turn < x.upper) ends.lower = value_of(c, turn);
    return ends;
}

// Points inside an interval where a function begins to bend another way, from left to right; −1 if there are too many.
DEV int cuts_of(Curve c, Ends x, double (&cuts)[MOST_PIECES]) {
    double all[MOST_PIECES];
    int count = 0, inside = 0;
    switch (c.f) {
        case SILU: all[count++] = -SILU_BEND; all[count++] = SILU_BEND; break;
        case GELU: all[count++] = -2.0 * ROOT_HALF; all[count++] = 2.0 * ROOT_HALF; break;
        case GELU_TANH: all[count++] = -GELU_TANH_BEND; all[count++] = GELU_TANH_BEND; break;
        case CLAMP: all[count++] = c.a; all[count++] = c.b; break;
        case ELU:
        case INVERSE_ROOT: all[count++] = 0.0; break;
        case SIN:
        case COS: {
            double phase = c.f == SIN ? 0.0 : 0.5 * PI;
            if (!(magnitude(x) <= FAR_WAVES && x.upper - x.lower <= 4.0 * PI)) return -1;
            double first = ceil((x.lower + phase) / PI);
            for (; count < MOST_PIECES; count++) all[count] = (first + count) * PI - phase;
            break;
        }
        default: break;
    }
    for (int k = 0; k < count; k++)
        if (x.lower < all[k] && all[k] < x.upper) cuts[inside++] = all[k];
    return inside < MOST_PIECES ? inside : -1;
}
// Whether a function is straight around a point.
DEV bool is_straight(Curve c, double x) {
    return c.f == CLAMP || (c.f == ELU && x > 0.0) || (c.f == INVERSE_ROOT && x < 0.0);
}
DEV Ends steepest(Curve c) {
    double far = 1e300;
    switch (c.f) {
        case SOFTPLUS:
        case CLAMP: return {0.0, 1.0};
        case SIN:
        case COS: return {-1.0, 1.0};
        case ELU: return {0.0, c.a > 1.0 ? c.a : 1.0};
        case INVERSE_ROOT: return {-far, 0.0};
        case SQUARE: return {-far, far};
        default: return {-0.2, 1.2};
    }
}
// All slopes over an interval; `bent` says whether they change other than by jumps.
DEV Ends slopes_of(Curve c, Ends x, bool& bent) {
    bent = false;
    if (c.f == RELU || c.f == LEAKY_RELU || c.f == ABSOLUTE) {
        double left = c.f == RELU ? 0.0 : c.f == ABSOLUTE ? -1.0 : c.a;
        if (x.lower >= 0.0) return {1.0, 1.0};
        if (x.upper <= 0.0) return {left, left};
        return ends_of(left, 1.0);
    }
    if (c.f == SIGMOID || c.f == TANH) {
        bent = true;
        double near = x.lower <= 0.0 && 0.0 <= x.upper ? 0.0 : fmin(fabs(x.lower), fabs(x.upper));
        return {slope_of(c, magnitude(x)), slope_of(c, near)};
    }
    double cuts[MOST_PIECES];
    int count = cuts_of(c, x, cuts);
    if (count < 0) {
        bent = true;
        return steepest(c);
    }
    Ends range = {0.0, 0.0};
    double from = x.lower;
    for (int k = 0; k <= count; k++) {
        double to = k < count ? cuts[k] : x.upper, middle = 0.5 * from + 0.5 * to;
        bool straight = is_straight(c, middle);
        bent = bent || !straight;
        double slope = slope_of(c, middle);
        Ends part = straight ? Ends{slope, slope} : ends_of(slope_of(c, from), slope_of(c, to));
        range = k == 0 ? part : around(range, part);
        from = to;
    }
    return range;
}

template <class T> DEV T curve_at(Curve c, const T& x) { return x.chain(value_of(c, x.value), slope_of(c, x.value)); }

// Between the values at the ends, unless the function turns around inside, where its slope is 0.
template <class T> DEV Span<T> curve_over(Curve c, const Span<T>& x) {
    T a = curve_at(c, x.low), b = curve_at(c, x.high);
    T least = smaller(a, b), most = larger(a, b);
    Ends image = image_of(c, {x.low.value, x.high.value}, {least.value, most.value});
    // What is no turn but rounding: a turn is beyond the values at both ends by more.
    double room = 1e-12 * (1.0 + fmax(fabs(least.value), fabs(most.value)));
    if (fabs(least.value - image.lower) > room) least = T::constant(image.lower);
    if (fabs(most.value - image.upper) > room) most = T::constant(image.upper);
    return {least, most};
}

// The slope of an end where it is the steepest one; else the bound moves with neither.
template <class T> DEV T steep_end(Curve c, const Span<T>& between, double bound) {
    double room = 1e-9 * (1.0 + fabs(bound));
    double low = slope_of(c, between.low.value), high = slope_of(c, between.high.value);
    if (fabs(low - bound) <= room) return between.low.chain(low, bend_of(c, between.low.value));
    if (fabs(high - bound) <= room) return between.high.chain(high, bend_of(c, between.high.value));
    return T::constant(bound);
}
// f(after) − f(before) is a slope of f between the two, times how far they are apart.
template <class T> DEV Span<T> curve_moved(Curve c, const Span<T>& between, const Span<T>& apart) {
    bool bent;
    Ends range = slopes_of(c, {between.low.value, between.high.value}, bent);
    Span<T> slopes = {T::constant(range.lower), T::constant(range.upper)};
    if (bent) slopes = {steep_end(c, between, range.lower), steep_end(c, between, range.upper)};
    return slopes.times(apart);
}

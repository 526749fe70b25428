// Numbers that know how they depend on others (number.rs), and intervals of them.

struct Plain {
    double value;
    static DEV Plain constant(double value) { return {value}; }
    static DEV Plain variable(double value, int) { return {value}; }
    DEV Plain chain(double at, double) const { return {at}; }
};
DEV Plain operator+(Plain a, Plain b) { return {a.value + b.value}; }
DEV Plain operator-(Plain a, Plain b) { return {a.value - b.value}; }
DEV Plain operator*(Plain a, Plain b) { return {a.value * b.value}; }

template <int N> struct Dual {
    double value;
    double slopes[N];
    static DEV Dual constant(double value) {
        Dual d;
        d.value = value;
        for (int i = 0; i < N; i++) d.slopes[i] = 0.0;
        return d;
    }
    static DEV Dual variable(double value, int index) {
        Dual d = constant(value);
        d.slopes[index] = 1.0;
        return d;
    }
    DEV Dual chain(double at, double slope) const {
        Dual d;
        d.value = at;
        for (int i = 0; i < N; i++) d.slopes[i] = slope * slopes[i];
        return d;
    }
};
template <int N> DEV Dual<N> operator+(const Dual<N>& a, const Dual<N>& b) {
    Dual<N> d;
    d.value = a.value + b.value;
    for (int i = 0; i < N; i++) d.slopes[i] = a.slopes[i] + b.slopes[i];
    return d;
}
template <int N> DEV Dual<N> operator-(const Dual<N>& a, const Dual<N>& b) {
    Dual<N> d;
    d.value = a.value - b.value;
    for (int i = 0; i < N; i++) d.slopes[i] = a.slopes[i] - b.slopes[i];
    return d;
}
template <int N> DEV Dual<N> operator*(const Dual<N>& a, const Dual<N>& b) {
    Dual<N> d;
    d.value = a.value * b.value;
    for (int i = 0; i < N; i++) d.slopes[i] = a.slopes[i] * b.value + b.slopes[i] * a.value;
    return d;
}

// The smaller and the larger one; NaN if one of them is.
template <class T> DEV T smaller(const T& a, const T& b) { return isnan(a.value) || a.value <= b.value ? a : b; }
template <class T> DEV T larger(const T& a, const T& b) { return isnan(a.value) || a.value >= b.value ? a : b; }

template <class T> struct Span {
    T low, high;
    DEV Span plus(const Span& o) const { return {low + o.low, high + o.high}; }
    DEV Span minus(const Span& o) const { return {low - o.high, high - o.low}; }
    DEV Span times(const Span& o) const {
        T a = low * o.low, b = low * o.high, c = high * o.low, d = high * o.high;
        return {smaller(smaller(smaller(a, b), c), d), larger(larger(larger(a, b), c), d)};
    }
    DEV Span hull(const Span& o) const { return {smaller(low, o.low), larger(high, o.high)}; }
    DEV Span meet(const Span& o) const { return {larger(low, o.low), smaller(high, o.high)}; }
};

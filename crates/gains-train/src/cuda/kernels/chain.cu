// One neuron in two consecutive stages: what the change between them says about it, and the way back.

// A ∩ B, or A if rounding has made that empty. Returns which ends are B's: bit 0 lower, bit 1 upper.
DEV u32 meet(float al, float au, float bl, float bu, float& l, float& u) {
    bool fl = bl > al, fu = bu < au;
    l = fl ? bl : al;
    u = fu ? bu : au;
    if (l > u) { l = al; u = au; return 0; }
    return (fl ? 1u : 0u) | (fu ? 2u : 0u);
}
DEV float positive(float x) { return x < 0.0f ? 0.0f : x; }

// What is known of one neuron's activation in a stage, and how: see the bits below.
enum : u32 {
    LOWER_ON = 1, UPPER_ON = 2,              // signs of the ends in front of the ReLU
    LOWER_CHAINED = 4, UPPER_CHAINED = 8,    // ends in front of it that came from the stage before
    LOWER_KIND = 16, UPPER_KIND = 64,        // 2 bits each: the difference's end is 0, that in front of it, or a difference of ReLUs
    LOWER_OUT = 256, UPPER_OUT = 512,        // ends behind it that came from the stage before
};
struct Ends { float lower, upper; };

// One neuron of one layer in a stage after the first. In: p ordinary (pc, pr), the change in front (dc, dr), the stage before
// (before, behind). Out: its ends in front and behind, the centre and radius behind and of the change behind.
template <bool RELU> DEV u32 chain(float& pc, float& pr, float& dc, float& dr, Ends& before, Ends& behind) {
    float dl = dc - dr, du = dc + dr;
    float l, u;
    u32 bits = meet(pc - pr, pc + pr, before.lower + dl, before.upper + du, l, u) << 2;
    if (l > 0.0f) bits |= LOWER_ON;
    if (u > 0.0f) bits |= UPPER_ON;
    float al = l, au = u, rl = dl, ru = du;
    if constexpr (RELU) {
        u32 kl = 1, ku = 1;
        if (before.lower >= 0.0f && l >= 0.0f) {
        } else if (before.upper <= 0.0f && u <= 0.0f) {
            rl = 0.0f; ru = 0.0f; kl = 0; ku = 0;
        } else {
            if (!(dl < 0.0f)) { rl = 0.0f; kl = 0; }
            if (!(du > 0.0f)) { ru = 0.0f; ku = 0; }
        }
        u32 other = meet(rl, ru, positive(l) - positive(before.upper), positive(u) - positive(before.lower), rl, ru);
        if (other & 1) kl = 2;
        if (other & 2) ku = 2;
        u32 out = meet(positive(l), positive(u), behind.lower + rl, behind.upper + ru, al, au);
        bits |= kl * LOWER_KIND | ku * UPPER_KIND | out * LOWER_OUT;
    }
    before = {l, u};
    behind = {al, au};
    pc = 0.5f * (al + au); pr = 0.5f * (au - al);
    dc = 0.5f * (rl + ru); dr = 0.5f * (ru - rl);
    return bits;
}

// The way back of `chain`. In: gradients behind (centre, radius) and of the change behind, and what the next stage owes the
// ends of this one (of_before, of_behind); `earlier` are the bits of the stage before. Out: gradients of p and of the change in
// front, and in of_before, of_behind what this stage owes the one before.
template <bool RELU>
DEV void chain_back(u32 bits, u32 earlier, float& pc, float& pr, float& dc, float& dr, Ends& of_before, Ends& of_behind) {
    Ends a = {0.5f * (pc - pr) + of_behind.lower, 0.5f * (pc + pr) + of_behind.upper};
    Ends rho = {0.5f * (dc - dr), 0.5f * (dc + dr)};
    Ends p = of_before, d = {0.0f, 0.0f};
    of_before = {0.0f, 0.0f};
    of_behind = {0.0f, 0.0f};
    if constexpr (RELU) {
        if (bits & LOWER_OUT) { of_behind.lower = a.lower; rho.lower += a.lower; }
        else if (bits & LOWER_ON) p.lower += a.lower;
        if (bits & UPPER_OUT) { of_behind.upper = a.upper; rho.upper += a.upper; }
        else if (bits & UPPER_ON) p.upper += a.upper;
        u32 kl = bits / LOWER_KIND & 3, ku = bits / UPPER_KIND & 3;
        if (kl == 1) d.lower = rho.lower;
        else if (kl == 2) {
            if (bits & LOWER_ON) p.lower += rho.lower;
            if (earlier & UPPER_ON) of_before.upper -= rho.lower;
        }
        if (ku == 1) d.upper = rho.upper;
        else if (ku == 2) {
            if (bits & UPPER_ON) p.upper += rho.upper;
            if (earlier & LOWER_ON) of_before.lower -= rho.upper;
        }
    } else {
        p.lower += a.lower; p.upper += a.upper;
        d = rho;
    }
    if (bits & LOWER_CHAINED) { of_before.lower += p.lower; d.lower += p.lower; p.lower = 0.0f; }
    if (bits & UPPER_CHAINED) { of_before.upper += p.upper; d.upper += p.upper; p.upper = 0.0f; }
    pc = p.lower + p.upper; pr = p.upper - p.lower;
    dc = d.lower + d.upper; dr = d.upper - d.lower;
}

// Splits the gradient of a meet among its two arguments, as centre and radius: `bits` say which ends are the second's.
DEV void share(u32 bits, Ends g, float& ac, float& ar, float& bc, float& br) {
    Ends a = {(bits & 1) ? 0.0f : g.lower, (bits & 2) ? 0.0f : g.upper};
    ac = a.lower + a.upper; ar = a.upper - a.lower;
    bc = g.lower + g.upper - ac; br = g.upper - g.lower - ar;
}

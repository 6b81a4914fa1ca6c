/* Authenticated bits: leaky ANDs, products of masks, and half-gates with authenticated masks (sedml.mpc.authenticated).
 *
 * A row has 128 bits. Written once for all processors: hashes, which are nearly all of the work, are made in batches of rows
 * by hash_rows of narrow.h or wide.h; the rest is XOR.
 */
#ifndef SEDML_AUTHENTICATED_H
#define SEDML_AUTHENTICATED_H

#include "wide.h"

enum { ROW = 2, AND_ROWS = 3 * ROW, BATCH = 32, AHEAD = 12 }; /* words; rows hashed together; ANDs fetched ahead */

static inline block_t spread(uint8_t bit) {
    const uint64_t mask = 0 - (uint64_t)(bit & 1);
    return (block_t){mask, mask};
}

/* ---- leaky ANDs: bits uint8[n][3], rows uint64[n][3][2] of x, y, z; what is kept of words under either Delta ---- */

typedef struct {
    const uint8_t *keys;
    uint64_t first;
    uint64_t own_kept, peer_kept;
    const uint8_t *bits;
    const uint64_t *own, *peer;
} leaky_t;

/* c = low(own[y] ^ peer[y]), h = low H(key), g = h ^ low H(key ^ Delta) ^ c, where key is own[x] ^ x Delta */
NARROW static void leaky_offer(const leaky_t *l, const uint64_t *delta, size_t n, uint64_t *c, uint64_t *h, uint64_t *g) {
    const block_t offset = load(delta);
    for (size_t at = 0; at < n; at += BATCH) {
        const size_t many = n - at < BATCH ? n - at : BATCH;
        uint64_t zero[BATCH][2], one[BATCH][2];
        for (size_t i = 0; i < many; i++) {
            const block_t key = load(l->own + AND_ROWS * (at + i)) ^ (spread(l->bits[3 * (at + i)]) & offset);
            store(zero[i], key);
            store(one[i], key ^ offset);
        }
        CHOSEN(hash_rows)(l->keys, zero[0], many, l->first + at, 0, zero[0]);
        CHOSEN(hash_rows)(l->keys, one[0], many, l->first + at, 0, one[0]);
        for (size_t i = 0; i < many; i++) {
            const size_t y = AND_ROWS * (at + i) + ROW;
            c[at + i] = (l->own[y] & l->own_kept) ^ (l->peer[y] & l->peer_kept);
            h[at + i] = zero[i][0];
            g[at + i] = zero[i][0] ^ one[i][0] ^ c[at + i];
        }
    }
}

/* s ^= x (c ^ theirs) ^ low H(peer[x]) ^ low(own[z] ^ peer[z]) */
NARROW static void leaky_take(const leaky_t *l, size_t n, const uint64_t *c, const uint64_t *theirs, uint64_t *s) {
    for (size_t at = 0; at < n; at += BATCH) {
        const size_t many = n - at < BATCH ? n - at : BATCH;
        uint64_t rows[BATCH][2];
        for (size_t i = 0; i < many; i++) store(rows[i], load(l->peer + AND_ROWS * (at + i)));
        CHOSEN(hash_rows)(l->keys, rows[0], many, l->first + at, 0, rows[0]);
        for (size_t i = 0; i < many; i++) {
            const size_t j = at + i, z = AND_ROWS * j + 2 * ROW;
            const uint64_t x = 0 - (uint64_t)(l->bits[3 * j] & 1);
            s[j] ^= (x & (c[j] ^ theirs[j])) ^ rows[i][0] ^ (l->own[z] & l->own_kept) ^ (l->peer[z] & l->peer_kept);
        }
    }
}

/* own[z] ^= d Delta, s ^= d low(Delta) */
NARROW static void leaky_correct(const uint8_t *d, const uint64_t *delta, uint64_t kept, size_t n, uint64_t *own, uint64_t *s) {
    const block_t offset = load(delta);
    for (size_t j = 0; j < n; j++) {
        uint64_t *z = own + AND_ROWS * j + 2 * ROW;
        store(z, load(z) ^ (spread(d[j]) & offset));
        s[j] ^= (0 - (uint64_t)(d[j] & 1)) & delta[0] & kept;
    }
}

/* ---- buckets ---- */

/* The places of keys in the order of the keys, equal ones as they stand: by digits of 11 bits; spare uint32[2][n]. */
static void order(const uint32_t *keys, size_t n, uint32_t *out, uint32_t *spare) {
    enum { DIGIT = 11, DIGITS = 3 };
    uint32_t starts[DIGITS][1 << DIGIT] = {{0}}, *from = spare, *to = out;
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++) starts[d][keys[i] >> DIGIT * d & ((1 << DIGIT) - 1)]++;
    for (int d = 0; d < DIGITS; d++)
        for (uint32_t i = 0, sum = 0; i < 1 << DIGIT; i++) {
            const uint32_t many = starts[d][i];
            starts[d][i] = sum;
            sum += many;
        }
    for (int d = 0; d < DIGITS; d++) {
        for (size_t i = 0; i < n; i++) {
            const uint32_t place = d ? from[i] : (uint32_t)i;
            to[starts[d][keys[place] >> DIGIT * d & ((1 << DIGIT) - 1)]++] = place;
        }
        uint32_t *other = from;
        from = to;
        to = other;
    }
}

/* bits uint8[..][3], place uint32[others][n] -> e uint8[others][n], x and y uint8[n] */
static void bucket_bits(const uint32_t *place, const uint8_t *bits, size_t others, size_t n, uint8_t *e, uint8_t *x, uint8_t *y) {
    for (size_t i = 0; i < n; i++) {
        x[i] = bits[3 * i];
        y[i] = bits[3 * i + 1];
    }
    for (size_t row = 0; row < others; row++)
        for (size_t i = 0; i < n; i++) {
            const uint8_t *other = bits + 3 * (size_t)place[row * n + i];
            x[i] ^= other[0];
            e[row * n + i] = y[i] ^ other[1];
        }
}

/* ---- products of masks, of ANDs from number `first` on ---- */

typedef struct {
    size_t n, others;            /* ANDs, and leaky ANDs of a bucket but the first */
    const uint32_t *place;       /* uint32[others][n] */
    const uint8_t *e, *f, *g;    /* uint8[others][n], uint8[n] */
    const uint64_t *leaky;       /* rows uint64[..][3][2] */
    const uint64_t *a, *b;       /* uint64[n][2] */
    const uint64_t *delta;       /* 0 where rows are not under the own Delta */
} products_t;

NARROW static void products(const products_t *p, size_t first, uint64_t *out, uint64_t *words) {
    const block_t offset = load(p->delta);
    const uint64_t low = p->delta[0];
    for (size_t i = 0; i < p->n; i++) {
        if (i + AHEAD < p->n)
            for (size_t row = 0; row < p->others; row++) {
                const uint64_t *next = p->leaky + AND_ROWS * (size_t)p->place[row * p->n + i + AHEAD];
                __builtin_prefetch(next);
                __builtin_prefetch(next + AND_ROWS - 1);
            }
        const uint64_t *own = p->leaky + AND_ROWS * (first + i);
        const block_t y = load(own + ROW);
        block_t x = load(own), z = load(own + 2 * ROW);
        for (size_t row = 0; row < p->others; row++) {
            const uint8_t e = p->e[row * p->n + i];
            const uint64_t *other = p->leaky + AND_ROWS * (size_t)p->place[row * p->n + i];
            const block_t other_x = load(other);
            x ^= other_x;
            z ^= load(other + 2 * ROW) ^ (spread(e) & other_x);
            words[row * p->n + i] = y[0] ^ other[ROW] ^ ((0 - (uint64_t)(e & 1)) & low);
        }
        const block_t f = spread(p->f[i]), g = spread(p->g[i]);
        words[p->others * p->n + i] = p->a[ROW * i] ^ x[0] ^ (f[0] & low);
        words[(p->others + 1) * p->n + i] = p->b[ROW * i] ^ y[0] ^ (g[0] & low);
        store(out + ROW * i, z ^ (f & y) ^ (g & x) ^ (f & g & offset));
    }
}

/* ---- circuits: rows uint64[wires][PART][2] of a few samples at a time, so that they stay in the cache ---- */

enum { PART = 32 };
enum { OUT, A, A2, B, B2, IS_AND, FIELDS }; /* of a gate */

typedef struct {
    const uint8_t *keys;
    const int32_t *gates; /* int32[count][FIELDS]; A2 and B2 are -1 where there is none */
    size_t count, ands, inputs, samples;
    uint64_t block;
    const uint64_t *delta;
} masked_t;

NARROW static inline void operands(const uint64_t *wires, int32_t one, int32_t other, uint64_t *out) {
    const uint64_t *x = wires + (size_t)one * PART * ROW;
    if (other < 0) memcpy(out, x, PART * ROW * 8);
    else {
        const uint64_t *y = wires + (size_t)other * PART * ROW;
        for (size_t i = 0; i < PART; i++) store(out + ROW * i, load(x + ROW * i) ^ load(y + ROW * i));
    }
}

static void put(uint64_t *wires, size_t wire, const uint64_t *rows, size_t place, size_t many) {
    memcpy(wires + wire * PART * ROW, rows + ROW * place, many * ROW * 8);
}

static void begin(const masked_t *c, const uint64_t *inputs, uint64_t *wires, size_t start, size_t many) {
    for (size_t i = 0; i < c->inputs; i++) put(wires, 2 + i, inputs, i * c->samples + start, many);
}

/* The rows of the operands of all ANDs, where those of their results are given. */
NARROW static void weave_part(const masked_t *c, uint64_t *wires, const uint64_t *results, uint64_t *a, uint64_t *b, size_t start, size_t many) {
    size_t and_ = 0;
    for (const int32_t *gate = c->gates; gate < c->gates + FIELDS * c->count; gate += FIELDS) {
        uint64_t *out = wires + (size_t)gate[OUT] * PART * ROW, left[PART * ROW], right[PART * ROW];
        if (!gate[IS_AND]) {
            operands(wires, gate[A], gate[B], out);
            continue;
        }
        const size_t at = and_++ * c->samples + start;
        operands(wires, gate[A], gate[A2], left);
        operands(wires, gate[B], gate[B2], right);
        memcpy(a + ROW * at, left, many * ROW * 8);
        memcpy(b + ROW * at, right, many * ROW * 8);
        memcpy(out, results + ROW * at, many * ROW * 8);
    }
}

/* tables uint64[2][ands][samples][2], labels uint64[ands][samples][2] */
NARROW static void garble_part(const masked_t *c, uint64_t *wires, const uint64_t *a, const uint64_t *b, const uint64_t *results,
                               uint64_t *tables, uint64_t *labels, size_t start, size_t many) {
    const block_t offset = load(c->delta);
    const size_t all = c->ands * c->samples;
    size_t and_ = 0;
    for (const int32_t *gate = c->gates; gate < c->gates + FIELDS * c->count; gate += FIELDS) {
        uint64_t *out = wires + (size_t)gate[OUT] * PART * ROW;
        if (!gate[IS_AND]) {
            operands(wires, gate[A], gate[B], out);
            continue;
        }
        const size_t at = and_++ * c->samples + start;
        uint64_t left[PART * ROW], h[4][PART * ROW];
        operands(wires, gate[A], gate[A2], left);
        operands(wires, gate[B], gate[B2], h[2]);
        for (size_t i = 0; i < many; i++) {
            store(h[1] + ROW * i, load(left + ROW * i) ^ offset);
            store(h[3] + ROW * i, load(h[2] + ROW * i) ^ offset);
        }
        CHOSEN(hash_rows)(c->keys, left, many, at, c->block, h[0]);
        CHOSEN(hash_rows)(c->keys, h[1], many, at, c->block, h[1]);
        CHOSEN(hash_rows)(c->keys, h[2], many, all + at, c->block, h[2]);
        CHOSEN(hash_rows)(c->keys, h[3], many, all + at, c->block, h[3]);
        for (size_t i = 0; i < many; i++) {
            const size_t here = ROW * (at + i), r = ROW * i;
            const block_t of_left = load(h[0] + r), of_right = load(h[2] + r);
            store(tables + here, of_left ^ load(h[1] + r) ^ load(b + here));
            store(tables + ROW * all + here, of_right ^ load(h[3] + r) ^ load(a + here) ^ load(left + r));
            const block_t found = of_left ^ of_right ^ load(results + here);
            store(out + r, found);
            store(labels + here, found);
        }
    }
}

/* known uint8[wires][PART]: M; colours and values uint8[ands][samples] */
NARROW static void evaluate_part(const masked_t *c, uint64_t *wires, uint8_t *known, const uint64_t *tables, const uint8_t *colours,
                                 const uint64_t *results, uint64_t *labels, uint8_t *values, size_t start, size_t many) {
    const size_t all = c->ands * c->samples;
    size_t and_ = 0;
    for (const int32_t *gate = c->gates; gate < c->gates + FIELDS * c->count; gate += FIELDS) {
        uint64_t *out = wires + (size_t)gate[OUT] * PART * ROW;
        uint8_t *value = known + (size_t)gate[OUT] * PART;
        const uint8_t *of_a = known + (size_t)gate[A] * PART, *of_b = known + (size_t)gate[B] * PART;
        if (!gate[IS_AND]) {
            operands(wires, gate[A], gate[B], out);
            for (size_t i = 0; i < PART; i++) value[i] = of_a[i] ^ of_b[i];
            continue;
        }
        const size_t at = and_++ * c->samples + start;
        const uint8_t *of_a2 = gate[A2] < 0 ? known : known + (size_t)gate[A2] * PART; /* wire 0 is the constant 0 */
        const uint8_t *of_b2 = gate[B2] < 0 ? known : known + (size_t)gate[B2] * PART;
        uint64_t left[PART * ROW], h[2][PART * ROW];
        operands(wires, gate[A], gate[A2], left);
        operands(wires, gate[B], gate[B2], h[1]);
        CHOSEN(hash_rows)(c->keys, left, many, at, c->block, h[0]);
        CHOSEN(hash_rows)(c->keys, h[1], many, all + at, c->block, h[1]);
        for (size_t i = 0; i < many; i++) {
            const size_t here = ROW * (at + i), r = ROW * i;
            block_t found = load(h[0] + r) ^ load(h[1] + r) ^ load(results + here);
            found ^= spread(of_a[i] ^ of_a2[i]) & load(tables + here);
            found ^= spread(of_b[i] ^ of_b2[i]) & (load(tables + ROW * all + here) ^ load(left + r));
            store(out + r, found);
            store(labels + here, found);
            value[i] = values[at + i] = (uint8_t)(found[0] & 1) ^ colours[at + i];
        }
    }
}

#endif

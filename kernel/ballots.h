/* Ballots: numbers modulo p = 2^31 - 2^24 + 1, elements of E = F[x] / (x^4 - 3) as four of them, and the loops of
 * sedml.protocol.ballots over them.
 */
#ifndef SEDML_BALLOTS_H
#define SEDML_BALLOTS_H

#include <stdlib.h>

#include "wide.h"

enum { DEGREE = 4, DRAWN = 1024 };
static const uint32_t PRIME = 2130706433u;

#define INLINED static inline __attribute__((always_inline))

/* ---- draw: the first `count` numbers below p of a stream of 31-bit numbers ---- */

/* Those below p of all words, of which there is room for all; how many they are. */
static size_t sift_narrow(const uint32_t *words, uint32_t *out) {
    size_t have = 0;
    for (size_t i = 0; i < DRAWN; i++) {
        out[have] = words[i] & 0x7fffffff;
        have += out[have] < PRIME;
    }
    return have;
}

#if defined(__x86_64__)
WIDE static size_t sift_wide(const uint32_t *words, uint32_t *out) {
    size_t have = 0;
    for (size_t i = 0; i < DRAWN; i += 16) {
        const __m512i word = _mm512_and_si512(_mm512_loadu_si512(words + i), _mm512_set1_epi32(0x7fffffff));
        const __mmask16 below = _mm512_cmplt_epu32_mask(word, _mm512_set1_epi32((int)PRIME));
        _mm512_storeu_si512(out + have, _mm512_maskz_compress_epi32(below, word));
        have += (size_t)__builtin_popcount(below);
    }
    return have;
}
#endif

static void draw(const uint8_t *keys, uint64_t high, uint64_t low, size_t count, uint32_t *out) {
    uint32_t words[DRAWN], last[DRAWN];
    for (size_t have = 0; have < count;) {
        CHOSEN(stream)(keys, high, low, sizeof words, (uint8_t *)words);
        const uint64_t sum = low + sizeof words / 16;
        high += sum < low;
        low = sum;
        if (count - have >= DRAWN) have += CHOSEN(sift)(words, out + have);
        else {
            const size_t more = CHOSEN(sift)(words, last), kept = more < count - have ? more : count - have;
            memcpy(out + have, last, kept * sizeof *out);
            have += kept;
        }
    }
}

/* ---- E ---- */

INLINED void times(const uint32_t *a, const uint32_t *b, uint32_t *out) {
    const uint64_t a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];
    const uint64_t high0 = (a1 * b3 + a2 * b2 + a3 * b1) % PRIME, high1 = (a2 * b3 + a3 * b2) % PRIME, high2 = a3 * b3 % PRIME;
    out[0] = (uint32_t)((a0 * b0 + 3 * high0) % PRIME);
    out[1] = (uint32_t)((a0 * b1 + a1 * b0 + 3 * high1) % PRIME);
    out[2] = (uint32_t)((a0 * b2 + a1 * b1 + a2 * b0 + 3 * high2) % PRIME);
    out[3] = (uint32_t)((a0 * b3 + a1 * b2 + a2 * b1 + a3 * b0) % PRIME);
}

INLINED uint32_t plus(uint32_t a, uint32_t b) {
    const uint32_t sum = a + b;
    return sum >= PRIME ? sum - PRIME : sum;
}

/* ---- a wire's values: masks [4][wires], entries, sums of rows, zeros ---- */

typedef struct {
    size_t samples, classes, wires, points;
    uint32_t *values; /* [points][wires] */
} wires_t;

static int lay_out(const uint32_t *x, const uint32_t *masks, size_t samples, size_t classes, size_t wires, size_t points, wires_t *out) {
    *out = (wires_t){samples, classes, wires, points, calloc(points * wires, sizeof(uint32_t))};
    if (!out->values) return -1;
    uint32_t *at = out->values + DEGREE * wires;
    memcpy(out->values, masks, DEGREE * wires * sizeof(uint32_t));
    memcpy(at, x, samples * classes * sizeof(uint32_t));
    at += samples * classes;
    for (size_t q = 0; q < samples; q++) {
        uint64_t sum = 0;
        for (size_t n = 0; n < classes; n++) sum += x[q * classes + n];
        at[q] = (uint32_t)(sum % PRIME);
    }
    return 0;
}

/* sums[i] = sum_k weights[k] values[k][i] for `count` columns from `first` on: in two limbs, as 2^16 products of 31 and 16
 * bits can be added up in 64. */
enum { COLUMNS = 16 };

NARROW INLINED void weigh(const wires_t *all, const uint32_t *weights, size_t stride, size_t first, size_t count, uint32_t *sums) {
    uint64_t low[COLUMNS] = {0}, high[COLUMNS] = {0};
    for (size_t k = 0; k < all->points; k++) {
        const uint32_t weight = weights[k * stride], upper = weight >> 16, lower = weight & 0xffff;
        uint32_t row[COLUMNS] = {0};
        memcpy(row, all->values + k * all->wires + first, count * sizeof(uint32_t));
        for (int i = 0; i < COLUMNS; i++) {
            low[i] += (uint64_t)row[i] * lower;
            high[i] += (uint64_t)row[i] * upper;
        }
    }
    for (int i = 0; i < COLUMNS; i++) sums[i] = (uint32_t)(((high[i] % PRIME << 16) + low[i]) % PRIME);
}

/* ---- examine: shares of all f(z), then of V(z) H(z) ---- */

/* What values at `count` points from `first` on weigh at z: [count][4]. V(z), if these are a wire's points. */
static void lagrange(const uint32_t *z, size_t first, size_t count, const uint32_t *scales, uint32_t *weights, uint32_t *zero) {
    uint32_t product[DEGREE] = {1}, term[DEGREE];
    memcpy(term, z, sizeof term);
    for (size_t i = 0; i < count; i++) { /* the product of all that come before i */
        memcpy(weights + DEGREE * i, product, sizeof product);
        term[0] = plus(z[0], PRIME - (uint32_t)(first + i));
        times(product, term, product);
    }
    memcpy(product, (uint32_t[DEGREE]){1}, sizeof product);
    for (size_t i = count; i--;) { /* and of all behind it */
        uint32_t *weight = weights + DEGREE * i;
        times(weight, product, weight);
        for (int c = 0; c < DEGREE; c++) weight[c] = (uint32_t)((uint64_t)weight[c] * scales[i] % PRIME);
        term[0] = plus(z[0], PRIME - (uint32_t)(first + i));
        times(product, term, product);
        if (i == DEGREE) memcpy(zero, product, sizeof product);
    }
}

NARROW static void examine(const wires_t *all, const uint32_t *weights, uint32_t *out) {
    for (size_t first = 0; first < all->wires; first += COLUMNS) {
        const size_t count = all->wires - first < COLUMNS ? all->wires - first : COLUMNS;
        for (int c = 0; c < DEGREE; c++) {
            uint32_t sums[COLUMNS];
            if (count == COLUMNS) weigh(all, weights + c, DEGREE, first, COLUMNS, sums);
            else weigh(all, weights + c, DEGREE, first, count, sums);
            for (size_t i = 0; i < count; i++) out[DEGREE * (first + i) + c] = sums[i];
        }
    }
}

/* V(z) H(z), from the values of H at the points behind a wire's. */
static void at_z(const uint32_t *weights, const uint32_t *zero, const uint32_t *values, size_t count, uint32_t *out) {
    uint32_t sum[DEGREE] = {0}, product[DEGREE];
    for (size_t i = 0; i < count; i++) {
        times(weights + DEGREE * i, values + DEGREE * i, product);
        for (int c = 0; c < DEGREE; c++) sum[c] = plus(sum[c], product[c]);
    }
    times(zero, sum, out);
}

/* ---- gate: sum_l rho_l g(F_l) ---- */

/* g(v) = v (v - 1) ... (v - m): two factors at a time, (v - j) (v - m + j) = u + j (m - j) with u = v (v - m). */
static void gate(const uint32_t *told, const uint32_t *rho, size_t wires, uint32_t votes, uint32_t *out) {
    memset(out, 0, DEGREE * sizeof *out);
    for (size_t l = 0; l < wires; l++) {
        uint32_t product[DEGREE], term[DEGREE], u[DEGREE];
        memcpy(term, told + DEGREE * l, sizeof term);
        term[0] = plus(term[0], PRIME - votes);
        times(told + DEGREE * l, term, u);
        memcpy(product, u, sizeof product);
        for (uint32_t j = 1; 2 * j < votes; j++) {
            memcpy(term, u, sizeof term);
            term[0] = plus(term[0], j * (votes - j));
            times(product, term, product);
        }
        if (votes % 2 == 0) {
            memcpy(term, told + DEGREE * l, sizeof term);
            term[0] = plus(term[0], PRIME - votes / 2);
            times(product, term, product);
        }
        times(product, rho + DEGREE * l, product);
        for (int c = 0; c < DEGREE; c++) out[c] = plus(out[c], product[c]);
    }
}

#endif

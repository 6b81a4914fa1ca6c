/* Loops over words of 8, 16, 32 and 64 bits, written once for all four of them. */
#ifndef SEDML_WORDS_H
#define SEDML_WORDS_H

#include "wide.h"

/* ---- pack: whole bytes of all words, lowest first, then fields of 4, 2 and 1 bits ---- */

static size_t packed_size(size_t count, int width) {
    size_t size = count * (size_t)(width / 8);
    for (int field = 4; field; field /= 2) if (width % 8 & field) size += (count * (size_t)field + 7) / 8;
    return size;
}

#define PACK(word)                                                                                              \
    static void pack_##word(const word *values, size_t count, int width, uint8_t *out) {                        \
        int shift = 0;                                                                                          \
        for (; shift + 8 <= width; shift += 8, out += count)                                                    \
            for (size_t i = 0; i < count; i++) out[i] = (uint8_t)(values[i] >> shift);                          \
        for (int field = 4; field; field /= 2) {                                                                \
            if (!(width % 8 & field)) continue;                                                                 \
            const int each = 8 / field, mask = (1 << field) - 1;                                                \
            const size_t whole = count / (size_t)each;                                                          \
            for (size_t i = 0; i < whole; i++) {                                                                \
                unsigned byte = 0;                                                                              \
                for (int k = 0; k < each; k++) byte |= ((unsigned)(values[i * (size_t)each + (size_t)k] >> shift) & (unsigned)mask) << (field * k); \
                out[i] = (uint8_t)byte;                                                                         \
            }                                                                                                   \
            if (count % (size_t)each) {                                                                         \
                unsigned byte = 0;                                                                              \
                for (size_t i = whole * (size_t)each, k = 0; i < count; i++, k++) byte |= ((unsigned)(values[i] >> shift) & (unsigned)mask) << ((size_t)field * k); \
                out[whole] = (uint8_t)byte;                                                                     \
            }                                                                                                   \
            out += (count * (size_t)field + 7) / 8;                                                             \
            shift += field;                                                                                     \
        }                                                                                                       \
    }                                                                                                           \
    static void unpack_##word(const uint8_t *in, size_t count, int width, word *values) {                       \
        int shift = 0;                                                                                          \
        memset(values, 0, count * sizeof(word));                                                                \
        for (; shift + 8 <= width; shift += 8, in += count)                                                     \
            for (size_t i = 0; i < count; i++) values[i] |= (word)((word)in[i] << shift);                       \
        for (int field = 4; field; field /= 2) {                                                                \
            if (!(width % 8 & field)) continue;                                                                 \
            const int each = 8 / field, mask = (1 << field) - 1;                                                \
            for (size_t i = 0; i < count; i++)                                                                  \
                values[i] |= (word)((word)(in[i / (size_t)each] >> ((i % (size_t)each) * (size_t)field) & mask) << shift); \
            in += (count * (size_t)field + 7) / 8;                                                              \
            shift += field;                                                                                     \
        }                                                                                                       \
    }
PACK(uint8_t)
PACK(uint16_t)
PACK(uint32_t)
PACK(uint64_t)

/* ---- the pads of transfers: H(w), H(w ^ Delta) and H(v), a few hundred at a time ---- */

enum { PIECE = 256 };

typedef void hash_rows_t(const uint8_t *, const uint64_t *, size_t, uint64_t, uint64_t, uint64_t *);

typedef struct {
    uint64_t zero[PIECE][2], one[PIECE][2], chosen[PIECE][2];
} pads_t;

typedef struct {
    const uint8_t *keys;
    const uint64_t *sent, *received, *delta; /* rows of w, rows of v, Delta */
    uint64_t first;                          /* the number of the first of them */
} transfers_t;

static void pads_of(const transfers_t *ots, size_t start, size_t count, uint64_t block, pads_t *out) {
    hash_rows_t *hash_rows = CHOSEN(hash_rows);
    const uint64_t *w = ots->sent + 2 * start, low = ots->delta[0], high = ots->delta[1];
    for (size_t i = 0; i < count; i++) {
        out->one[i][0] = w[2 * i] ^ low;
        out->one[i][1] = w[2 * i + 1] ^ high;
    }
    hash_rows(ots->keys, w, count, ots->first + start, block, out->zero[0]);
    hash_rows(ots->keys, out->one[0], count, ots->first + start, block, out->one[0]);
    hash_rows(ots->keys, ots->received + 2 * start, count, ots->first + start, block, out->chosen[0]);
}

/* ---- look-ups: keys, z uint[count], d uint[bits][count], in words of 8 to 64 bits ---- */

#define LOOKUP(word)                                                                                            \
    static void lookup_##word(const transfers_t *ots, size_t bits, size_t count, const uint64_t *masks,         \
                              word *keys, word *z, word *d) {                                                   \
        pads_t pads;                                                                                            \
        for (size_t start = 0; start < count; start += PIECE) {                                                 \
            const size_t many = count - start < PIECE ? count - start : PIECE;                                  \
            memset(keys + start, 0, many * sizeof(word));                                                       \
            memset(z + start, 0, many * sizeof(word));                                                          \
            for (size_t bit = 0; bit < bits; bit++) {                                                           \
                const word mask = (word)masks[bit];                                                             \
                pads_of(ots, bit * count + start, many, 0, &pads);                                              \
                for (size_t i = 0; i < many; i++) {                                                             \
                    const word zero = (word)pads.zero[i][0], both = zero ^ (word)pads.one[i][0];                \
                    keys[start + i] ^= (word)pads.chosen[i][0];                                                 \
                    z[start + i] ^= zero ^ (both & mask);                                                       \
                    d[bit * count + start + i] = both;                                                          \
                }                                                                                               \
            }                                                                                                   \
        }                                                                                                       \
    }
LOOKUP(uint8_t)
LOOKUP(uint16_t)
LOOKUP(uint32_t)
LOOKUP(uint64_t)

/* ---- answers: z uint[rows][stride], d uint[bits][rows][stride]; shift, table and out [rows][used] ---- */

#define ANSWER(word)                                                                                            \
    static void answer_##word(const word *z, const word *d, const uint8_t *shift, const word *table, size_t bits,       \
                              size_t rows, size_t stride, size_t used, word *out) {                             \
        for (size_t row = 0; row < rows; row++) {                                                               \
            const word *zs = z + row * stride;                                                                  \
            for (size_t i = 0; i < used; i++) out[row * used + i] = zs[i] ^ table[row * used + i];              \
            for (size_t bit = 0; bit < bits; bit++) {                                                           \
                const word *ds = d + (bit * rows + row) * stride;                                               \
                for (size_t i = 0; i < used; i++)                                                               \
                    out[row * used + i] ^= (word)(ds[i] & (word)-(word)(shift[row * used + i] >> bit & 1));     \
            }                                                                                                   \
        }                                                                                                       \
    }
ANSWER(uint8_t)
ANSWER(uint16_t)
ANSWER(uint32_t)
ANSWER(uint64_t)

/* ---- scale: vectors, tau and kept uint[lanes][count] ---- */

#define SCALE(word)                                                                                             \
    static void scale_##word(const transfers_t *ots, const uint8_t *bits, const word *vectors, size_t lanes,    \
                             size_t count, word *tau, word *kept) {                                             \
        enum { WORDS = 16 / sizeof(word) }; /* of one hash */                                                   \
        pads_t pads;                                                                                            \
        for (size_t start = 0; start < count; start += PIECE) {                                                 \
            const size_t many = count - start < PIECE ? count - start : PIECE;                                  \
            for (size_t lane = 0; lane < lanes; lane++) {                                                       \
                if (lane % WORDS == 0) pads_of(ots, start, many, lane / WORDS, &pads);                          \
                const word *zero = (const word *)pads.zero + lane % WORDS, *one = (const word *)pads.one + lane % WORDS; \
                const word *chosen = (const word *)pads.chosen + lane % WORDS, *v = vectors + lane * count + start;      \
                word *t = tau + lane * count + start, *k = kept + lane * count + start;                         \
                for (size_t i = 0; i < many; i++) {                                                             \
                    const word own = (word)(bits[start + i] * v[i]);                                            \
                    t[i] = (word)(zero[WORDS * i] + (v[i] - own - own) - one[WORDS * i]);                       \
                    k[i] = (word)(own - zero[WORDS * i] + chosen[WORDS * i]);                                   \
                }                                                                                               \
            }                                                                                                   \
        }                                                                                                       \
    }
SCALE(uint8_t)
SCALE(uint16_t)
SCALE(uint32_t)
SCALE(uint64_t)

#endif

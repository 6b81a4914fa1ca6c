/* The hot loops with blocks of 128 bits, which run on every processor that has the instructions of blocks.h. */
#ifndef SEDML_NARROW_H
#define SEDML_NARROW_H

#include "blocks.h"

enum { TREES = 32, LEAVES = 16, DEPTH = 4 };

/* ---- stream: the key stream of AES-CTR ---- */

NARROW static void stream_narrow(const uint8_t *keys, uint64_t high, uint64_t low, size_t bytes, uint8_t *out) {
    for (size_t at = 0; at < bytes; at += 128) {
        uint8_t raw[128];
        block_t x[8];
        for (size_t i = 0; i < 8; i++) x[i] = counter(high, low, at / 16 + i) ^ KEY(keys, 0);
        for (int round = 1; round < 10; round++)
            for (int i = 0; i < 8; i++) x[i] = aes_round(x[i], KEY(keys, round));
        for (int i = 0; i < 8; i++) store(raw + 16 * i, aes_last(x[i], KEY(keys, 10)));
        memcpy(out + at, raw, bytes - at < 128 ? bytes - at : 128);
    }
}

/* ---- fold: columns uint64[TREES][DEPTH][words], sums uint64[TREES][words] or none ---- */

/* Four blocks of a leaf at a time; words is even. */
NARROW static void fold_narrow(const uint8_t *keys, int first, uint64_t high, uint64_t low, size_t words,
                               uint64_t *columns, uint64_t *sums) {
    for (size_t at = 0; at < words; at += 8) {
        const block_t count[4] = {counter(high, low, at / 2), counter(high, low, at / 2 + 1), counter(high, low, at / 2 + 2), counter(high, low, at / 2 + 3)};
        const size_t blocks = words - at < 8 ? (words - at) / 2 : 4;
        for (size_t tree = 0; tree < TREES; tree++) {
            block_t total[4], bits[DEPTH][4];
            memset(total, 0, sizeof total);
            memset(bits, 0, sizeof bits);
            for (size_t leaf = (size_t)first; leaf < LEAVES; leaf++) {
                const uint8_t *own = keys + (tree * LEAVES + leaf) * KEYS;
                block_t a[4];
                for (int i = 0; i < 4; i++) a[i] = count[i] ^ KEY(own, 0);
                for (int round = 1; round < 10; round++)
                    for (int i = 0; i < 4; i++) a[i] = aes_round(a[i], KEY(own, round));
                for (int i = 0; i < 4; i++) {
                    a[i] = aes_last(a[i], KEY(own, 10));
                    total[i] ^= a[i];
                    for (int bit = 0; bit < DEPTH; bit++)
                        if (leaf >> bit & 1) bits[bit][i] ^= a[i];
                }
            }
            for (size_t i = 0; i < blocks; i++) {
                for (size_t bit = 0; bit < DEPTH; bit++) store(columns + (tree * DEPTH + bit) * words + at + 2 * i, bits[bit][i]);
                if (sums) store(sums + tree * words + at + 2 * i, total[i]);
            }
        }
    }
}

/* ---- tags: GHASH as POLYVAL of the blocks with their bytes reversed (RFC 8452, appendix A) ---- */

enum { AT_ONCE = 16 }; /* blocks for one reduction */

static const block_t POLYNOMIAL = {1, 0xc200000000000000ULL}, REVERSED = {0x08090a0b0c0d0e0fULL, 0x0001020304050607ULL};

NARROW static inline block_t reduced(block_t low, block_t middle, block_t high) {
    low ^= (block_t){0, middle[0]};
    high ^= (block_t){middle[1], 0};
    for (int i = 0; i < 2; i++) low = (block_t){low[1], low[0]} ^ TIMES(low, 0, POLYNOMIAL, 1);
    return high ^ low;
}

NARROW static inline block_t dot(block_t a, block_t b) {
    return reduced(TIMES(a, 0, b, 0), TIMES(a, 1, b, 0) ^ TIMES(a, 0, b, 1), TIMES(a, 1, b, 1));
}

typedef struct {
    block_t powers[AT_ONCE]; /* of the key, the highest first */
    block_t length, pad;     /* the last block of each message; what a tag is hidden with */
} ghash_t;

NARROW static void ghash_key(const uint8_t *key, size_t blocks, ghash_t *out) {
    uint8_t keys[KEYS];
    schedule(key, keys);
    const block_t h = picked(encrypted(keys, (block_t){0, 0}), REVERSED);
    /* times x: one bit up, and what falls out comes back as the polynomial */
    const block_t carries = h >> 63, fell = {0 - carries[1], 0 - carries[1]};
    const block_t one = (h << 1 | (block_t){0, carries[0]}) ^ (fell & POLYNOMIAL);
    out->powers[AT_ONCE - 1] = one;
    for (int i = AT_ONCE - 2; i >= 0; i--) out->powers[i] = dot(out->powers[i + 1], one);
    out->length = (block_t){0, blocks * 128};
    out->pad = encrypted(keys, (block_t){0, 1ULL << 56});
}

NARROW static void tag_end(const ghash_t *key, block_t sum, uint8_t *out) {
    sum = dot(sum ^ key->length, key->powers[AT_ONCE - 1]);
    store(out, picked(sum, REVERSED) ^ key->pad);
}

NARROW static void tag_narrow(const ghash_t *key, const uint8_t *column, size_t blocks, uint8_t *out) {
    block_t sum = {0, 0};
    for (size_t at = 0; at < blocks;) {
        const size_t many = blocks - at < AT_ONCE ? blocks - at : AT_ONCE;
        block_t low = {0, 0}, middle = low, high = low;
        for (size_t i = 0; i < many; i++, at++) {
            block_t x = picked(KEY(column, at), REVERSED);
            if (i == 0) x ^= sum;
            const block_t p = key->powers[AT_ONCE - many + i];
            low ^= TIMES(x, 0, p, 0);
            high ^= TIMES(x, 1, p, 1);
            middle ^= TIMES(x, 1, p, 0) ^ TIMES(x, 0, p, 1);
        }
        sum = reduced(low, middle, high);
    }
    tag_end(key, sum, out);
}

/* ---- correct: columns uint64[TREES][DEPTH][words] ^= theirs uint64[TREES - 1][words] where masks uint64[TREES][DEPTH] ---- */

NARROW static void correct(uint64_t *columns, const uint64_t *theirs, const uint64_t *masks, size_t words) {
    for (size_t c = DEPTH; c < TREES * DEPTH; c++) {
        const uint64_t mask = masks[c], *from = theirs + (c / DEPTH - 1) * words;
        uint64_t *to = columns + c * words;
        for (size_t i = 0; i < words; i++) to[i] ^= from[i] & mask;
    }
}

/* ---- transpose: columns uint64[128][stride], of which `words` are used -> rows uint64[64 words][2] ---- */

/* 8 x 8 bytes: byte i of word c goes to byte c of word i. */
NARROW static inline void turn_bytes(const uint64_t *in, block_t *out) {
    block_t r[4], s[4];
    for (int c = 0; c < 4; c++) r[c] = LOWER(8, ((block_t){in[2 * c], 0}), ((block_t){in[2 * c + 1], 0}));
    s[0] = LOWER(16, r[0], r[1]); s[1] = UPPER(16, r[0], r[1]);
    s[2] = LOWER(16, r[2], r[3]); s[3] = UPPER(16, r[2], r[3]);
    out[0] = LOWER(32, s[0], s[2]); out[1] = UPPER(32, s[0], s[2]);
    out[2] = LOWER(32, s[1], s[3]); out[3] = UPPER(32, s[1], s[3]);
}

/* Bit b of 64 bytes -> row[2 b]. */
NARROW static inline void gather_bits(const uint8_t *line, uint64_t *row) {
#if defined(__x86_64__)
    __m256i low = _mm256_loadu_si256((const __m256i *)line), high = _mm256_loadu_si256((const __m256i *)(line + 32));
    for (int bit = 7; bit >= 0; bit--) {
        row[2 * bit] = (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
#else
    uint64_t words[8];
    block_t turned[4];
    memcpy(words, line, 64);
    for (int i = 0; i < 8; i++) { /* the 8 x 8 bits of each word, by halves, quarters and eighths */
        uint64_t x = words[i], t;
        t = (x ^ x >> 7) & 0x00aa00aa00aa00aaULL; x ^= t ^ t << 7;
        t = (x ^ x >> 14) & 0x0000cccc0000ccccULL; x ^= t ^ t << 14;
        t = (x ^ x >> 28) & 0x00000000f0f0f0f0ULL; x ^= t ^ t << 28;
        words[i] = x;
    }
    turn_bytes(words, turned);
    for (int bit = 0; bit < 8; bit++) row[2 * bit] = turned[bit / 2][bit % 2];
#endif
}

/* Eight words of 64 columns at a time: a tile of 64 x 64 bytes, byte i of a column's words in line i of the tile. */
NARROW static void transpose_narrow(const uint64_t *columns, size_t stride, size_t words, uint64_t *rows) {
    for (size_t at = 0; at < words; at += 8) {
        const size_t many = words - at < 8 ? words - at : 8;
        for (size_t half = 0; half < 2; half++) {
            uint8_t tile[64][64];
            for (size_t group = 0; group < 64; group += 8)
                for (size_t word = 0; word < many; word++) {
                    uint64_t in[8];
                    block_t turned[4];
                    for (size_t c = 0; c < 8; c++) in[c] = columns[(64 * half + group + c) * stride + at + word];
                    turn_bytes(in, turned);
                    for (size_t i = 0; i < 8; i++) memcpy(&tile[8 * word + i][group], (const uint8_t *)turned + 8 * i, 8);
                }
            for (size_t line = 0; line < 8 * many; line++) gather_bits(tile[line], rows + (64 * at + 8 * line) * 2 + half);
        }
    }
}

/* ---- hash_rows: H of rows uint64[count][2], with tweaks (first.., block) ---- */

NARROW static inline void hash(const uint8_t *keys, block_t *x, const block_t *tweak, int count) {
    block_t y[8];
    for (int i = 0; i < count; i++) x[i] ^= KEY(keys, 0);
    for (int round = 1; round < 10; round++)
        for (int i = 0; i < count; i++) x[i] = aes_round(x[i], KEY(keys, round));
    for (int i = 0; i < count; i++) {
        x[i] = aes_last(x[i], KEY(keys, 10));
        y[i] = x[i] ^ tweak[i] ^ KEY(keys, 0);
    }
    for (int round = 1; round < 10; round++)
        for (int i = 0; i < count; i++) y[i] = aes_round(y[i], KEY(keys, round));
    for (int i = 0; i < count; i++) x[i] ^= aes_last(y[i], KEY(keys, 10));
}

NARROW static void hash_rows_narrow(const uint8_t *keys, const uint64_t *rows, size_t count, uint64_t first, uint64_t block, uint64_t *out) {
    for (size_t at = 0; at < count; at += 8) {
        const size_t many = count - at < 8 ? count - at : 8;
        block_t h[8], tweak[8];
        for (size_t i = 0; i < 8; i++) {
            h[i] = i < many ? load(rows + 2 * (at + i)) : (block_t){0, 0};
            tweak[i] = (block_t){first + at + i, block};
        }
        hash(keys, h, tweak, 8);
        for (size_t i = 0; i < many; i++) store(out + 2 * (at + i), h[i]);
    }
}

/* ---- label: labels for 0 uint64[count][2] and bits uint8[count] -> labels of these bits ---- */

NARROW static void label(const uint64_t *zeros, const uint8_t *bits, const uint64_t *delta, size_t count, uint64_t *out) {
    const block_t offset = load(delta);
    for (size_t i = 0; i < count; i++) {
        const uint64_t chosen = 0 - (uint64_t)(bits[i] & 1);
        store(out + 2 * i, load(zeros + 2 * i) ^ ((block_t){chosen, chosen} & offset));
    }
}

#endif

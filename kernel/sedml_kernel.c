/* The hot loops of SEDML's servers, with the processor's AES: the same bytes as the NumPy code of sedml.mpc.ot.
 *
 * schedule   round keys of AES-128
 * fold       AES-CTR of the 16 leaves of each tree, summed up by the bits of the leaf's number (SoftSpokenOT)
 * transpose  128 long columns of bits to one row of 128 bits for each transfer
 * hash_rows  TMMO: H(x, i) = pi(pi(x) ^ i) ^ pi(x)
 * garble     AND gates by half-gates, on labels for 0
 * evaluate   the same, on active labels
 *
 * Nothing here branches or looks anything up by a secret. What the processor can do is found out once, at import:
 * AES with 128 bits is needed, AES with 512 bits (VAES, AVX-512) is used where it is there. On other processors the
 * import fails, and the NumPy code runs.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if !defined(__x86_64__) || !(defined(__GNUC__) || defined(__clang__))
#error "sedml-pate-kernel is for x86-64 processors and GCC or Clang; SEDML runs without it."
#endif
#include <immintrin.h>

#define AES __attribute__((target("aes,sse4.1,avx2")))
#define WIDE __attribute__((target("aes,vaes,avx2,avx512f,avx512bw,avx512vl,avx512dq")))

enum { TREES = 32, LEAVES = 16, DEPTH = 4, ROUNDS = 11, KEYS = 16 * ROUNDS };

/* ---- AES-128 ---- */

#define KEY(keys, round) _mm_loadu_si128((const __m128i *)((keys) + 16 * (round)))
#define KEYS_4(keys, round) _mm512_broadcast_i32x4(KEY(keys, round))

AES static inline __m128i next_key(__m128i key, __m128i made) {
    for (int i = 0; i < 3; i++) key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, _mm_shuffle_epi32(made, 0xff));
}

AES static void schedule(const uint8_t *seed, uint8_t *keys) {
    __m128i key = _mm_loadu_si128((const __m128i *)seed);
    _mm_storeu_si128((__m128i *)keys, key);
#define ROUND(i, constant)                                            \
    key = next_key(key, _mm_aeskeygenassist_si128(key, constant));    \
    _mm_storeu_si128((__m128i *)(keys + 16 * (i)), key)
    ROUND(1, 0x01); ROUND(2, 0x02); ROUND(3, 0x04); ROUND(4, 0x08); ROUND(5, 0x10);
    ROUND(6, 0x20); ROUND(7, 0x40); ROUND(8, 0x80); ROUND(9, 0x1b); ROUND(10, 0x36);
#undef ROUND
}

/* Counters have 128 bits, the highest byte first. */
static void counters(uint64_t high, uint64_t low, uint64_t first, int count, uint8_t *out) {
    for (int i = 0; i < count; i++) {
        uint64_t l = low + first + i, h = high + (l < low);
        h = __builtin_bswap64(h);
        l = __builtin_bswap64(l);
        memcpy(out + 16 * i, &h, 8);
        memcpy(out + 16 * i + 8, &l, 8);
    }
}

/* ---- fold: columns uint64[TREES][DEPTH][words], sums uint64[TREES][words] or none ---- */

typedef void fold_t(const uint8_t *, int, uint64_t, uint64_t, size_t, uint64_t *, uint64_t *);

/* Eight blocks of two leaves at a time. */
WIDE static void fold_wide(const uint8_t *keys, int first, uint64_t high, uint64_t low, size_t words,
                           uint64_t *columns, uint64_t *sums) {
    const __m512i zero = _mm512_setzero_si512();
    for (size_t at = 0; at < words; at += 16) {
        uint8_t raw[128];
        counters(high, low, at / 2, 8, raw);
        const __m512i count[2] = {_mm512_loadu_si512(raw), _mm512_loadu_si512(raw + 64)};
        const size_t left = words - at;
        const __mmask8 kept[2] = {left < 8 ? (1 << left) - 1 : 0xff, left < 8 ? 0 : left < 16 ? (1 << (left - 8)) - 1 : 0xff};
        for (int tree = 0; tree < TREES; tree++) {
            __m512i total[2] = {zero, zero}, bits[DEPTH][2] = {{zero, zero}, {zero, zero}, {zero, zero}, {zero, zero}};
            for (int leaf = 0; leaf < LEAVES; leaf += 2) {
                const uint8_t *even = keys + (size_t)(tree * LEAVES + leaf) * KEYS, *odd = even + KEYS;
                __m512i a[2], b[2];
                for (int i = 0; i < 2; i++) {
                    a[i] = _mm512_xor_si512(count[i], KEYS_4(even, 0));
                    b[i] = _mm512_xor_si512(count[i], KEYS_4(odd, 0));
                }
                for (int round = 1; round < 10; round++) {
                    const __m512i p = KEYS_4(even, round), q = KEYS_4(odd, round);
                    for (int i = 0; i < 2; i++) {
                        a[i] = _mm512_aesenc_epi128(a[i], p);
                        b[i] = _mm512_aesenc_epi128(b[i], q);
                    }
                }
                for (int i = 0; i < 2; i++) {
                    a[i] = leaf < first ? zero : _mm512_aesenclast_epi128(a[i], KEYS_4(even, 10));
                    b[i] = _mm512_aesenclast_epi128(b[i], KEYS_4(odd, 10));
                    bits[0][i] = _mm512_xor_si512(bits[0][i], b[i]);
                    a[i] = _mm512_xor_si512(a[i], b[i]);
                    total[i] = _mm512_xor_si512(total[i], a[i]);
                    for (int bit = 1; bit < DEPTH; bit++)
                        if (leaf >> bit & 1) bits[bit][i] = _mm512_xor_si512(bits[bit][i], a[i]);
                }
            }
            for (int i = 0; i < 2; i++) {
                for (int bit = 0; bit < DEPTH; bit++)
                    _mm512_mask_storeu_epi64(columns + (size_t)(tree * DEPTH + bit) * words + at + 8 * i, kept[i], bits[bit][i]);
                if (sums) _mm512_mask_storeu_epi64(sums + tree * words + at + 8 * i, kept[i], total[i]);
            }
        }
    }
}

/* Four blocks of a leaf at a time; words is even. */
AES static void fold_narrow(const uint8_t *keys, int first, uint64_t high, uint64_t low, size_t words,
                            uint64_t *columns, uint64_t *sums) {
    for (size_t at = 0; at < words; at += 8) {
        uint8_t raw[64];
        counters(high, low, at / 2, 4, raw);
        const int blocks = words - at < 8 ? (int)(words - at) / 2 : 4;
        for (int tree = 0; tree < TREES; tree++) {
            __m128i total[4], bits[DEPTH][4];
            memset(total, 0, sizeof total);
            memset(bits, 0, sizeof bits);
            for (int leaf = first; leaf < LEAVES; leaf++) {
                const uint8_t *own = keys + (size_t)(tree * LEAVES + leaf) * KEYS;
                __m128i a[4];
                for (int i = 0; i < 4; i++) a[i] = _mm_xor_si128(KEY(raw, i), KEY(own, 0));
                for (int round = 1; round < 10; round++)
                    for (int i = 0; i < 4; i++) a[i] = _mm_aesenc_si128(a[i], KEY(own, round));
                for (int i = 0; i < 4; i++) {
                    a[i] = _mm_aesenclast_si128(a[i], KEY(own, 10));
                    total[i] = _mm_xor_si128(total[i], a[i]);
                    for (int bit = 0; bit < DEPTH; bit++)
                        if (leaf >> bit & 1) bits[bit][i] = _mm_xor_si128(bits[bit][i], a[i]);
                }
            }
            for (int i = 0; i < blocks; i++) {
                for (int bit = 0; bit < DEPTH; bit++)
                    _mm_storeu_si128((__m128i *)(columns + (size_t)(tree * DEPTH + bit) * words + at + 2 * i), bits[bit][i]);
                if (sums) _mm_storeu_si128((__m128i *)(sums + tree * words + at + 2 * i), total[i]);
            }
        }
    }
}

/* ---- transpose: columns uint64[128][stride], of which `words` are used -> rows uint64[64 words][2] ---- */

/* Eight words of 64 columns at a time: a tile of 64 x 64 bytes, byte i of a column's words in line i of the tile. */
AES static void transpose(const uint64_t *columns, size_t stride, size_t words, uint64_t *rows) {
    for (size_t at = 0; at < words; at += 8) {
        const int many = words - at < 8 ? (int)(words - at) : 8;
        for (int half = 0; half < 2; half++) {
            uint8_t tile[64][64];
            for (int group = 0; group < 64; group += 8) {
                for (int word = 0; word < many; word++) {
                    /* 8 x 8 bytes: byte i of column c goes to byte c of line i. */
                    uint64_t in[8];
                    for (int c = 0; c < 8; c++) in[c] = columns[(size_t)(64 * half + group + c) * stride + at + word];
                    __m128i r[4], s[4];
                    for (int c = 0; c < 4; c++) r[c] = _mm_unpacklo_epi8(_mm_cvtsi64_si128((int64_t)in[2 * c]), _mm_cvtsi64_si128((int64_t)in[2 * c + 1]));
                    s[0] = _mm_unpacklo_epi16(r[0], r[1]); s[1] = _mm_unpackhi_epi16(r[0], r[1]);
                    s[2] = _mm_unpacklo_epi16(r[2], r[3]); s[3] = _mm_unpackhi_epi16(r[2], r[3]);
                    r[0] = _mm_unpacklo_epi32(s[0], s[2]); r[1] = _mm_unpackhi_epi32(s[0], s[2]);
                    r[2] = _mm_unpacklo_epi32(s[1], s[3]); r[3] = _mm_unpackhi_epi32(s[1], s[3]);
                    for (int i = 0; i < 4; i++) {
                        _mm_storel_epi64((__m128i *)&tile[8 * word + 2 * i][group], r[i]);
                        _mm_storeh_pd((double *)&tile[8 * word + 2 * i + 1][group], _mm_castsi128_pd(r[i]));
                    }
                }
            }
            for (int line = 0; line < 8 * many; line++) {
                __m256i low = _mm256_loadu_si256((const __m256i *)tile[line]), high = _mm256_loadu_si256((const __m256i *)(tile[line] + 32));
                uint64_t *row = rows + (64 * at + 8 * line) * 2 + half;
                for (int bit = 7; bit >= 0; bit--) {
                    row[2 * bit] = (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
                    low = _mm256_add_epi8(low, low);
                    high = _mm256_add_epi8(high, high);
                }
            }
        }
    }
}

/* ---- hash_rows ---- */

AES static void hash_rows_narrow(const uint8_t *keys, const uint8_t *rows, size_t count, uint64_t first, uint8_t *out) {
    for (size_t at = 0; at < count; at += 8) {
        const int many = count - at < 8 ? (int)(count - at) : 8;
        __m128i x[8], y[8];
        for (int i = 0; i < 8; i++) x[i] = _mm_xor_si128(i < many ? KEY(rows, at + i) : KEY(keys, 0), KEY(keys, 0));
        for (int round = 1; round < 10; round++)
            for (int i = 0; i < 8; i++) x[i] = _mm_aesenc_si128(x[i], KEY(keys, round));
        for (int i = 0; i < 8; i++) {
            x[i] = _mm_aesenclast_si128(x[i], KEY(keys, 10));
            y[i] = _mm_xor_si128(_mm_xor_si128(x[i], _mm_set_epi64x(0, (int64_t)(first + at + i))), KEY(keys, 0));
        }
        for (int round = 1; round < 10; round++)
            for (int i = 0; i < 8; i++) y[i] = _mm_aesenc_si128(y[i], KEY(keys, round));
        for (int i = 0; i < many; i++)
            _mm_storeu_si128((__m128i *)(out + 16 * (at + i)), _mm_xor_si128(_mm_aesenclast_si128(y[i], KEY(keys, 10)), x[i]));
    }
}

/* ---- half-gates: labels a, b uint64[rows][2], tables uint64[2][rows][2] ---- */

/* All ones where the lowest bit of a label is 1. */
WIDE static inline __m512i colour_4(__m512i label) {
    const __m512i bit = _mm512_shuffle_epi32(_mm512_and_si512(label, _mm512_set1_epi64(1)), _MM_PERM_BABA);
    return _mm512_sub_epi64(_mm512_setzero_si512(), bit);
}

/* H of so many vectors of four labels, in place; tweaks are (number, block). */
WIDE static inline void hash_4(const uint8_t *keys, __m512i *x, const __m512i *tweak, int count) {
    __m512i y[4];
    for (int i = 0; i < count; i++) x[i] = _mm512_xor_si512(x[i], KEYS_4(keys, 0));
    for (int round = 1; round < 10; round++)
        for (int i = 0; i < count; i++) x[i] = _mm512_aesenc_epi128(x[i], KEYS_4(keys, round));
    for (int i = 0; i < count; i++) {
        x[i] = _mm512_aesenclast_epi128(x[i], KEYS_4(keys, 10));
        y[i] = _mm512_xor_si512(_mm512_xor_si512(x[i], tweak[i]), KEYS_4(keys, 0));
    }
    for (int round = 1; round < 10; round++)
        for (int i = 0; i < count; i++) y[i] = _mm512_aesenc_epi128(y[i], KEYS_4(keys, round));
    for (int i = 0; i < count; i++) x[i] = _mm512_xor_si512(x[i], _mm512_aesenclast_epi128(y[i], KEYS_4(keys, 10)));
}

WIDE static void garble_wide(const uint8_t *keys, const uint64_t *a, const uint64_t *b, size_t rows, const uint64_t *delta,
                             uint64_t first, uint64_t block, uint64_t *tables, uint64_t *out) {
    const __m512i offset = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)delta));
    const __m512i steps = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
    uint64_t *of_evaluator = tables + 2 * rows;
    for (size_t at = 0; at < rows; at += 4) {
        const __mmask8 kept = rows - at < 4 ? (1 << 2 * (rows - at)) - 1 : 0xff;
        const __m512i A = _mm512_maskz_loadu_epi64(kept, a + 2 * at), B = _mm512_maskz_loadu_epi64(kept, b + 2 * at);
        const __m512i p = colour_4(A), q = colour_4(B);
        const uint64_t i = first + at, j = first + rows + at;
        const __m512i ti = _mm512_add_epi64(_mm512_set_epi64(block, i, block, i, block, i, block, i), steps);
        const __m512i tj = _mm512_add_epi64(_mm512_set_epi64(block, j, block, j, block, j, block, j), steps);
        __m512i h[4] = {A, _mm512_xor_si512(A, offset), B, _mm512_xor_si512(B, offset)};
        const __m512i tweak[4] = {ti, ti, tj, tj};
        hash_4(keys, h, tweak, 4);
        const __m512i both = _mm512_xor_si512(h[2], h[3]);
        const __m512i tg = _mm512_xor_si512(_mm512_xor_si512(h[0], h[1]), _mm512_and_si512(q, offset));
        __m512i c = _mm512_xor_si512(_mm512_xor_si512(h[0], h[2]), _mm512_and_si512(p, tg));
        c = _mm512_xor_si512(c, _mm512_and_si512(q, both));
        _mm512_mask_storeu_epi64(tables + 2 * at, kept, tg);
        _mm512_mask_storeu_epi64(of_evaluator + 2 * at, kept, _mm512_xor_si512(both, A));
        _mm512_mask_storeu_epi64(out + 2 * at, kept, c);
    }
}

WIDE static void evaluate_wide(const uint8_t *keys, const uint64_t *a, const uint64_t *b, size_t rows,
                               uint64_t first, uint64_t block, const uint64_t *tables, uint64_t *out) {
    const __m512i steps = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
    const uint64_t *of_evaluator = tables + 2 * rows;
    for (size_t at = 0; at < rows; at += 8) {
        __m512i h[4], tweak[4], kept_a[2], kept_b[2];
        __mmask8 kept[2];
        for (int k = 0; k < 2; k++) {
            const size_t from = at + 4 * k, left = rows > from ? rows - from : 0;
            kept[k] = left < 4 ? (1 << 2 * left) - 1 : 0xff;
            kept_a[k] = h[2 * k] = _mm512_maskz_loadu_epi64(kept[k], a + 2 * from);
            kept_b[k] = h[2 * k + 1] = _mm512_maskz_loadu_epi64(kept[k], b + 2 * from);
            const uint64_t i = first + from, j = first + rows + from;
            tweak[2 * k] = _mm512_add_epi64(_mm512_set_epi64(block, i, block, i, block, i, block, i), steps);
            tweak[2 * k + 1] = _mm512_add_epi64(_mm512_set_epi64(block, j, block, j, block, j, block, j), steps);
        }
        hash_4(keys, h, tweak, 4);
        for (int k = 0; k < 2; k++) {
            const size_t from = at + 4 * k;
            const __m512i tg = _mm512_maskz_loadu_epi64(kept[k], tables + 2 * from);
            const __m512i te = _mm512_xor_si512(_mm512_maskz_loadu_epi64(kept[k], of_evaluator + 2 * from), kept_a[k]);
            __m512i c = _mm512_xor_si512(_mm512_xor_si512(h[2 * k], h[2 * k + 1]), _mm512_and_si512(colour_4(kept_a[k]), tg));
            c = _mm512_xor_si512(c, _mm512_and_si512(colour_4(kept_b[k]), te));
            _mm512_mask_storeu_epi64(out + 2 * from, kept[k], c);
        }
    }
}

WIDE static void hash_rows_wide(const uint8_t *keys, const uint8_t *rows, size_t count, uint64_t first, uint8_t *out) {
    const __m512i steps = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
    for (size_t at = 0; at < count; at += 16) {
        __m512i h[4], tweak[4];
        __mmask8 kept[4];
        for (int k = 0; k < 4; k++) {
            const size_t from = at + 4 * k, left = count > from ? count - from : 0;
            const int64_t number = (int64_t)(first + from);
            kept[k] = left < 4 ? (1 << 2 * left) - 1 : 0xff;
            h[k] = _mm512_maskz_loadu_epi64(kept[k], rows + 16 * from);
            tweak[k] = _mm512_add_epi64(_mm512_set_epi64(0, number, 0, number, 0, number, 0, number), steps);
        }
        hash_4(keys, h, tweak, 4);
        for (int k = 0; k < 4; k++) _mm512_mask_storeu_epi64(out + 16 * (at + 4 * k), kept[k], h[k]);
    }
}

AES static inline __m128i colour(__m128i label) {
    const __m128i bit = _mm_shuffle_epi32(_mm_and_si128(label, _mm_set1_epi64x(1)), 0x44);
    return _mm_sub_epi64(_mm_setzero_si128(), bit);
}

AES static inline void hash(const uint8_t *keys, __m128i *x, const __m128i *tweak, int count) {
    __m128i y[4];
    for (int i = 0; i < count; i++) x[i] = _mm_xor_si128(x[i], KEY(keys, 0));
    for (int round = 1; round < 10; round++)
        for (int i = 0; i < count; i++) x[i] = _mm_aesenc_si128(x[i], KEY(keys, round));
    for (int i = 0; i < count; i++) {
        x[i] = _mm_aesenclast_si128(x[i], KEY(keys, 10));
        y[i] = _mm_xor_si128(_mm_xor_si128(x[i], tweak[i]), KEY(keys, 0));
    }
    for (int round = 1; round < 10; round++)
        for (int i = 0; i < count; i++) y[i] = _mm_aesenc_si128(y[i], KEY(keys, round));
    for (int i = 0; i < count; i++) x[i] = _mm_xor_si128(x[i], _mm_aesenclast_si128(y[i], KEY(keys, 10)));
}

AES static void garble_narrow(const uint8_t *keys, const uint64_t *a, const uint64_t *b, size_t rows, const uint64_t *delta,
                              uint64_t first, uint64_t block, uint64_t *tables, uint64_t *out) {
    const __m128i offset = _mm_loadu_si128((const __m128i *)delta);
    for (size_t at = 0; at < rows; at++) {
        const __m128i A = _mm_loadu_si128((const __m128i *)(a + 2 * at)), B = _mm_loadu_si128((const __m128i *)(b + 2 * at));
        const __m128i ti = _mm_set_epi64x((int64_t)block, (int64_t)(first + at)), tj = _mm_set_epi64x((int64_t)block, (int64_t)(first + rows + at));
        __m128i h[4] = {A, _mm_xor_si128(A, offset), B, _mm_xor_si128(B, offset)};
        const __m128i tweak[4] = {ti, ti, tj, tj};
        hash(keys, h, tweak, 4);
        const __m128i both = _mm_xor_si128(h[2], h[3]);
        const __m128i tg = _mm_xor_si128(_mm_xor_si128(h[0], h[1]), _mm_and_si128(colour(B), offset));
        __m128i c = _mm_xor_si128(_mm_xor_si128(h[0], h[2]), _mm_and_si128(colour(A), tg));
        c = _mm_xor_si128(c, _mm_and_si128(colour(B), both));
        _mm_storeu_si128((__m128i *)(tables + 2 * at), tg);
        _mm_storeu_si128((__m128i *)(tables + 2 * (rows + at)), _mm_xor_si128(both, A));
        _mm_storeu_si128((__m128i *)(out + 2 * at), c);
    }
}

AES static void evaluate_narrow(const uint8_t *keys, const uint64_t *a, const uint64_t *b, size_t rows,
                                uint64_t first, uint64_t block, const uint64_t *tables, uint64_t *out) {
    for (size_t at = 0; at < rows; at++) {
        const __m128i A = _mm_loadu_si128((const __m128i *)(a + 2 * at)), B = _mm_loadu_si128((const __m128i *)(b + 2 * at));
        __m128i h[2] = {A, B};
        const __m128i tweak[2] = {_mm_set_epi64x((int64_t)block, (int64_t)(first + at)), _mm_set_epi64x((int64_t)block, (int64_t)(first + rows + at))};
        hash(keys, h, tweak, 2);
        const __m128i tg = _mm_loadu_si128((const __m128i *)(tables + 2 * at));
        const __m128i te = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(tables + 2 * (rows + at))), A);
        __m128i c = _mm_xor_si128(_mm_xor_si128(h[0], h[1]), _mm_and_si128(colour(A), tg));
        _mm_storeu_si128((__m128i *)(out + 2 * at), _mm_xor_si128(c, _mm_and_si128(colour(B), te)));
    }
}

/* ---- Python ---- */

static int can_be_wide; /* whether there is AES with 512 bits */
static int wide;        /* whether it is used */

static int buffer(PyObject *object, Py_buffer *view, int writable, Py_ssize_t bytes) {
    int flags = writable ? PyBUF_WRITABLE : PyBUF_SIMPLE;
    if (PyObject_GetBuffer(object, view, flags) < 0) return -1; /* contiguous, or an error */
    if (bytes >= 0 && view->len != bytes) {
        PyBuffer_Release(view);
        PyErr_Format(PyExc_ValueError, "a buffer has %zd bytes, not %zd", view->len, bytes);
        return -1;
    }
    return 0;
}

static PyObject *py_schedule(PyObject *self, PyObject *args) {
    PyObject *seeds, *result;
    Py_buffer given;
    if (!PyArg_ParseTuple(args, "O", &seeds) || buffer(seeds, &given, 0, -1) < 0) return NULL;
    if (given.len % 16) { PyBuffer_Release(&given); PyErr_SetString(PyExc_ValueError, "seeds are 16 bytes each"); return NULL; }
    result = PyBytes_FromStringAndSize(NULL, given.len / 16 * KEYS);
    if (result) {
        char *out = PyBytes_AsString(result);
        for (Py_ssize_t i = 0; i < given.len / 16; i++) {
            schedule((const uint8_t *)given.buf + 16 * i, (uint8_t *)out + i * KEYS);
        }
    }
    PyBuffer_Release(&given);
    return result;
}

static PyObject *py_fold(PyObject *self, PyObject *args) {
    PyObject *keys, *counter, *columns, *sums;
    Py_buffer k, c, v, s;
    int first;
    Py_ssize_t words;
    if (!PyArg_ParseTuple(args, "OiOnOO", &keys, &first, &counter, &words, &columns, &sums)) return NULL;
    if (first < 0 || first > 1 || words < 0 || words % 2) { PyErr_SetString(PyExc_ValueError, "first is 0 or 1, words an even number"); return NULL; }
    if (buffer(keys, &k, 0, TREES * LEAVES * KEYS) < 0) return NULL;
    if (buffer(counter, &c, 0, 16) < 0) goto no_counter;
    if (buffer(columns, &v, 1, words * TREES * DEPTH * 8) < 0) goto no_columns;
    int has_sums = sums != Py_None;
    if (has_sums && buffer(sums, &s, 1, words * TREES * 8) < 0) goto no_sums;
    uint64_t hi, lo;
    memcpy(&hi, c.buf, 8); memcpy(&lo, (char *)c.buf + 8, 8);
    hi = __builtin_bswap64(hi); lo = __builtin_bswap64(lo);
    Py_BEGIN_ALLOW_THREADS
    fold_t *fold = wide ? fold_wide : fold_narrow;
    fold(k.buf, first, hi, lo, (size_t)words, v.buf, has_sums ? s.buf : NULL);
    Py_END_ALLOW_THREADS
    if (has_sums) PyBuffer_Release(&s);
    PyBuffer_Release(&v); PyBuffer_Release(&c); PyBuffer_Release(&k);
    Py_RETURN_NONE;
no_sums: PyBuffer_Release(&v);
no_columns: PyBuffer_Release(&c);
no_counter: PyBuffer_Release(&k);
    return NULL;
}

static PyObject *py_transpose(PyObject *self, PyObject *args) {
    PyObject *columns, *rows;
    Py_buffer v, r;
    Py_ssize_t stride, words;
    if (!PyArg_ParseTuple(args, "OnnO", &columns, &stride, &words, &rows)) return NULL;
    if (words < 0 || stride < words) { PyErr_SetString(PyExc_ValueError, "a column has fewer words than are wanted"); return NULL; }
    if (buffer(columns, &v, 0, stride * 128 * 8) < 0) return NULL;
    if (buffer(rows, &r, 1, words * 64 * 16) < 0) { PyBuffer_Release(&v); return NULL; }
    Py_BEGIN_ALLOW_THREADS
    transpose(v.buf, (size_t)stride, (size_t)words, r.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&r); PyBuffer_Release(&v);
    Py_RETURN_NONE;
}

static PyObject *py_hash_rows(PyObject *self, PyObject *args) {
    PyObject *keys, *rows, *out;
    Py_buffer k, x, y;
    unsigned long long first;
    if (!PyArg_ParseTuple(args, "OOKO", &keys, &rows, &first, &out)) return NULL;
    if (buffer(keys, &k, 0, KEYS) < 0) return NULL;
    if (buffer(rows, &x, 0, -1) < 0) goto no_rows;
    if (x.len % 16) { PyErr_SetString(PyExc_ValueError, "rows are 16 bytes each"); goto no_out; }
    if (buffer(out, &y, 1, x.len) < 0) goto no_out;
    Py_BEGIN_ALLOW_THREADS
    (wide ? hash_rows_wide : hash_rows_narrow)(k.buf, x.buf, (size_t)(x.len / 16), (uint64_t)first, y.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&y); PyBuffer_Release(&x); PyBuffer_Release(&k);
    Py_RETURN_NONE;
no_out: PyBuffer_Release(&x);
no_rows: PyBuffer_Release(&k);
    return NULL;
}

static PyObject *py_garble(PyObject *self, PyObject *args) {
    PyObject *objects[6];
    Py_buffer k, a, b, d, t, o, *views[6] = {&k, &a, &b, &d, &t, &o};
    unsigned long long first, block;
    if (!PyArg_ParseTuple(args, "OOOOKKOO", &objects[0], &objects[1], &objects[2], &objects[3], &first, &block, &objects[4], &objects[5])) return NULL;
    int got = 0;
    for (; got < 6; got++) {
        const Py_ssize_t sizes[6] = {KEYS, -1, got > 1 ? a.len : 0, 16, got > 1 ? 2 * a.len : 0, got > 1 ? a.len : 0};
        if (buffer(objects[got], views[got], got > 3, sizes[got]) < 0) break;
        if (got == 1 && a.len % 16) { PyErr_SetString(PyExc_ValueError, "labels are 16 bytes each"); got++; break; }
    }
    const int whole = got == 6 && !PyErr_Occurred();
    if (whole) {
        Py_BEGIN_ALLOW_THREADS
        (wide ? garble_wide : garble_narrow)(k.buf, a.buf, b.buf, (size_t)(a.len / 16), d.buf, first, block, t.buf, o.buf);
        Py_END_ALLOW_THREADS
    }
    while (got--) PyBuffer_Release(views[got]);
    if (!whole) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_evaluate(PyObject *self, PyObject *args) {
    PyObject *objects[5];
    Py_buffer k, a, b, t, o, *views[5] = {&k, &a, &b, &t, &o};
    unsigned long long first, block;
    if (!PyArg_ParseTuple(args, "OOOKKOO", &objects[0], &objects[1], &objects[2], &first, &block, &objects[3], &objects[4])) return NULL;
    int got = 0;
    for (; got < 5; got++) {
        const Py_ssize_t sizes[5] = {KEYS, -1, got > 1 ? a.len : 0, got > 1 ? 2 * a.len : 0, got > 1 ? a.len : 0};
        if (buffer(objects[got], views[got], got > 3, sizes[got]) < 0) break;
        if (got == 1 && a.len % 16) { PyErr_SetString(PyExc_ValueError, "labels are 16 bytes each"); got++; break; }
    }
    const int whole = got == 5 && !PyErr_Occurred();
    if (whole) {
        Py_BEGIN_ALLOW_THREADS
        (wide ? evaluate_wide : evaluate_narrow)(k.buf, a.buf, b.buf, (size_t)(a.len / 16), first, block, t.buf, o.buf);
        Py_END_ALLOW_THREADS
    }
    while (got--) PyBuffer_Release(views[got]);
    if (!whole) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_use_wide(PyObject *self, PyObject *args) {
    int wanted, before = wide;
    if (!PyArg_ParseTuple(args, "p", &wanted)) return NULL;
    wide = wanted && can_be_wide;
    return PyBool_FromLong(before);
}

static PyMethodDef functions[] = {
    {"schedule", py_schedule, METH_VARARGS, "schedule(seeds) -> bytes: the round keys of each seed of 16 bytes."},
    {"fold", py_fold, METH_VARARGS, "fold(keys, first, counter, words, columns, sums): fill columns and sums."},
    {"transpose", py_transpose, METH_VARARGS, "transpose(columns, stride, words, rows): fill rows."},
    {"hash_rows", py_hash_rows, METH_VARARGS, "hash_rows(keys, rows, first, out): fill out."},
    {"garble", py_garble, METH_VARARGS, "garble(keys, a, b, delta, first, block, tables, out): fill tables and out."},
    {"evaluate", py_evaluate, METH_VARARGS, "evaluate(keys, a, b, first, block, tables, out): fill out."},
    {"use_wide", py_use_wide, METH_VARARGS, "use_wide(wanted) -> bool: AES with 512 bits from now on, if it is there; and before."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "sedml_kernel", "Hot loops of SEDML's servers.", -1, functions};

PyMODINIT_FUNC PyInit_sedml_kernel(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("aes") || !__builtin_cpu_supports("avx2")) {
        PyErr_SetString(PyExc_ImportError, "This processor has no AES or no AVX2.");
        return NULL;
    }
    wide = can_be_wide = __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return PyModule_Create(&module);
}

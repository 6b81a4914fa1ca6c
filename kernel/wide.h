/* The same loops with 512 bits at a time (VAES, VPCLMULQDQ, GFNI, AVX-512), for the x86-64 processors that have them; and
 * which of both is used.
 */
#ifndef SEDML_WIDE_H
#define SEDML_WIDE_H

#include "narrow.h"

static int can_be_wide; /* whether there is AES with 512 bits */
static int wide;        /* whether it is used */

#if !defined(__x86_64__)

static int has_wide(void) { return 0; }
#define CHOSEN(loop) loop##_narrow

#else

#include <cpuid.h>

#define CHOSEN(loop) (wide ? loop##_wide : loop##_narrow)
#define WIDE __attribute__((target("aes,vaes,pclmul,vpclmulqdq,gfni,avx2,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))
#define KEYS_4(keys, round) _mm512_broadcast_i32x4((__m128i)KEY(keys, round))

/* GFNI, VAES and VPCLMULQDQ are bits of a register, for clang knows their names since its version 18 only. */
static int has_wide(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 8 & 7) == 7
        && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi");
}

/* By halves: whole blocks would have to be put together first. */
static void counters(uint64_t high, uint64_t low, uint64_t first, int count, uint8_t *out) {
    for (int i = 0; i < count; i++) {
        const uint64_t sum = low + first + (uint64_t)i, halves[2] = {__builtin_bswap64(high + (sum < low)), __builtin_bswap64(sum)};
        memcpy(out + 16 * i, halves, 8);
        memcpy(out + 16 * i + 8, halves + 1, 8);
    }
}

WIDE static void stream_wide(const uint8_t *keys, uint64_t high, uint64_t low, size_t bytes, uint8_t *out) {
    for (size_t at = 0; at < bytes; at += 512) {
        uint8_t raw[512];
        __m512i x[8];
        counters(high, low, at / 16, 32, raw);
        for (int i = 0; i < 8; i++) x[i] = _mm512_xor_si512(_mm512_loadu_si512(raw + 64 * i), KEYS_4(keys, 0));
        for (int round = 1; round < 10; round++) {
            const __m512i key = KEYS_4(keys, round);
            for (int i = 0; i < 8; i++) x[i] = _mm512_aesenc_epi128(x[i], key);
        }
        for (int i = 0; i < 8; i++) {
            const size_t from = at + 64 * i, left = bytes > from ? bytes - from : 0;
            const __mmask64 kept = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
            _mm512_mask_storeu_epi8(out + from, kept, _mm512_aesenclast_epi128(x[i], KEYS_4(keys, 10)));
        }
    }
}

/* Eight blocks of four leaves at a time: enough under way at once to hide how long a round takes. */
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
            for (int leaf = 0; leaf < LEAVES; leaf += 4) {
                const uint8_t *own = keys + (size_t)(tree * LEAVES + leaf) * KEYS;
                __m512i x[4][2];
                for (int l = 0; l < 4; l++)
                    for (int i = 0; i < 2; i++) x[l][i] = _mm512_xor_si512(count[i], KEYS_4(own + l * KEYS, 0));
                for (int round = 1; round < 10; round++)
                    for (int l = 0; l < 4; l++) {
                        const __m512i key = KEYS_4(own + l * KEYS, round);
                        for (int i = 0; i < 2; i++) x[l][i] = _mm512_aesenc_epi128(x[l][i], key);
                    }
                for (int i = 0; i < 2; i++) {
                    for (int l = 0; l < 4; l++) x[l][i] = _mm512_aesenclast_epi128(x[l][i], KEYS_4(own + l * KEYS, 10));
                    if (leaf < first) x[0][i] = zero;
                    const __m512i odd = _mm512_xor_si512(x[1][i], x[3][i]), upper = _mm512_xor_si512(x[2][i], x[3][i]);
                    const __m512i all = _mm512_xor_si512(_mm512_xor_si512(x[0][i], x[1][i]), upper);
                    bits[0][i] = _mm512_xor_si512(bits[0][i], odd);
                    bits[1][i] = _mm512_xor_si512(bits[1][i], upper);
                    for (int bit = 2; bit < DEPTH; bit++)
                        if (leaf >> bit & 1) bits[bit][i] = _mm512_xor_si512(bits[bit][i], all);
                    total[i] = _mm512_xor_si512(total[i], all);
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

WIDE static inline block_t together(__m512i x) {
    const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    return (block_t)_mm256_castsi256_si128(half) ^ (block_t)_mm256_extracti128_si256(half, 1);
}

WIDE static void tag_wide(const ghash_t *key, const uint8_t *column, size_t blocks, uint8_t *out) {
    const __m512i turn = _mm512_broadcast_i32x4((__m128i)REVERSED);
    const __m512i zero = _mm512_setzero_si512();
    __m512i p[4];
    for (int i = 0; i < 4; i++) p[i] = _mm512_loadu_si512(key->powers + 4 * i);
    block_t sum = {0, 0};
    /* The first group is the one that may be short: blocks that are not there are zeros in front. */
    const size_t missing = (AT_ONCE - blocks % AT_ONCE) % AT_ONCE;
    for (size_t at = 0; at < blocks + missing; at += AT_ONCE) {
        __m512i low = zero, middle = zero, high = zero;
        for (int i = 0; i < 4; i++) {
            const size_t from = at + 4 * i;
            __m512i x;
            if (from >= missing) x = _mm512_loadu_si512(column + 16 * (from - missing));
            else if (from + 4 <= missing) x = zero;
            else {
                const int gone = (int)(missing - from);
                x = _mm512_maskz_expandloadu_epi64((__mmask8)(0xff << 2 * gone), column);
            }
            x = _mm512_shuffle_epi8(x, turn);
            if (i == 0) x = _mm512_xor_si512(x, _mm512_zextsi128_si512((__m128i)sum));
            low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(x, p[i], 0x00));
            high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(x, p[i], 0x11));
            middle = _mm512_ternarylogic_epi64(middle, _mm512_clmulepi64_epi128(x, p[i], 0x01), _mm512_clmulepi64_epi128(x, p[i], 0x10), 0x96);
        }
        sum = reduced(together(low), together(middle), together(high));
    }
    tag_end(key, sum, out);
}


/* Eight words at a time. Bytes of eight columns that lie at the same place are brought together, their 8 x 8 bits turned
 * (by multiplying with the matrix that they are), and then all sixteen such groups. */
WIDE static inline void turn_words(const __m512i *in, __m512i *out) {
    for (int half = 0; half < 2; half++) {
        __m512i t[4];
        for (int i = 0; i < 4; i++)
            t[i] = half ? _mm512_unpackhi_epi64(in[2 * i], in[2 * i + 1]) : _mm512_unpacklo_epi64(in[2 * i], in[2 * i + 1]);
        const __m512i a = _mm512_shuffle_i64x2(t[0], t[1], 0x44), b = _mm512_shuffle_i64x2(t[0], t[1], 0xee);
        const __m512i c = _mm512_shuffle_i64x2(t[2], t[3], 0x44), d = _mm512_shuffle_i64x2(t[2], t[3], 0xee);
        out[0 + half] = _mm512_shuffle_i64x2(a, c, 0x88);
        out[2 + half] = _mm512_shuffle_i64x2(a, c, 0xdd);
        out[4 + half] = _mm512_shuffle_i64x2(b, d, 0x88);
        out[6 + half] = _mm512_shuffle_i64x2(b, d, 0xdd);
    }
}

WIDE static void transpose_wide(const uint64_t *columns, size_t stride, size_t words, uint64_t *rows) {
    const __m512i ones = _mm512_set1_epi64((int64_t)0x8040201008040201ULL);
    uint8_t order[128];
    for (int row = 0; row < 8; row++)
        for (int group = 0; group < 16; group++) order[16 * row + group] = (uint8_t)(8 * group + row);
    const __m512i upper = _mm512_loadu_si512(order), lower = _mm512_loadu_si512(order + 64);
    __m512i tile[8][16]; /* [two places of each 128 bits][group] */
    for (size_t at = 0; at < words; at += 8) {
        const int many = words - at < 8 ? (int)(words - at) : 8;
        const __mmask8 kept = (__mmask8)((1 << many) - 1);
        for (int group = 0; group < 16; group++) {
            __m512i r[8], s[8];
            for (int c = 0; c < 8; c++) r[c] = _mm512_maskz_loadu_epi64(kept, columns + (size_t)(8 * group + 7 - c) * stride + at);
            for (int c = 0; c < 4; c++) {
                s[c] = _mm512_unpacklo_epi8(r[2 * c], r[2 * c + 1]);
                s[4 + c] = _mm512_unpackhi_epi8(r[2 * c], r[2 * c + 1]);
            }
            for (int h = 0; h < 2; h++)
                for (int c = 0; c < 2; c++) {
                    r[4 * h + c] = _mm512_unpacklo_epi16(s[4 * h + 2 * c], s[4 * h + 2 * c + 1]);
                    r[4 * h + 2 + c] = _mm512_unpackhi_epi16(s[4 * h + 2 * c], s[4 * h + 2 * c + 1]);
                }
            for (int q = 0; q < 4; q++) {
                tile[2 * q][group] = _mm512_gf2p8affine_epi64_epi8(ones, _mm512_unpacklo_epi32(r[2 * q], r[2 * q + 1]), 0);
                tile[2 * q + 1][group] = _mm512_gf2p8affine_epi64_epi8(ones, _mm512_unpackhi_epi32(r[2 * q], r[2 * q + 1]), 0);
            }
        }
        for (int j = 0; j < 8; j++) {
            __m512i one[8], other[8];
            turn_words(tile[j], one);
            turn_words(tile[j] + 8, other);
            for (int q = 0; q < 8; q++) {
                const int place = 16 * (q / 2) + 2 * j + q % 2;
                if (place >= 8 * many) continue;
                uint64_t *row = rows + (64 * at + 8 * (size_t)place) * 2;
                _mm512_storeu_si512(row, _mm512_permutex2var_epi8(one[q], upper, other[q]));
                _mm512_storeu_si512(row + 8, _mm512_permutex2var_epi8(one[q], lower, other[q]));
            }
        }
    }
}

/* H of so many vectors of four rows, in place. */
WIDE static inline void hash_4(const uint8_t *keys, __m512i *x, const __m512i *tweak, int count) {
    __m512i y[8];
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

WIDE static inline __m512i tweak_4(uint64_t first, uint64_t block) {
    const int64_t i = (int64_t)first, b = (int64_t)block;
    return _mm512_add_epi64(_mm512_set_epi64(b, i, b, i, b, i, b, i), _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0));
}

WIDE static void hash_rows_wide(const uint8_t *keys, const uint64_t *rows, size_t count, uint64_t first, uint64_t block, uint64_t *out) {
    for (size_t at = 0; at < count; at += 32) {
        __m512i h[8], tweak[8];
        __mmask8 kept[8];
        for (int k = 0; k < 8; k++) {
            const size_t from = at + 4 * k, left = count > from ? count - from : 0;
            kept[k] = left < 4 ? (1 << 2 * left) - 1 : 0xff;
            h[k] = _mm512_maskz_loadu_epi64(kept[k], rows + 2 * from);
            tweak[k] = tweak_4(first + from, block);
        }
        hash_4(keys, h, tweak, 8);
        for (int k = 0; k < 8; k++) _mm512_mask_storeu_epi64(out + 2 * (at + 4 * k), kept[k], h[k]);
    }
}

#endif
#endif

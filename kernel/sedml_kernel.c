/* The hot loops of SEDML's servers, with the processor's AES: the same bytes as the NumPy code of sedml.mpc.
 *
 * schedule   round keys of AES-128
 * stream     AES-CTR of zeros
 * pack       words of some bits to bytes, as sedml.mpc.bits lays them out; and unpack
 * fold       AES-CTR of the 16 leaves of each tree, summed up by the bits of the leaf's number (SoftSpokenOT)
 * tags       tags of AES-GCM of messages that are all additional data: GHASH of each column
 * correct    what the other server sent, added where Delta has a 1
 * transpose  128 long columns of bits to one row of 128 bits for each transfer
 * hash_rows  TMMO: H(x, i) = pi(pi(x) ^ i) ^ pi(x)
 * pads       the pads of look-ups, from such hashes
 * answer     the masked tables of look-ups
 * scale      a shared bit times a vector, from such hashes
 * tally      rotated one-hot vectors, added up
 * label      labels of given bits
 * garble     a circuit by half-gates, on labels for 0
 * evaluate   the same, on active labels
 *
 * Nothing here branches or looks anything up by a secret. What the processor can do is found out once, at import:
 * AES with 128 bits is needed, AES with 512 bits (VAES, AVX-512) is used where it is there. On other processors the
 * import fails, and the NumPy code runs. Every size is checked before anything is read or written.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__x86_64__) || !(defined(__GNUC__) || defined(__clang__))
#error "sedml-pate-kernel is for x86-64 processors and GCC or Clang; SEDML runs without it."
#endif
#include <immintrin.h>

#define AES __attribute__((target("aes,pclmul,sse4.1,avx2")))
#define WIDE __attribute__((target("aes,vaes,pclmul,vpclmulqdq,gfni,avx2,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))

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

/* ---- stream: the key stream of AES-CTR ---- */

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

AES static void stream_narrow(const uint8_t *keys, uint64_t high, uint64_t low, size_t bytes, uint8_t *out) {
    for (size_t at = 0; at < bytes; at += 128) {
        uint8_t raw[128];
        __m128i x[8];
        counters(high, low, at / 16, 8, raw);
        for (int i = 0; i < 8; i++) x[i] = _mm_xor_si128(KEY(raw, i), KEY(keys, 0));
        for (int round = 1; round < 10; round++)
            for (int i = 0; i < 8; i++) x[i] = _mm_aesenc_si128(x[i], KEY(keys, round));
        for (int i = 0; i < 8; i++) _mm_storeu_si128((__m128i *)raw + i, _mm_aesenclast_si128(x[i], KEY(keys, 10)));
        memcpy(out + at, raw, bytes - at < 128 ? bytes - at : 128);
    }
}

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

/* ---- fold: columns uint64[TREES][DEPTH][words], sums uint64[TREES][words] or none ---- */

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

/* ---- tags: GHASH as POLYVAL of the blocks with their bytes reversed (RFC 8452, appendix A) ---- */

enum { AT_ONCE = 16 }; /* blocks for one reduction */

AES static inline __m128i reversed(__m128i x) {
    return _mm_shuffle_epi8(x, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

AES static inline __m128i encrypted(const uint8_t *keys, __m128i x) {
    x = _mm_xor_si128(x, KEY(keys, 0));
    for (int round = 1; round < 10; round++) x = _mm_aesenc_si128(x, KEY(keys, round));
    return _mm_aesenclast_si128(x, KEY(keys, 10));
}

AES static inline __m128i reduced(__m128i low, __m128i middle, __m128i high) {
    const __m128i poly = _mm_set_epi64x((int64_t)0xc200000000000000ULL, 1);
    low = _mm_xor_si128(low, _mm_slli_si128(middle, 8));
    high = _mm_xor_si128(high, _mm_srli_si128(middle, 8));
    for (int i = 0; i < 2; i++)
        low = _mm_xor_si128(_mm_shuffle_epi32(low, 78), _mm_clmulepi64_si128(low, poly, 0x10));
    return _mm_xor_si128(high, low);
}

AES static inline __m128i dot(__m128i a, __m128i b) {
    const __m128i middle = _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x01), _mm_clmulepi64_si128(a, b, 0x10));
    return reduced(_mm_clmulepi64_si128(a, b, 0x00), middle, _mm_clmulepi64_si128(a, b, 0x11));
}

typedef struct {
    __m128i powers[AT_ONCE]; /* of the key, the highest first */
    __m128i length, pad;     /* the last block of each message; what a tag is hidden with */
} ghash_t;

AES static void ghash_key(const uint8_t *key, size_t blocks, ghash_t *out) {
    uint8_t keys[KEYS];
    schedule(key, keys);
    const __m128i h = reversed(encrypted(keys, _mm_setzero_si128()));
    /* times x: one bit up, and what falls out comes back as the polynomial */
    const __m128i carries = _mm_srli_epi64(h, 63);
    const __m128i up = _mm_or_si128(_mm_slli_epi64(h, 1), _mm_slli_si128(carries, 8));
    const __m128i fell = _mm_sub_epi64(_mm_setzero_si128(), _mm_shuffle_epi32(carries, 0xee));
    const __m128i one = _mm_xor_si128(up, _mm_and_si128(fell, _mm_set_epi64x((int64_t)0xc200000000000000ULL, 1)));
    out->powers[AT_ONCE - 1] = one;
    for (int i = AT_ONCE - 2; i >= 0; i--) out->powers[i] = dot(out->powers[i + 1], one);
    out->length = _mm_set_epi64x((int64_t)(blocks * 128), 0);
    out->pad = encrypted(keys, _mm_set_epi32(0x01000000, 0, 0, 0));
}

AES static void tag_end(const ghash_t *key, __m128i sum, uint8_t *out) {
    sum = dot(_mm_xor_si128(sum, key->length), key->powers[AT_ONCE - 1]);
    _mm_storeu_si128((__m128i *)out, _mm_xor_si128(reversed(sum), key->pad));
}

AES static void tag_narrow(const ghash_t *key, const uint8_t *column, size_t blocks, uint8_t *out) {
    __m128i sum = _mm_setzero_si128();
    for (size_t at = 0; at < blocks;) {
        const size_t many = blocks - at < AT_ONCE ? blocks - at : AT_ONCE;
        __m128i low = _mm_setzero_si128(), middle = low, high = low;
        for (size_t i = 0; i < many; i++, at++) {
            __m128i x = reversed(KEY(column, at));
            if (i == 0) x = _mm_xor_si128(x, sum);
            const __m128i p = key->powers[AT_ONCE - many + i];
            low = _mm_xor_si128(low, _mm_clmulepi64_si128(x, p, 0x00));
            high = _mm_xor_si128(high, _mm_clmulepi64_si128(x, p, 0x11));
            middle = _mm_xor_si128(middle, _mm_xor_si128(_mm_clmulepi64_si128(x, p, 0x01), _mm_clmulepi64_si128(x, p, 0x10)));
        }
        sum = reduced(low, middle, high);
    }
    tag_end(key, sum, out);
}

WIDE static inline __m128i together(__m512i x) {
    const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

WIDE static void tag_wide(const ghash_t *key, const uint8_t *column, size_t blocks, uint8_t *out) {
    const __m512i turn = _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i zero = _mm512_setzero_si512();
    __m512i p[4];
    for (int i = 0; i < 4; i++) p[i] = _mm512_loadu_si512(key->powers + 4 * i);
    __m128i sum = _mm_setzero_si128();
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
            if (i == 0) x = _mm512_xor_si512(x, _mm512_zextsi128_si512(sum));
            low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(x, p[i], 0x00));
            high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(x, p[i], 0x11));
            middle = _mm512_ternarylogic_epi64(middle, _mm512_clmulepi64_epi128(x, p[i], 0x01), _mm512_clmulepi64_epi128(x, p[i], 0x10), 0x96);
        }
        sum = reduced(together(low), together(middle), together(high));
    }
    tag_end(key, sum, out);
}

/* ---- correct: columns uint64[TREES][DEPTH][words] ^= theirs uint64[TREES - 1][words] where masks uint64[TREES][DEPTH] ---- */

AES static void correct(uint64_t *columns, const uint64_t *theirs, const uint64_t *masks, size_t words) {
    for (int c = DEPTH; c < TREES * DEPTH; c++) {
        const uint64_t mask = masks[c], *from = theirs + (size_t)(c / DEPTH - 1) * words;
        uint64_t *to = columns + (size_t)c * words;
        for (size_t i = 0; i < words; i++) to[i] ^= from[i] & mask;
    }
}

/* ---- transpose: columns uint64[128][stride], of which `words` are used -> rows uint64[64 words][2] ---- */

/* Eight words of 64 columns at a time: a tile of 64 x 64 bytes, byte i of a column's words in line i of the tile. */
AES static void transpose_narrow(const uint64_t *columns, size_t stride, size_t words, uint64_t *rows) {
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

/* ---- hash_rows: H of rows uint64[count][2], with tweaks (first.., block) ---- */

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

AES static inline void hash(const uint8_t *keys, __m128i *x, const __m128i *tweak, int count) {
    __m128i y[8];
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

AES static void hash_rows_narrow(const uint8_t *keys, const uint64_t *rows, size_t count, uint64_t first, uint64_t block, uint64_t *out) {
    for (size_t at = 0; at < count; at += 8) {
        const int many = count - at < 8 ? (int)(count - at) : 8;
        __m128i h[8], tweak[8];
        for (int i = 0; i < 8; i++) {
            h[i] = i < many ? _mm_loadu_si128((const __m128i *)(rows + 2 * (at + i))) : _mm_setzero_si128();
            tweak[i] = _mm_set_epi64x((int64_t)block, (int64_t)(first + at + i));
        }
        hash(keys, h, tweak, 8);
        for (int i = 0; i < many; i++) _mm_storeu_si128((__m128i *)(out + 2 * (at + i)), h[i]);
    }
}

typedef void hash_rows_t(const uint8_t *, const uint64_t *, size_t, uint64_t, uint64_t, uint64_t *);

static int can_be_wide; /* whether there is AES with 512 bits */
static int wide;        /* whether it is used */

/* ---- the pads of transfers: H(w), H(w ^ Delta) and H(v), a few hundred at a time ---- */

enum { PIECE = 256 };

typedef struct {
    uint64_t zero[PIECE][2], one[PIECE][2], chosen[PIECE][2];
} pads_t;

typedef struct {
    const uint8_t *keys;
    const uint64_t *sent, *received, *delta; /* rows of w, rows of v, Delta */
    uint64_t first;                          /* the number of the first of them */
} transfers_t;

static void pads_of(const transfers_t *ots, size_t start, size_t count, uint64_t block, pads_t *out) {
    hash_rows_t *hash_rows = wide ? hash_rows_wide : hash_rows_narrow;
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

/* ---- tally: table uint[lanes][teachers][samples], rotated by rotation uint8[teachers][samples], which is public ---- */

#define TALLY(word)                                                                                             \
    static void tally_##word(const word *table, const uint8_t *rotation, size_t lanes, size_t teachers,         \
                             size_t samples, size_t classes, word *counts) {                                    \
        const size_t votes = teachers * samples;                                                                \
        memset(counts, 0, classes * samples * sizeof(word));                                                    \
        for (size_t vote = 0; vote < votes; vote += samples)                                                    \
            for (size_t label = 0; label < classes; label++)                                                    \
                for (size_t i = 0; i < samples; i++)                                                            \
                    counts[label * samples + i] += table[((label - rotation[vote + i]) & (lanes - 1)) * votes + vote + i]; \
    }
TALLY(uint8_t)
TALLY(uint16_t)
TALLY(uint32_t)
TALLY(uint64_t)

/* ---- label: labels for 0 uint64[count][2] and bits uint8[count] -> labels of these bits ---- */

AES static void label(const uint64_t *zeros, const uint8_t *bits, const uint64_t *delta, size_t count, uint64_t *out) {
    const __m128i offset = _mm_loadu_si128((const __m128i *)delta);
    for (size_t i = 0; i < count; i++) {
        const __m128i zero = _mm_loadu_si128((const __m128i *)(zeros + 2 * i)), chosen = _mm_set1_epi64x(-(int64_t)(bits[i] & 1));
        _mm_storeu_si128((__m128i *)(out + 2 * i), _mm_xor_si128(zero, _mm_and_si128(chosen, offset)));
    }
}

/* ---- circuits: labels uint64[wires][PART][2] of a few samples at a time, so that they stay in the cache ---- */

enum { PART = 32, FIELDS = 8 };
enum { OUT, A, A2, B, B2, OF_GARBLER, OF_EVALUATOR }; /* of a gate; FIELDS with one to spare */

typedef struct {
    const uint8_t *keys;
    const int32_t *gates;   /* int32[count][FIELDS]; OF_GARBLER is -1 for XOR, A2 and B2 are -1 where there is none */
    size_t count;
    const uint64_t *delta;  /* NULL for the evaluator */
    uint64_t block;
    size_t samples;
    uint64_t *tables;       /* uint64[2 ands][samples][2] */
} circuit_t;

/* All ones where the lowest bit of a label is 1. */
WIDE static inline __m512i colour_4(__m512i label) {
    const __m512i bit = _mm512_shuffle_epi32(_mm512_and_si512(label, _mm512_set1_epi64(1)), _MM_PERM_BABA);
    return _mm512_sub_epi64(_mm512_setzero_si512(), bit);
}

AES static inline __m128i colour(__m128i label) {
    const __m128i bit = _mm_shuffle_epi32(_mm_and_si128(label, _mm_set1_epi64x(1)), 0x44);
    return _mm_sub_epi64(_mm_setzero_si128(), bit);
}

WIDE static inline __m512i operand_4(const uint64_t *wires, int32_t one, int32_t other, size_t at) {
    const __m512i x = _mm512_loadu_si512(wires + (size_t)one * PART * 2 + 2 * at);
    return other < 0 ? x : _mm512_xor_si512(x, _mm512_loadu_si512(wires + (size_t)other * PART * 2 + 2 * at));
}

AES static inline __m128i operand(const uint64_t *wires, int32_t one, int32_t other, size_t at) {
    const __m128i x = KEY((const uint8_t *)(wires + (size_t)one * PART * 2), at);
    return other < 0 ? x : _mm_xor_si128(x, KEY((const uint8_t *)(wires + (size_t)other * PART * 2), at));
}

/* The gates of samples start .. start + many, at most PART. */
WIDE static void run_wide(const circuit_t *c, uint64_t *wires, size_t start, size_t many) {
    const __m512i offset = c->delta ? _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)c->delta)) : _mm512_setzero_si512();
    for (const int32_t *gate = c->gates; gate < c->gates + FIELDS * c->count; gate += FIELDS) {
        uint64_t *out = wires + (size_t)gate[OUT] * PART * 2;
        if (gate[OF_GARBLER] < 0) {
            for (size_t at = 0; at < many; at += 4) _mm512_storeu_si512(out + 2 * at, operand_4(wires, gate[A], gate[B], at));
            continue;
        }
        const size_t i = gate[OF_GARBLER] * c->samples + start, j = gate[OF_EVALUATOR] * c->samples + start;
        if (c->delta)
            for (size_t at = 0; at < many; at += 8) {
                __m512i a[2], b[2], h[8], tweak[8];
                for (int k = 0; k < 2; k++) {
                    a[k] = operand_4(wires, gate[A], gate[A2], at + 4 * k);
                    b[k] = operand_4(wires, gate[B], gate[B2], at + 4 * k);
                    h[4 * k] = a[k];
                    h[4 * k + 1] = _mm512_xor_si512(a[k], offset);
                    h[4 * k + 2] = b[k];
                    h[4 * k + 3] = _mm512_xor_si512(b[k], offset);
                    tweak[4 * k] = tweak[4 * k + 1] = tweak_4(i + at + 4 * k, c->block);
                    tweak[4 * k + 2] = tweak[4 * k + 3] = tweak_4(j + at + 4 * k, c->block);
                }
                hash_4(c->keys, h, tweak, 8);
                for (int k = 0; k < 2; k++) {
                    const size_t from = at + 4 * k;
                    const __mmask8 kept = from >= many ? 0 : many - from < 4 ? (1 << 2 * (many - from)) - 1 : 0xff;
                    const __m512i p = colour_4(a[k]), q = colour_4(b[k]), both = _mm512_xor_si512(h[4 * k + 2], h[4 * k + 3]);
                    const __m512i tg = _mm512_ternarylogic_epi64(h[4 * k], h[4 * k + 1], _mm512_and_si512(q, offset), 0x96);
                    __m512i found = _mm512_ternarylogic_epi64(h[4 * k], h[4 * k + 2], _mm512_and_si512(p, tg), 0x96);
                    found = _mm512_xor_si512(found, _mm512_and_si512(q, both));
                    _mm512_mask_storeu_epi64(c->tables + 2 * (i + from), kept, tg);
                    _mm512_mask_storeu_epi64(c->tables + 2 * (j + from), kept, _mm512_xor_si512(both, a[k]));
                    _mm512_storeu_si512(out + 2 * from, found);
                }
            }
        else
            for (size_t at = 0; at < many; at += 16) {
                __m512i a[4], b[4], h[8], tweak[8];
                for (int k = 0; k < 4; k++) {
                    a[k] = h[2 * k] = operand_4(wires, gate[A], gate[A2], at + 4 * k);
                    b[k] = h[2 * k + 1] = operand_4(wires, gate[B], gate[B2], at + 4 * k);
                    tweak[2 * k] = tweak_4(i + at + 4 * k, c->block);
                    tweak[2 * k + 1] = tweak_4(j + at + 4 * k, c->block);
                }
                hash_4(c->keys, h, tweak, 8);
                for (int k = 0; k < 4; k++) {
                    const size_t from = at + 4 * k;
                    const __mmask8 kept = from >= many ? 0 : many - from < 4 ? (1 << 2 * (many - from)) - 1 : 0xff;
                    const __m512i tg = _mm512_maskz_loadu_epi64(kept, c->tables + 2 * (i + from));
                    const __m512i te = _mm512_xor_si512(_mm512_maskz_loadu_epi64(kept, c->tables + 2 * (j + from)), a[k]);
                    const __m512i sum = _mm512_xor_si512(h[2 * k], h[2 * k + 1]);
                    const __m512i found = _mm512_ternarylogic_epi64(sum, _mm512_and_si512(colour_4(a[k]), tg), _mm512_and_si512(colour_4(b[k]), te), 0x96);
                    _mm512_storeu_si512(out + 2 * from, found);
                }
            }
    }
}

AES static void run_narrow(const circuit_t *c, uint64_t *wires, size_t start, size_t many) {
    const __m128i offset = c->delta ? _mm_loadu_si128((const __m128i *)c->delta) : _mm_setzero_si128();
    for (const int32_t *gate = c->gates; gate < c->gates + FIELDS * c->count; gate += FIELDS) {
        __m128i *out = (__m128i *)(wires + (size_t)gate[OUT] * PART * 2);
        if (gate[OF_GARBLER] < 0) {
            for (size_t at = 0; at < many; at++) _mm_storeu_si128(out + at, operand(wires, gate[A], gate[B], at));
            continue;
        }
        const size_t i = gate[OF_GARBLER] * c->samples + start, j = gate[OF_EVALUATOR] * c->samples + start;
        for (size_t at = 0; at < many; at++) {
            const __m128i a = operand(wires, gate[A], gate[A2], at), b = operand(wires, gate[B], gate[B2], at);
            const __m128i ti = _mm_set_epi64x((int64_t)c->block, (int64_t)(i + at)), tj = _mm_set_epi64x((int64_t)c->block, (int64_t)(j + at));
            __m128i *of_garbler = (__m128i *)(c->tables + 2 * (i + at)), *of_evaluator = (__m128i *)(c->tables + 2 * (j + at));
            __m128i tg, te, sum;
            if (c->delta) {
                __m128i h[4] = {a, _mm_xor_si128(a, offset), b, _mm_xor_si128(b, offset)};
                const __m128i tweak[4] = {ti, ti, tj, tj};
                hash(c->keys, h, tweak, 4);
                te = _mm_xor_si128(h[2], h[3]);
                tg = _mm_xor_si128(_mm_xor_si128(h[0], h[1]), _mm_and_si128(colour(b), offset));
                sum = _mm_xor_si128(h[0], h[2]);
                _mm_storeu_si128(of_garbler, tg);
                _mm_storeu_si128(of_evaluator, _mm_xor_si128(te, a));
            } else {
                __m128i h[2] = {a, b};
                const __m128i tweak[2] = {ti, tj};
                hash(c->keys, h, tweak, 2);
                tg = _mm_loadu_si128(of_garbler);
                te = _mm_xor_si128(_mm_loadu_si128(of_evaluator), a);
                sum = _mm_xor_si128(h[0], h[1]);
            }
            const __m128i chosen = _mm_xor_si128(_mm_and_si128(colour(a), tg), _mm_and_si128(colour(b), te));
            _mm_storeu_si128(out + at, _mm_xor_si128(sum, chosen));
        }
    }
}

/* ---- Python: every function takes contiguous buffers, and raises ValueError if one has not the size that it must have ---- */

static const Py_ssize_t LARGEST = (Py_ssize_t)1 << 40; /* of any number that sizes follow from: none can overflow */

/* Of all objects that are not None; those from `writable` on can be written. */
static int take(PyObject **objects, Py_buffer *views, int count, int writable) {
    memset(views, 0, (size_t)count * sizeof *views);
    for (int i = 0; i < count; i++) {
        if (objects[i] == Py_None) continue;
        if (PyObject_GetBuffer(objects[i], &views[i], i >= writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) {
            while (i--) if (views[i].obj) PyBuffer_Release(&views[i]);
            return -1;
        }
    }
    return 0;
}

static PyObject *give_back(Py_buffer *views, int count) {
    for (int i = 0; i < count; i++) if (views[i].obj) PyBuffer_Release(&views[i]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static int has(const Py_buffer *view, Py_ssize_t bytes) {
    if (view->len == bytes) return 1;
    PyErr_Format(PyExc_ValueError, "a buffer has %zd bytes, not %zd", view->len, bytes);
    return 0;
}

static int within(Py_ssize_t number, Py_ssize_t least, Py_ssize_t most) {
    if (number >= least && number <= most) return 1;
    PyErr_Format(PyExc_ValueError, "a number is %zd, not %zd to %zd", number, least, most);
    return 0;
}

static int is_word(Py_ssize_t size) {
    if (size == 1 || size == 2 || size == 4 || size == 8) return 1;
    PyErr_Format(PyExc_ValueError, "a word has %zd bytes, not 1, 2, 4 or 8", size);
    return 0;
}

static PyObject *py_schedule(PyObject *self, PyObject *args) {
    PyObject *seeds, *result;
    Py_buffer given;
    if (!PyArg_ParseTuple(args, "O", &seeds) || PyObject_GetBuffer(seeds, &given, PyBUF_SIMPLE) < 0) return NULL;
    if (given.len % 16 || given.len > LARGEST) {
        PyBuffer_Release(&given);
        PyErr_SetString(PyExc_ValueError, "seeds have 16 bytes each");
        return NULL;
    }
    result = PyBytes_FromStringAndSize(NULL, given.len / 16 * KEYS);
    if (result) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(result);
        for (Py_ssize_t i = 0; i < given.len / 16; i++) schedule((const uint8_t *)given.buf + 16 * i, out + i * KEYS);
    }
    PyBuffer_Release(&given);
    return result;
}

static PyObject *py_stream(PyObject *self, PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* key, counter, out */
    if (!PyArg_ParseTuple(args, "OOO", &o[0], &o[1], &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    if (has(&v[0], 16) && has(&v[1], 16)) {
        uint8_t keys[KEYS];
        uint64_t high, low;
        memcpy(&high, v[1].buf, 8);
        memcpy(&low, (char *)v[1].buf + 8, 8);
        Py_BEGIN_ALLOW_THREADS
        schedule(v[0].buf, keys);
        (wide ? stream_wide : stream_narrow)(keys, __builtin_bswap64(high), __builtin_bswap64(low), (size_t)v[2].len, v[2].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

/* Both ways: words, and bytes. */
static PyObject *py_packing(PyObject *args, int packs) {
    PyObject *o[2];
    Py_buffer v[2]; /* what is read, what is written */
    Py_ssize_t word;
    int width;
    if (!PyArg_ParseTuple(args, "OniO", &o[0], &word, &width, &o[1]) || take(o, v, 2, 1) < 0) return NULL;
    const Py_buffer *words = &v[!packs], *bytes = &v[packs];
    if (is_word(word) && within(width, 1, 8 * word) && within(words->len, 0, LARGEST) && within(words->len % word, 0, 0)
        && has(bytes, (Py_ssize_t)packed_size((size_t)(words->len / word), width))) {
        const size_t n = (size_t)(words->len / word);
        if (packs) {
            if (word == 1) pack_uint8_t(v[0].buf, n, width, v[1].buf);
            else if (word == 2) pack_uint16_t(v[0].buf, n, width, v[1].buf);
            else if (word == 4) pack_uint32_t(v[0].buf, n, width, v[1].buf);
            else pack_uint64_t(v[0].buf, n, width, v[1].buf);
        } else {
            if (word == 1) unpack_uint8_t(v[0].buf, n, width, v[1].buf);
            else if (word == 2) unpack_uint16_t(v[0].buf, n, width, v[1].buf);
            else if (word == 4) unpack_uint32_t(v[0].buf, n, width, v[1].buf);
            else unpack_uint64_t(v[0].buf, n, width, v[1].buf);
        }
    }
    return give_back(v, 2);
}

static PyObject *py_pack(PyObject *self, PyObject *args) { return py_packing(args, 1); }
static PyObject *py_unpack(PyObject *self, PyObject *args) { return py_packing(args, 0); }

static PyObject *py_fold(PyObject *self, PyObject *args) {
    PyObject *o[4];
    Py_buffer v[4]; /* keys, counter, columns, sums */
    int first;
    Py_ssize_t words;
    if (!PyArg_ParseTuple(args, "OiOnOO", &o[0], &first, &o[1], &words, &o[2], &o[3]) || take(o, v, 4, 2) < 0) return NULL;
    if (within(first, 0, 1) && within(words, 0, LARGEST) && within(words % 2, 0, 0) && has(&v[0], TREES * LEAVES * KEYS)
        && has(&v[1], 16) && has(&v[2], words * TREES * DEPTH * 8) && (!v[3].obj || has(&v[3], words * TREES * 8))) {
        uint64_t high, low;
        memcpy(&high, v[1].buf, 8);
        memcpy(&low, (char *)v[1].buf + 8, 8);
        high = __builtin_bswap64(high);
        low = __builtin_bswap64(low);
        Py_BEGIN_ALLOW_THREADS
        (wide ? fold_wide : fold_narrow)(v[0].buf, first, high, low, (size_t)words, v[2].buf, v[3].obj ? v[3].buf : NULL);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 4);
}

static PyObject *py_tags(PyObject *self, PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* key, columns, out */
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "OOnO", &o[0], &o[1], &bytes, &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    if (has(&v[0], 16) && within(bytes, 16, LARGEST) && within(bytes % 16, 0, 0) && within(v[1].len % bytes, 0, 0)
        && has(&v[2], v[1].len / bytes * 16)) {
        Py_BEGIN_ALLOW_THREADS
        ghash_t key;
        ghash_key(v[0].buf, (size_t)bytes / 16, &key);
        for (Py_ssize_t i = 0; i < v[1].len / bytes; i++)
            (wide ? tag_wide : tag_narrow)(&key, (const uint8_t *)v[1].buf + i * bytes, (size_t)bytes / 16, (uint8_t *)v[2].buf + 16 * i);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static PyObject *py_correct(PyObject *self, PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* theirs, masks, columns */
    if (!PyArg_ParseTuple(args, "OOO", &o[0], &o[1], &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    const Py_ssize_t words = v[2].len / (TREES * DEPTH * 8);
    if (has(&v[2], words * TREES * DEPTH * 8) && has(&v[1], TREES * DEPTH * 8) && has(&v[0], words * (TREES - 1) * 8)) {
        Py_BEGIN_ALLOW_THREADS
        correct(v[2].buf, v[0].buf, v[1].buf, (size_t)words);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static PyObject *py_transpose(PyObject *self, PyObject *args) {
    PyObject *o[2];
    Py_buffer v[2]; /* columns, rows */
    Py_ssize_t stride, words;
    if (!PyArg_ParseTuple(args, "OnnO", &o[0], &stride, &words, &o[1]) || take(o, v, 2, 1) < 0) return NULL;
    if (within(stride, 0, LARGEST) && within(words, 0, stride) && has(&v[0], stride * 128 * 8) && has(&v[1], words * 64 * 16)) {
        Py_BEGIN_ALLOW_THREADS
        (wide ? transpose_wide : transpose_narrow)(v[0].buf, (size_t)stride, (size_t)words, v[1].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 2);
}

static PyObject *py_hash_rows(PyObject *self, PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* keys, rows, out */
    unsigned long long first;
    if (!PyArg_ParseTuple(args, "OOKO", &o[0], &o[1], &first, &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    if (has(&v[0], KEYS) && within(v[1].len % 16, 0, 0) && has(&v[2], v[1].len)) {
        Py_BEGIN_ALLOW_THREADS
        (wide ? hash_rows_wide : hash_rows_narrow)(v[0].buf, v[1].buf, (size_t)v[1].len / 16, first, 0, v[2].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static PyObject *py_pads(PyObject *self, PyObject *args) {
    PyObject *o[8];
    Py_buffer v[8]; /* keys, sent, received, delta, masks; keys, z, d */
    unsigned long long first;
    Py_ssize_t word;
    if (!PyArg_ParseTuple(args, "OOOOKOnOOO", &o[0], &o[1], &o[2], &o[3], &first, &o[4], &word, &o[5], &o[6], &o[7])
        || take(o, v, 8, 5) < 0) return NULL;
    if (is_word(word) && has(&v[0], KEYS) && has(&v[3], 16) && within(v[4].len % 8, 0, 0) && within(v[5].len % word, 0, 0)
        && within(v[4].len / 8, 1, 64) && within(v[5].len, 0, LARGEST)) {
        const Py_ssize_t bits = v[4].len / 8, count = v[5].len / word;
        if (has(&v[1], bits * count * 16) && has(&v[2], bits * count * 16) && has(&v[6], count * word) && has(&v[7], bits * count * word)) {
            const transfers_t ots = {v[0].buf, v[1].buf, v[2].buf, v[3].buf, first};
            const size_t b = (size_t)bits, n = (size_t)count;
            Py_BEGIN_ALLOW_THREADS
            if (word == 1) lookup_uint8_t(&ots, b, n, v[4].buf, v[5].buf, v[6].buf, v[7].buf);
            else if (word == 2) lookup_uint16_t(&ots, b, n, v[4].buf, v[5].buf, v[6].buf, v[7].buf);
            else if (word == 4) lookup_uint32_t(&ots, b, n, v[4].buf, v[5].buf, v[6].buf, v[7].buf);
            else lookup_uint64_t(&ots, b, n, v[4].buf, v[5].buf, v[6].buf, v[7].buf);
            Py_END_ALLOW_THREADS
        }
    }
    return give_back(v, 8);
}

static PyObject *py_answer(PyObject *self, PyObject *args) {
    PyObject *o[5];
    Py_buffer v[5]; /* z, d, shift, table; out */
    Py_ssize_t word, bits, rows, stride;
    if (!PyArg_ParseTuple(args, "OOOOnnnnO", &o[0], &o[1], &o[2], &o[3], &word, &bits, &rows, &stride, &o[4]) || take(o, v, 5, 4) < 0) return NULL;
    if (is_word(word) && within(bits, 1, 8) && within(rows, 1, 1 << 20) && within(stride, 0, LARGEST / rows) && within(v[2].len % rows, 0, 0)
        && within(v[2].len / rows, 0, stride) && has(&v[0], rows * stride * word) && has(&v[1], bits * rows * stride * word)
        && has(&v[3], v[2].len * word) && has(&v[4], v[2].len * word)) {
        const size_t b = (size_t)bits, r = (size_t)rows, s = (size_t)stride, u = (size_t)(v[2].len / rows);
        if (word == 1) answer_uint8_t(v[0].buf, v[1].buf, v[2].buf, v[3].buf, b, r, s, u, v[4].buf);
        else if (word == 2) answer_uint16_t(v[0].buf, v[1].buf, v[2].buf, v[3].buf, b, r, s, u, v[4].buf);
        else if (word == 4) answer_uint32_t(v[0].buf, v[1].buf, v[2].buf, v[3].buf, b, r, s, u, v[4].buf);
        else answer_uint64_t(v[0].buf, v[1].buf, v[2].buf, v[3].buf, b, r, s, u, v[4].buf);
    }
    return give_back(v, 5);
}

static PyObject *py_label(PyObject *self, PyObject *args) {
    PyObject *o[4];
    Py_buffer v[4]; /* zeros, bits, delta; out */
    if (!PyArg_ParseTuple(args, "OOOO", &o[0], &o[1], &o[2], &o[3]) || take(o, v, 4, 3) < 0) return NULL;
    if (within(v[1].len, 0, LARGEST) && has(&v[0], 16 * v[1].len) && has(&v[2], 16) && has(&v[3], 16 * v[1].len)) {
        Py_BEGIN_ALLOW_THREADS
        label(v[0].buf, v[1].buf, v[2].buf, (size_t)v[1].len, v[3].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 4);
}

static PyObject *py_scale(PyObject *self, PyObject *args) {
    PyObject *o[8];
    Py_buffer v[8]; /* keys, sent, received, delta, bits, vectors; tau, kept */
    unsigned long long first;
    Py_ssize_t word, lanes;
    if (!PyArg_ParseTuple(args, "OOOOKOnOnOO", &o[0], &o[1], &o[2], &o[3], &first, &o[4], &word, &o[5], &lanes, &o[6], &o[7])
        || take(o, v, 8, 6) < 0) return NULL;
    const Py_ssize_t count = v[4].len;
    if (is_word(word) && has(&v[0], KEYS) && has(&v[3], 16) && within(lanes, 1, 1 << 16) && within(count, 0, LARGEST)
        && has(&v[1], count * 16) && has(&v[2], count * 16) && has(&v[5], count * lanes * word)
        && has(&v[6], count * lanes * word) && has(&v[7], count * lanes * word)) {
        const transfers_t ots = {v[0].buf, v[1].buf, v[2].buf, v[3].buf, first};
        const size_t l = (size_t)lanes, n = (size_t)count;
        Py_BEGIN_ALLOW_THREADS
        if (word == 1) scale_uint8_t(&ots, v[4].buf, v[5].buf, l, n, v[6].buf, v[7].buf);
        else if (word == 2) scale_uint16_t(&ots, v[4].buf, v[5].buf, l, n, v[6].buf, v[7].buf);
        else if (word == 4) scale_uint32_t(&ots, v[4].buf, v[5].buf, l, n, v[6].buf, v[7].buf);
        else scale_uint64_t(&ots, v[4].buf, v[5].buf, l, n, v[6].buf, v[7].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 8);
}

static PyObject *py_tally(PyObject *self, PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* table, rotation, counts */
    Py_ssize_t word, lanes, samples, classes;
    if (!PyArg_ParseTuple(args, "OOnnnnO", &o[0], &o[1], &word, &lanes, &samples, &classes, &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    if (is_word(word) && within(lanes, 1, 1 << 16) && within(lanes & (lanes - 1), 0, 0) && within(samples, 1, LARGEST) && within(v[1].len % samples, 0, 0)
        && within(v[1].len, 0, LARGEST) && within(classes, 1, lanes) && within(samples, 1, v[1].len)
        && has(&v[0], lanes * v[1].len * word) && has(&v[2], classes * samples * word)) {
        const size_t l = (size_t)lanes, s = (size_t)samples, k = (size_t)(v[1].len / samples), n = (size_t)classes;
        Py_BEGIN_ALLOW_THREADS
        if (word == 1) tally_uint8_t(v[0].buf, v[1].buf, l, k, s, n, v[2].buf);
        else if (word == 2) tally_uint16_t(v[0].buf, v[1].buf, l, k, s, n, v[2].buf);
        else if (word == 4) tally_uint32_t(v[0].buf, v[1].buf, l, k, s, n, v[2].buf);
        else tally_uint64_t(v[0].buf, v[1].buf, l, k, s, n, v[2].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static int gates_fit(const int32_t *gates, size_t count, Py_ssize_t wires, Py_ssize_t tables) {
    for (const int32_t *gate = gates; gate < gates + FIELDS * count; gate += FIELDS) {
        const int is_and = gate[OF_GARBLER] >= 0;
        if (!(within(gate[OUT], 0, wires - 1) && within(gate[A], 0, wires - 1) && within(gate[B], 0, wires - 1)
              && within(gate[A2], -1, wires - 1) && within(gate[B2], -1, wires - 1)
              && (!is_and || (within(gate[OF_GARBLER], 0, tables - 1) && within(gate[OF_EVALUATOR], 0, tables - 1))))) return 0;
    }
    return 1;
}

/* Samples start .. start + samples of the inputs uint64[..][stride][2], which are in two parts -> out uint64[outputs][samples][2]. */
static PyObject *py_run_circuit(PyObject *self, PyObject *args, int garbles) {
    enum { K, GATES, OUTPUTS, ONE, TWO, DELTA, TABLES, LABELS };
    PyObject *o[8];
    Py_buffer v[8];
    Py_ssize_t wires, stride, start, samples;
    unsigned long long block;
    o[DELTA] = Py_None;
    if (garbles ? !PyArg_ParseTuple(args, "OOOnOOnnnOKOO", &o[K], &o[GATES], &o[OUTPUTS], &wires, &o[ONE], &o[TWO], &stride, &start, &samples, &o[DELTA], &block, &o[TABLES], &o[LABELS])
                : !PyArg_ParseTuple(args, "OOOnOOnnnKOO", &o[K], &o[GATES], &o[OUTPUTS], &wires, &o[ONE], &o[TWO], &stride, &start, &samples, &block, &o[TABLES], &o[LABELS])) return NULL;
    if (garbles && o[DELTA] == Py_None) { PyErr_SetString(PyExc_ValueError, "a garbler has a Delta"); return NULL; }
    if (take(o, v, 8, garbles ? TABLES : LABELS) < 0) return NULL;
    if (!(has(&v[K], KEYS) && within(wires, 2, 1 << 24) && within(stride, 1, LARGEST) && within(start, 0, stride) && within(samples, 1, stride - start)
          && within(v[GATES].len % (4 * FIELDS), 0, 0) && within(v[OUTPUTS].len % 4, 0, 0) && (!garbles || has(&v[DELTA], 16))
          && within(v[ONE].len % (16 * stride), 0, 0) && within(v[TWO].len % (16 * stride), 0, 0)
          && within(v[TABLES].len % (16 * samples), 0, 0))) return give_back(v, 8);
    const Py_ssize_t inputs[2] = {v[ONE].len / (16 * stride), v[TWO].len / (16 * stride)};
    const size_t outputs = (size_t)v[OUTPUTS].len / 4;
    const int32_t *picked = v[OUTPUTS].buf;
    const circuit_t circuit = {v[K].buf, v[GATES].buf, (size_t)v[GATES].len / (4 * FIELDS), garbles ? v[DELTA].buf : NULL, block, (size_t)samples, v[TABLES].buf};
    int fits = within(inputs[0] + inputs[1], 0, wires - 2) && has(&v[LABELS], (Py_ssize_t)outputs * samples * 16)
        && gates_fit(circuit.gates, circuit.count, wires, v[TABLES].len / (16 * samples));
    for (size_t i = 0; fits && i < outputs; i++) fits = within(picked[i], 0, wires - 1);
    if (!fits) return give_back(v, 8);
    uint64_t *labels = calloc((size_t)wires * PART, 16);
    if (!labels) { PyErr_NoMemory(); return give_back(v, 8); }
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; garbles && i < PART; i++) memcpy(labels + 2 * (PART + i), circuit.delta, 16); /* wire 1 is the constant 1 */
    for (size_t at = 0; at < (size_t)samples; at += PART) {
        const size_t many = (size_t)samples - at < PART ? (size_t)samples - at : PART;
        uint64_t *to = labels + 2 * 2 * PART;
        for (int part = 0; part < 2; part++) {
            const uint64_t *from = (const uint64_t *)v[part ? TWO : ONE].buf + 2 * ((size_t)start + at);
            for (Py_ssize_t i = 0; i < inputs[part]; i++, to += 2 * PART, from += 2 * stride) memcpy(to, from, 16 * many);
        }
        (wide ? run_wide : run_narrow)(&circuit, labels, at, many);
        for (size_t i = 0; i < outputs; i++)
            memcpy((uint64_t *)v[LABELS].buf + 2 * (i * (size_t)samples + at), labels + 2 * PART * (size_t)picked[i], 16 * many);
    }
    Py_END_ALLOW_THREADS
    free(labels);
    return give_back(v, 8);
}

static PyObject *py_garble(PyObject *self, PyObject *args) { return py_run_circuit(self, args, 1); }
static PyObject *py_evaluate(PyObject *self, PyObject *args) { return py_run_circuit(self, args, 0); }

static PyObject *py_use_wide(PyObject *self, PyObject *args) {
    int wanted, before = wide;
    if (!PyArg_ParseTuple(args, "p", &wanted)) return NULL;
    wide = wanted && can_be_wide;
    return PyBool_FromLong(before);
}

static PyMethodDef functions[] = {
    {"schedule", py_schedule, METH_VARARGS, "schedule(seeds) -> bytes: the round keys of each seed of 16 bytes."},
    {"stream", py_stream, METH_VARARGS, "stream(key, counter, out): fill out."},
    {"pack", py_pack, METH_VARARGS, "pack(values, word, width, out): fill out."},
    {"unpack", py_unpack, METH_VARARGS, "unpack(packed, word, width, out): fill out."},
    {"fold", py_fold, METH_VARARGS, "fold(keys, first, counter, words, columns, sums): fill columns and sums."},
    {"tags", py_tags, METH_VARARGS, "tags(key, columns, bytes, out): fill out."},
    {"correct", py_correct, METH_VARARGS, "correct(theirs, masks, columns): add theirs to columns."},
    {"transpose", py_transpose, METH_VARARGS, "transpose(columns, stride, words, rows): fill rows."},
    {"hash_rows", py_hash_rows, METH_VARARGS, "hash_rows(keys, rows, first, out): fill out."},
    {"pads", py_pads, METH_VARARGS, "pads(keys, sent, received, delta, first, masks, word, chosen, z, d): fill chosen, z and d."},
    {"answer", py_answer, METH_VARARGS, "answer(z, d, shift, table, word, bits, rows, stride, out): fill out."},
    {"label", py_label, METH_VARARGS, "label(zeros, bits, delta, out): fill out."},
    {"scale", py_scale, METH_VARARGS, "scale(keys, sent, received, delta, first, bits, word, vectors, lanes, tau, kept): fill tau and kept."},
    {"tally", py_tally, METH_VARARGS, "tally(table, rotation, word, lanes, samples, classes, counts): fill counts."},
    {"garble", py_garble, METH_VARARGS, "garble(keys, gates, outputs, wires, one, two, stride, start, samples, delta, block, tables, labels): fill tables and labels."},
    {"evaluate", py_evaluate, METH_VARARGS, "evaluate(keys, gates, outputs, wires, one, two, stride, start, samples, block, tables, labels): fill labels."},
    {"use_wide", py_use_wide, METH_VARARGS, "use_wide(wanted) -> bool: AES with 512 bits from now on, if it is there; and before."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "sedml_kernel", "Hot loops of SEDML's servers.", -1, functions};

PyMODINIT_FUNC PyInit_sedml_kernel(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("aes") || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("avx2")) {
        PyErr_SetString(PyExc_ImportError, "This processor has no AES, no PCLMULQDQ or no AVX2.");
        return NULL;
    }
    wide = can_be_wide = __builtin_cpu_supports("vaes") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("gfni")
        && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi");
    PyObject *made = PyModule_Create(&module);
    /* Which functions there are and what they take: raised whenever sedml.mpc.kernel must change with them. */
    if (made && PyModule_AddIntConstant(made, "INTERFACE", 2) < 0) { Py_DECREF(made); return NULL; }
    return made;
}

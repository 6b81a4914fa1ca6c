/* Blocks of 128 bits, and what processors do with them: AES-128, products of polynomials, bytes in another order.
 *
 * x86-64 with AES, PCLMULQDQ and AVX2, or 64-bit ARM with AES and PMULL. Functions that use them are marked NARROW: the
 * compiler may use these instructions there and nowhere else, so that one build runs on every processor of its kind, and
 * the import finds out whether this one has them (`blocks_missing`).
 */
#ifndef SEDML_BLOCKS_H
#define SEDML_BLOCKS_H

#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The kernel takes GCC or Clang, and the lowest byte first; SEDML runs without it."
#endif

typedef uint64_t block_t __attribute__((vector_size(16))); /* the lower half first */

#if defined(__x86_64__)

#include <immintrin.h>
#define NARROW __attribute__((target("aes,pclmul,sse4.1,avx2")))

static const char *blocks_missing(void) {
    __builtin_cpu_init();
    const int there = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx2");
    return there ? NULL : "this processor lacks AES, PCLMULQDQ or AVX2";
}

NARROW static inline block_t aes_round(block_t x, block_t key) { return (block_t)_mm_aesenc_si128((__m128i)x, (__m128i)key); }
NARROW static inline block_t aes_last(block_t x, block_t key) { return (block_t)_mm_aesenclast_si128((__m128i)x, (__m128i)key); }
NARROW static inline block_t picked(block_t x, block_t order) { return (block_t)_mm_shuffle_epi8((__m128i)x, (__m128i)order); }

/* Half i of a times half j of b. */
#define TIMES(a, i, b, j) ((block_t)_mm_clmulepi64_si128((__m128i)(a), (__m128i)(b), (i) | (j) << 4))

/* Lanes of a and b in turn: of their lower halves, or of their upper ones. */
#define LOWER(bits, a, b) ((block_t)_mm_unpacklo_epi##bits((__m128i)(a), (__m128i)(b)))
#define UPPER(bits, a, b) ((block_t)_mm_unpackhi_epi##bits((__m128i)(a), (__m128i)(b)))

#elif defined(__aarch64__)

#include <arm_neon.h>
#if defined(__APPLE__) || defined(__ARM_FEATURE_AES)
#define NARROW
#elif defined(__clang__)
#define NARROW __attribute__((target("aes")))
#else
#define NARROW __attribute__((target("+crypto")))
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#endif

static const char *blocks_missing(void) {
#if defined(__linux__)
    const unsigned long needed = 1UL << 3 | 1UL << 4; /* HWCAP_AES, HWCAP_PMULL */
    if ((getauxval(AT_HWCAP) & needed) != needed) return "this processor lacks AES or PMULL";
#endif
    return NULL;
}

/* ARM adds the key before a round, x86 after it. */
NARROW static inline block_t aes_last(block_t x, block_t key) { return (block_t)vaeseq_u8((uint8x16_t)x, vdupq_n_u8(0)) ^ key; }
NARROW static inline block_t aes_round(block_t x, block_t key) {
    return (block_t)vaesmcq_u8(vaeseq_u8((uint8x16_t)x, vdupq_n_u8(0))) ^ key;
}
NARROW static inline block_t picked(block_t x, block_t order) { return (block_t)vqtbl1q_u8((uint8x16_t)x, (uint8x16_t)order); }

#define TIMES(a, i, b, j) ((block_t)vreinterpretq_u64_p128(vmull_p64((poly64_t)(a)[i], (poly64_t)(b)[j])))
#define LOWER(bits, a, b) ((block_t)vzip1q_u##bits(vreinterpretq_u##bits##_u8((uint8x16_t)(a)), vreinterpretq_u##bits##_u8((uint8x16_t)(b))))
#define UPPER(bits, a, b) ((block_t)vzip2q_u##bits(vreinterpretq_u##bits##_u8((uint8x16_t)(a)), vreinterpretq_u##bits##_u8((uint8x16_t)(b))))
#define vreinterpretq_u8_u8(x) (x)

#else
#error "The kernel is for x86-64 and for 64-bit ARM; SEDML runs without it."
#endif

typedef block_t anywhere_t __attribute__((aligned(1), may_alias)); /* in memory, of whatever type and at whatever address */

static inline block_t load(const void *from) { return *(const anywhere_t *)from; }
static inline void store(void *to, block_t x) { *(anywhere_t *)to = x; }

/* ---- AES-128 ---- */

enum { ROUNDS = 11, KEYS = 16 * ROUNDS };

#define KEY(keys, round) load((keys) + 16 * (round))

NARROW static void schedule(const uint8_t *seed, uint8_t *keys) {
    const block_t up = {0x0302010080808080ULL, 0x0b0a090807060504ULL};   /* four bytes up */
    const block_t last = {0x0c0f0e0d0c0f0e0dULL, 0x0c0f0e0d0c0f0e0dULL}; /* the last four bytes, turned by one, four times */
    block_t key = load(seed);
    store(keys, key);
    for (int round = 1, constant = 1; round < ROUNDS; round++, constant = constant << 1 ^ (constant >> 7) * 0x11b) {
        const uint64_t twice = (uint64_t)constant << 32 | (uint64_t)constant;
        /* The columns are the same, so that the rows are turned to what they were: only bytes are replaced. */
        const block_t made = aes_last(picked(key, last), (block_t){twice, twice});
        for (int i = 0; i < 3; i++) key ^= picked(key, up);
        key ^= made;
        store(keys + 16 * round, key);
    }
}

NARROW static inline block_t encrypted(const uint8_t *keys, block_t x) {
    x ^= KEY(keys, 0);
    for (int round = 1; round < 10; round++) x = aes_round(x, KEY(keys, round));
    return aes_last(x, KEY(keys, 10));
}

/* A counter, which has 128 bits, and so many added to it; the highest byte comes first. */
static inline block_t counter(uint64_t high, uint64_t low, uint64_t more) {
    const uint64_t sum = low + more;
    return (block_t){__builtin_bswap64(high + (sum < low)), __builtin_bswap64(sum)};
}

#endif

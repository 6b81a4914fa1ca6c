/* The hot loops of SEDML's servers, with the processor's AES: the same bytes as the NumPy code of sedml.mpc.
 *
 * schedule   round keys of AES-128
 * stream     AES-CTR of zeros
 * fold       AES-CTR of the 16 leaves of each tree, summed up by the bits of the leaf's number (SoftSpokenOT)
 * tags       tags of AES-GCM of messages that are all additional data: GHASH of each column
 * correct    what the other server sent, added where Delta has a 1
 * transpose  128 long columns of bits to one row of 128 bits for each transfer
 * hash_rows  TMMO: H(x, i) = pi(pi(x) ^ i) ^ pi(x)
 * label      labels of given bits
 * leaky_offer, leaky_take, leaky_correct   what two servers say to make leaky ANDs
 * order, bucket_bits                       how leaky ANDs come into buckets
 * weave      rows of the masks of all ANDs' operands
 * products   rows of the products of such masks, from buckets of leaky ANDs
 * garble_masked, evaluate_masked           half-gates with authenticated masks
 * draw       numbers of the field of ballots, from AES-CTR
 * examine    what a server computes from its share of such a page
 * gate       what that must add up to
 *
 * Nothing here branches or looks anything up by a secret. What the processor can do is found out once, at import:
 * AES with 128 bits is needed, on x86-64 or on 64-bit ARM; AES with 512 bits (VAES, AVX-512) is used where it is there. On
 * other processors the import fails, and the NumPy code runs. Every size is checked before anything is read or written.
 *
 * blocks.h has what differs between processors, narrow.h and wide.h the loops that use it, authenticated.h those over
 * authenticated bits; here is what Python calls.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "authenticated.h"
#include "ballots.h"

/* Every function takes contiguous buffers, and raises ValueError if one has not the size that it must have. */

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

/* Overwrite, also where a compiler would see that nobody reads it any more. */
static void clear(void *secret, size_t bytes) {
    memset(secret, 0, bytes);
    __asm__ __volatile__("" : : "r"(secret) : "memory");
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

static PyObject *py_schedule(PyObject *Py_UNUSED(self), PyObject *args) {
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

static PyObject *py_stream(PyObject *Py_UNUSED(self), PyObject *args) {
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
        CHOSEN(stream)(keys, __builtin_bswap64(high), __builtin_bswap64(low), (size_t)v[2].len, v[2].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static PyObject *py_fold(PyObject *Py_UNUSED(self), PyObject *args) {
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
        CHOSEN(fold)(v[0].buf, first, high, low, (size_t)words, v[2].buf, v[3].obj ? v[3].buf : NULL);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 4);
}

static PyObject *py_tags(PyObject *Py_UNUSED(self), PyObject *args) {
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
            CHOSEN(tag)(&key, (const uint8_t *)v[1].buf + i * bytes, (size_t)bytes / 16, (uint8_t *)v[2].buf + 16 * i);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static PyObject *py_correct(PyObject *Py_UNUSED(self), PyObject *args) {
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

static PyObject *py_transpose(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *o[2];
    Py_buffer v[2]; /* columns, rows */
    Py_ssize_t stride, words;
    if (!PyArg_ParseTuple(args, "OnnO", &o[0], &stride, &words, &o[1]) || take(o, v, 2, 1) < 0) return NULL;
    if (within(stride, 0, LARGEST) && within(words, 0, stride) && has(&v[0], stride * 128 * 8) && has(&v[1], words * 64 * 16)) {
        Py_BEGIN_ALLOW_THREADS
        CHOSEN(transpose)(v[0].buf, (size_t)stride, (size_t)words, v[1].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 2);
}

static PyObject *py_hash_rows(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* keys, rows, out */
    unsigned long long first;
    if (!PyArg_ParseTuple(args, "OOKO", &o[0], &o[1], &first, &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    if (has(&v[0], KEYS) && within(v[1].len % 16, 0, 0) && has(&v[2], v[1].len)) {
        Py_BEGIN_ALLOW_THREADS
        CHOSEN(hash_rows)(v[0].buf, v[1].buf, (size_t)v[1].len / 16, first, 0, v[2].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static PyObject *py_label(PyObject *Py_UNUSED(self), PyObject *args) {
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

static int gates_fit(const int32_t *gates, size_t count, Py_ssize_t wires) {
    for (const int32_t *gate = gates; gate < gates + FIELDS * count; gate += FIELDS)
        if (!(within(gate[OUT], 0, wires - 1) && within(gate[A], 0, wires - 1) && within(gate[B], 0, wires - 1)
              && within(gate[A2], -1, wires - 1) && within(gate[B2], -1, wires - 1) && within(gate[IS_AND], 0, 1))) return 0;
    return 1;
}

/* Leaky ANDs: so many of them that `bits` has; sizes of all but the arrays that one of the two functions has more. */
static int is_leaky(const Py_buffer *keys, const Py_buffer *bits, const Py_buffer *own, const Py_buffer *peer) {
    return has(keys, KEYS) && within(bits->len, 0, LARGEST) && within(bits->len % 3, 0, 0) && has(own, bits->len * 16) && has(peer, bits->len * 16);
}

static PyObject *py_leaky_offer(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { K, DELTA, BITS, OWN, PEER, C, H, G, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    unsigned long long first, own, peer;
    if (!PyArg_ParseTuple(args, "OKOKKOOOOOO", &o[K], &first, &o[DELTA], &own, &peer, &o[BITS], &o[OWN], &o[PEER], &o[C], &o[H], &o[G])
        || take(o, v, ALL, C) < 0) return NULL;
    const Py_ssize_t n = v[BITS].len / 3;
    if (is_leaky(&v[K], &v[BITS], &v[OWN], &v[PEER]) && has(&v[DELTA], 16) && has(&v[C], 8 * n) && has(&v[H], 8 * n) && has(&v[G], 8 * n)) {
        const leaky_t leaky = {v[K].buf, first, own, peer, v[BITS].buf, v[OWN].buf, v[PEER].buf};
        Py_BEGIN_ALLOW_THREADS
        leaky_offer(&leaky, v[DELTA].buf, (size_t)n, v[C].buf, v[H].buf, v[G].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, ALL);
}

static PyObject *py_leaky_take(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { K, BITS, OWN, PEER, C, THEIRS, S, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    unsigned long long first, own, peer;
    if (!PyArg_ParseTuple(args, "OKKKOOOOOO", &o[K], &first, &own, &peer, &o[BITS], &o[OWN], &o[PEER], &o[C], &o[THEIRS], &o[S])
        || take(o, v, ALL, S) < 0) return NULL;
    const Py_ssize_t n = v[BITS].len / 3;
    if (is_leaky(&v[K], &v[BITS], &v[OWN], &v[PEER]) && has(&v[C], 8 * n) && has(&v[THEIRS], 8 * n) && has(&v[S], 8 * n)) {
        const leaky_t leaky = {v[K].buf, first, own, peer, v[BITS].buf, v[OWN].buf, v[PEER].buf};
        Py_BEGIN_ALLOW_THREADS
        leaky_take(&leaky, (size_t)n, v[C].buf, v[THEIRS].buf, v[S].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, ALL);
}

static PyObject *py_leaky_correct(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { D, DELTA, OWN, S, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    unsigned long long kept;
    if (!PyArg_ParseTuple(args, "OOKOO", &o[D], &o[DELTA], &kept, &o[OWN], &o[S]) || take(o, v, ALL, OWN) < 0) return NULL;
    if (within(v[D].len, 0, LARGEST) && has(&v[DELTA], 16) && has(&v[OWN], v[D].len * 48) && has(&v[S], v[D].len * 8)) {
        Py_BEGIN_ALLOW_THREADS
        leaky_correct(v[D].buf, v[DELTA].buf, kept, (size_t)v[D].len, v[OWN].buf, v[S].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, ALL);
}

static PyObject *py_order(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *o[2];
    Py_buffer v[2]; /* keys, out */
    if (!PyArg_ParseTuple(args, "OO", &o[0], &o[1]) || take(o, v, 2, 1) < 0) return NULL;
    if (within(v[0].len, 0, (Py_ssize_t)1 << 33) && within(v[0].len % 4, 0, 0) && has(&v[1], v[0].len)) {
        uint32_t *spare = malloc((size_t)v[0].len + 1);
        if (!spare) PyErr_NoMemory();
        else {
            Py_BEGIN_ALLOW_THREADS
            order(v[0].buf, (size_t)v[0].len / 4, v[1].buf, spare);
            Py_END_ALLOW_THREADS
        }
        free(spare);
    }
    return give_back(v, 2);
}

/* Whether all are places of leaky ANDs. */
static int are_places(const Py_buffer *places, Py_ssize_t ands) {
    const uint32_t *place = places->buf;
    uint32_t most = 0;
    for (Py_ssize_t i = 0; i < places->len / 4; i++) most = place[i] > most ? place[i] : most;
    return within(most, 0, ands - 1);
}

static PyObject *py_bucket_bits(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *o[5];
    Py_buffer v[5]; /* place, bits, e, x, y */
    if (!PyArg_ParseTuple(args, "OOOOO", &o[0], &o[1], &o[2], &o[3], &o[4]) || take(o, v, 5, 2) < 0) return NULL;
    const Py_ssize_t n = v[3].len, ands = v[1].len / 3;
    if (within(n, 1, LARGEST) && within(v[2].len % n, 0, 0) && has(&v[0], 4 * v[2].len) && has(&v[1], 3 * ands) && within(ands, n, LARGEST)
        && has(&v[4], n) && are_places(&v[0], ands)) {
        Py_BEGIN_ALLOW_THREADS
        bucket_bits(v[0].buf, v[1].buf, (size_t)(v[2].len / n), (size_t)n, v[2].buf, v[3].buf, v[4].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 5);
}

static PyObject *py_products(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { PLACE, E, F, G, LEAKY, ONE, TWO, DELTA, FOUND, WORDS, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    Py_ssize_t first;
    if (!PyArg_ParseTuple(args, "nOOOOOOOOOO", &first, &o[PLACE], &o[E], &o[F], &o[G], &o[LEAKY], &o[ONE], &o[TWO], &o[DELTA], &o[FOUND], &o[WORDS])
        || take(o, v, ALL, FOUND) < 0) return NULL;
    const Py_ssize_t n = v[F].len, ands = v[LEAKY].len / 48;
    if (within(n, 1, LARGEST) && within(v[E].len % n, 0, 0) && within(v[E].len / n, 0, 64) && has(&v[PLACE], 4 * v[E].len) && has(&v[G], n)
        && has(&v[LEAKY], ands * 48) && within(first, 0, ands - n) && has(&v[ONE], 16 * n) && has(&v[TWO], 16 * n) && has(&v[DELTA], 16)
        && has(&v[FOUND], 16 * n) && has(&v[WORDS], 8 * (v[E].len + 2 * n)) && are_places(&v[PLACE], ands)) {
        const products_t all = {(size_t)n, (size_t)(v[E].len / n), v[PLACE].buf, v[E].buf, v[F].buf, v[G].buf, v[LEAKY].buf, v[ONE].buf, v[TWO].buf, v[DELTA].buf};
        Py_BEGIN_ALLOW_THREADS
        products(&all, (size_t)first, v[FOUND].buf, v[WORDS].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, ALL);
}

/* A circuit of so many wires on so many samples, and memory for the rows of its wires. */
static int is_circuit(const Py_buffer *gates, const Py_buffer *inputs, const Py_buffer *rows, Py_ssize_t wires, Py_ssize_t samples, masked_t *c) {
    if (!(within(wires, 2, 1 << 24) && within(samples, 1, 1 << 24) && within(gates->len % (4 * FIELDS), 0, 0)
          && within(inputs->len % (16 * samples), 0, 0) && within(inputs->len / (16 * samples), 0, wires - 2))) return 0;
    c->gates = gates->buf;
    c->count = (size_t)gates->len / (4 * FIELDS);
    c->inputs = (size_t)(inputs->len / (16 * samples));
    c->samples = (size_t)samples;
    c->ands = 0;
    for (size_t i = 0; i < c->count; i++) c->ands += c->gates[FIELDS * i + IS_AND] == 1;
    return gates_fit(c->gates, c->count, wires) && has(rows, 16 * (Py_ssize_t)c->ands * samples);
}

static PyObject *py_weave(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { GATES, OUTPUTS, INPUTS, RESULTS, LEFT, RIGHT, FOUND, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    Py_ssize_t wires, samples;
    masked_t c = {.keys = NULL};
    if (!PyArg_ParseTuple(args, "OOnnOOOOO", &o[GATES], &o[OUTPUTS], &wires, &samples, &o[INPUTS], &o[RESULTS], &o[LEFT], &o[RIGHT], &o[FOUND])
        || take(o, v, ALL, LEFT) < 0) return NULL;
    int fits = is_circuit(&v[GATES], &v[INPUTS], &v[RESULTS], wires, samples, &c) && has(&v[LEFT], v[RESULTS].len) && has(&v[RIGHT], v[RESULTS].len)
        && within(v[OUTPUTS].len % 4, 0, 0) && has(&v[FOUND], v[OUTPUTS].len / 4 * samples * 16);
    const int32_t *picked = v[OUTPUTS].buf;
    const size_t outputs = (size_t)v[OUTPUTS].len / 4;
    for (size_t i = 0; fits && i < outputs; i++) fits = within(picked[i], 0, wires - 1);
    uint64_t *rows = fits ? calloc((size_t)wires * PART, 16) : NULL;
    if (rows) {
        Py_BEGIN_ALLOW_THREADS
        for (size_t at = 0; at < c.samples; at += PART) {
            const size_t many = c.samples - at < PART ? c.samples - at : PART;
            begin(&c, v[INPUTS].buf, rows, at, many);
            weave_part(&c, rows, v[RESULTS].buf, v[LEFT].buf, v[RIGHT].buf, at, many);
            for (size_t i = 0; i < outputs; i++)
                memcpy((uint64_t *)v[FOUND].buf + ROW * (i * c.samples + at), rows + ROW * PART * (size_t)picked[i], 16 * many);
        }
        clear(rows, (size_t)wires * PART * 16);
        Py_END_ALLOW_THREADS
        free(rows);
    } else if (fits) PyErr_NoMemory();
    return give_back(v, ALL);
}

static PyObject *py_garble_masked(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { K, GATES, INPUTS, LEFT, RIGHT, RESULTS, DELTA, TABLES, LABELS, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    Py_ssize_t wires, samples;
    unsigned long long block;
    masked_t c = {.keys = NULL};
    if (!PyArg_ParseTuple(args, "OOnnKOOOOOOO", &o[K], &o[GATES], &wires, &samples, &block, &o[INPUTS], &o[LEFT], &o[RIGHT], &o[RESULTS], &o[DELTA], &o[TABLES], &o[LABELS])
        || take(o, v, ALL, TABLES) < 0) return NULL;
    const int fits = has(&v[K], KEYS) && has(&v[DELTA], 16) && is_circuit(&v[GATES], &v[INPUTS], &v[RESULTS], wires, samples, &c)
        && has(&v[LEFT], v[RESULTS].len) && has(&v[RIGHT], v[RESULTS].len) && has(&v[TABLES], 2 * v[RESULTS].len) && has(&v[LABELS], v[RESULTS].len);
    uint64_t *rows = fits ? calloc((size_t)wires * PART, 16) : NULL;
    if (rows) {
        c.keys = v[K].buf;
        c.block = block;
        c.delta = v[DELTA].buf;
        Py_BEGIN_ALLOW_THREADS
        for (size_t i = 0; i < PART; i++) memcpy(rows + ROW * (PART + i), c.delta, 16); /* wire 1 is the constant 1 */
        for (size_t at = 0; at < c.samples; at += PART) {
            const size_t many = c.samples - at < PART ? c.samples - at : PART;
            begin(&c, v[INPUTS].buf, rows, at, many);
            garble_part(&c, rows, v[LEFT].buf, v[RIGHT].buf, v[RESULTS].buf, v[TABLES].buf, v[LABELS].buf, at, many);
        }
        clear(rows, (size_t)wires * PART * 16);
        Py_END_ALLOW_THREADS
        free(rows);
    } else if (fits) PyErr_NoMemory();
    return give_back(v, ALL);
}

static PyObject *py_evaluate_masked(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { K, GATES, INPUTS, KNOWN, TABLES, COLOURS, RESULTS, LABELS, VALUES, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    Py_ssize_t wires, samples;
    unsigned long long block;
    masked_t c = {.keys = NULL};
    if (!PyArg_ParseTuple(args, "OOnnKOOOOOOO", &o[K], &o[GATES], &wires, &samples, &block, &o[INPUTS], &o[KNOWN], &o[TABLES], &o[COLOURS], &o[RESULTS], &o[LABELS], &o[VALUES])
        || take(o, v, ALL, LABELS) < 0) return NULL;
    const int fits = has(&v[K], KEYS) && is_circuit(&v[GATES], &v[INPUTS], &v[RESULTS], wires, samples, &c) && has(&v[KNOWN], v[INPUTS].len / 16)
        && has(&v[TABLES], 2 * v[RESULTS].len) && has(&v[COLOURS], v[RESULTS].len / 16) && has(&v[LABELS], v[RESULTS].len) && has(&v[VALUES], v[RESULTS].len / 16);
    uint64_t *rows = fits ? calloc((size_t)wires * PART, 16) : NULL;
    uint8_t *known = rows ? calloc((size_t)wires, PART) : NULL;
    if (known) {
        c.keys = v[K].buf;
        c.block = block;
        Py_BEGIN_ALLOW_THREADS
        memset(known + PART, 1, PART);
        for (size_t at = 0; at < c.samples; at += PART) {
            const size_t many = c.samples - at < PART ? c.samples - at : PART;
            begin(&c, v[INPUTS].buf, rows, at, many);
            for (size_t i = 0; i < c.inputs; i++) memcpy(known + (2 + i) * PART, (const uint8_t *)v[KNOWN].buf + i * c.samples + at, many);
            evaluate_part(&c, rows, known, v[TABLES].buf, v[COLOURS].buf, v[RESULTS].buf, v[LABELS].buf, v[VALUES].buf, at, many);
        }
        clear(rows, (size_t)wires * PART * 16);
        Py_END_ALLOW_THREADS
    } else if (fits) PyErr_NoMemory();
    free(known);
    free(rows);
    return give_back(v, ALL);
}

static PyObject *py_draw(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* key, counter, out */
    if (!PyArg_ParseTuple(args, "OOO", &o[0], &o[1], &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    if (has(&v[0], 16) && has(&v[1], 16) && within(v[2].len % 4, 0, 0)) {
        uint8_t keys[KEYS];
        uint64_t high, low;
        memcpy(&high, v[1].buf, 8);
        memcpy(&low, (char *)v[1].buf + 8, 8);
        Py_BEGIN_ALLOW_THREADS
        schedule(v[0].buf, keys);
        draw(keys, __builtin_bswap64(high), __builtin_bswap64(low), (size_t)v[2].len / 4, v[2].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

/* A page has so many samples and classes, and its wires room for all its numbers. */
static int is_page(const Py_buffer *x, const Py_buffer *masks, Py_ssize_t samples, Py_ssize_t classes, Py_ssize_t points) {
    if (!(within(samples, 1, 1 << 20) && within(classes, 2, 1 << 20) && within(points, DEGREE + 1, 1 << 16)
          && has(x, 4 * samples * classes) && within(masks->len, 16, LARGEST) && within(masks->len % 16, 0, 0))) return 0;
    return within((points - DEGREE) * (masks->len / 16), samples * (classes + 1), LARGEST);
}

static PyObject *py_examine(PyObject *Py_UNUSED(self), PyObject *args) {
    enum { X, MASKS, QUOTIENT, Z, SCALES, OTHERS, OUT, ALL };
    PyObject *o[ALL];
    Py_buffer v[ALL];
    Py_ssize_t samples, classes;
    if (!PyArg_ParseTuple(args, "OOOOOOnnO", &o[X], &o[MASKS], &o[QUOTIENT], &o[Z], &o[SCALES], &o[OTHERS], &samples, &classes, &o[OUT])
        || take(o, v, ALL, OUT) < 0) return NULL;
    const Py_ssize_t wires = v[MASKS].len / 16, quotient = v[OTHERS].len / 4, points = v[SCALES].len / 4;
    if (is_page(&v[X], &v[MASKS], samples, classes, points) && has(&v[Z], 16) && has(&v[SCALES], 4 * points)
        && within(quotient, 1, 1 << 24) && has(&v[OTHERS], 4 * quotient) && has(&v[QUOTIENT], 16 * quotient) && has(&v[OUT], 16 * (wires + 1))) {
        uint32_t *weights = malloc(16 * (size_t)(points + quotient)), zero[DEGREE], unused[DEGREE], *out = v[OUT].buf;
        wires_t all = {.values = NULL};
        if (!weights || lay_out(v[X].buf, v[MASKS].buf, (size_t)samples, (size_t)classes, (size_t)wires, (size_t)points, &all) < 0) PyErr_NoMemory();
        else {
            uint32_t *behind = weights + DEGREE * points;
            Py_BEGIN_ALLOW_THREADS
            lagrange(v[Z].buf, 0, (size_t)points, v[SCALES].buf, weights, zero);
            lagrange(v[Z].buf, (size_t)points, (size_t)quotient, v[OTHERS].buf, behind, unused);
            examine(&all, weights, out);
            at_z(behind, zero, v[QUOTIENT].buf, (size_t)quotient, out + DEGREE * wires);
            Py_END_ALLOW_THREADS
        }
        free(weights);
        free(all.values);
    }
    return give_back(v, ALL);
}

static PyObject *py_gate(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *o[3];
    Py_buffer v[3]; /* told, rho, out */
    Py_ssize_t votes;
    if (!PyArg_ParseTuple(args, "OOnO", &o[0], &o[1], &votes, &o[2]) || take(o, v, 3, 2) < 0) return NULL;
    if (within(v[0].len % 16, 0, 0) && has(&v[1], v[0].len) && within(votes, 1, 1 << 12) && has(&v[2], 16)) {
        Py_BEGIN_ALLOW_THREADS
        gate(v[0].buf, v[1].buf, (size_t)v[0].len / 16, (uint32_t)votes, v[2].buf);
        Py_END_ALLOW_THREADS
    }
    return give_back(v, 3);
}

static PyObject *py_use_wide(PyObject *Py_UNUSED(self), PyObject *args) {
    int wanted, before = wide;
    if (!PyArg_ParseTuple(args, "p", &wanted)) return NULL;
    wide = wanted && can_be_wide;
    return PyBool_FromLong(before);
}

/* inspect.signature reads the names: sedml.mpc.kernel finds out by them that a build is older than it. */
#define FUNCTION(name, takes, text) {#name, py_##name, METH_VARARGS, #name "(" takes ", /)\n--\n\n" text}

static PyMethodDef functions[] = {
    FUNCTION(schedule, "seeds", "The round keys of each seed of 16 bytes."),
    FUNCTION(stream, "key, counter, out", "Fill out."),
    FUNCTION(fold, "keys, first, counter, words, columns, sums", "Fill columns and sums."),
    FUNCTION(tags, "key, columns, size, out", "Fill out."),
    FUNCTION(correct, "theirs, masks, columns", "Add theirs to columns."),
    FUNCTION(transpose, "columns, stride, words, rows", "Fill rows."),
    FUNCTION(hash_rows, "keys, rows, first, out", "Fill out."),
    FUNCTION(label, "zeros, bits, delta, out", "Fill out."),
    FUNCTION(leaky_offer, "keys, first, delta, own_kept, peer_kept, bits, own, peer, c, h, g", "Fill c, h and g."),
    FUNCTION(leaky_take, "keys, first, own_kept, peer_kept, bits, own, peer, c, theirs, s", "Add to s."),
    FUNCTION(leaky_correct, "d, delta, own_kept, own, s", "Add to own and s."),
    FUNCTION(order, "keys, out", "Fill out."),
    FUNCTION(bucket_bits, "place, bits, e, x, y", "Fill e, x and y."),
    FUNCTION(weave, "gates, outputs, wires, samples, inputs, results, a, b, found", "Fill a, b and found."),
    FUNCTION(products, "first, place, e, f, g, leaky, a, b, delta, found, words", "Fill found and words."),
    FUNCTION(garble_masked, "keys, gates, wires, samples, block, inputs, a, b, results, delta, tables, labels", "Fill tables and labels."),
    FUNCTION(evaluate_masked, "keys, gates, wires, samples, block, inputs, masked, tables, colours, results, labels, values", "Fill labels and values."),
    FUNCTION(draw, "key, counter, out", "Fill out."),
    FUNCTION(examine, "x, masks, quotient, z, scales, others, samples, classes, out", "Fill out."),
    FUNCTION(gate, "told, rho, votes, out", "Fill out."),
    FUNCTION(use_wide, "wanted", "AES with 512 bits from now on, if it is there; and before."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_kernel", .m_doc = "Hot loops of SEDML's servers.", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__kernel(void) {
    const char *missing = blocks_missing();
    if (missing) {
        PyErr_SetString(PyExc_ImportError, missing);
        return NULL;
    }
    wide = can_be_wide = has_wide();
    return PyModule_Create(&module);
}

/* Search for integers that give a rule's outputs: the inner loops of python/loadstone/vta/integers/.
 *
 * In:   runs of channels (vta/integers/runs.py), and the candidates in the order in which they are tried.
 * Out:  for each channel the first candidate for which an exact constant exists.
 * Next: vta/integers/native_runs.py calls them; vta/integers/proof.py proves the chosen integers without them.
 *
 * The caller checks that channels are rows of the runs, and how long arrays are.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_RESCALE_H
#define LDS_RESCALE_H

#ifndef LDS_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

#include "lds_native.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Some channels of runs of equal outputs: rows of `runs` accumulators and values each, and real scales. */
typedef struct {
  const int64_t *first, *last, *value;
  const double *scale;
  size_t runs;
  int64_t low, high, tolerance;
  const int64_t *channels; /* numbers of rows: those that are searched */
  size_t count;
} lds_rescale_runs;

/* The result for one channel; all zeros: nothing was found. constant: where the accumulator is not negative; sign: what the sign digit, -1,
 * is multiplied by. */
typedef struct {
  int64_t ok, multipliers[3], constant, sign, shift, offset;
} lds_rescale_found;

/* How accumulators become digits: count of them, without the sign digit. Of each channel: by how much x is shifted to the left,
 * the last shift, an offset; and the accumulators between which its output changes. */
typedef struct {
  int count, is_signed;
  const int64_t *left, *shift, *offset, *low, *high;
} lds_rescale_form;

/* Distances from the nearest: of the shift, and of each multiplier. other: the second nearest lowest one. coarse: the third has no
 * product at the lowest level. */
typedef struct {
  int64_t finer, other, second, third, coarse;
} lds_rescale_candidate;

/* Multipliers of digits, for channels that have none yet: at each of some distances from their offset all candidates. */
LDS_NATIVE_EXPORT void lds_rescale_digits(const lds_rescale_runs *runs, const lds_rescale_form *form, const int64_t *offsets,
                                          size_t offset_count, const lds_rescale_candidate *candidates, size_t candidate_count,
                                          lds_rescale_found *found);

/* One multiplier of the whole accumulator, up to a limit; shift: the largest, of each channel. */
LDS_NATIVE_EXPORT void lds_rescale_parts(const lds_rescale_runs *runs, const int64_t *shift, const int64_t *limit,
                                         lds_rescale_found *found);

/* needs[i] = 1: no line is exact everywhere with one constant, but one is with a constant for each sign. slope, shift: of the
 * line that is nearest to each channel's scale; distances: the numbers that are added to its slope. */
LDS_NATIVE_EXPORT void lds_rescale_needs_sign(const lds_rescale_runs *runs, const int64_t *slope, const int64_t *shift,
                                              const int64_t *distances, size_t distance_count, uint8_t *needs);

/* Distances from the nearest multipliers of three digits, as of lds_rescale_candidate. */
typedef struct {
  int64_t other, second, third;
} lds_rescale_bend;

typedef struct {
  int64_t least, most;
} lds_rescale_window;

/* A sum, without its lowest 8 bits, with several constants: window_of[value - low] is the one that applies to an output. is_signed:
 * the sum contains the sign digit. Of each channel: by how much x is shifted to the left; the bits of the sum below one output; what
 * an accumulator is multiplied by. */
typedef struct {
  int is_signed;
  const int64_t *left, *unit;
  const double *real;
  const int64_t *window_of;
  size_t window_count;
  const lds_rescale_bend *bends;
  size_t bend_count;
} lds_rescale_stairs_form;

/* For channels that have nothing yet: at each of some offsets that fit all bends. offsets, fits: offset_count rows, a column for each
 * channel. windows: a row for each channel, 1 << 60 where a side has no bound. */
LDS_NATIVE_EXPORT void lds_rescale_stairs(const lds_rescale_runs *runs, const lds_rescale_stairs_form *form, const int64_t *offsets,
                                          const uint8_t *fits, size_t offset_count, lds_rescale_found *found, lds_rescale_window *windows);

#ifdef __cplusplus
}
#endif

#endif /* LDS_RESCALE_H */

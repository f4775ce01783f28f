/* SPDX-License-Identifier: Apache-2.0 */
/* places.h - for shim.c: a call fails at each place of the code once. */
#ifndef KT_TESTS_CAMPAIGN_PLACES_H
#define KT_TESTS_CAMPAIGN_PLACES_H

#include <stdbool.h>

/* Reads which places had their turn. */
void kt_places_begin(void);

/* Shall this call fail? */
bool kt_place_fails(long kind);

/* Nothing fails from now on. */
void kt_places_end(void);

#endif

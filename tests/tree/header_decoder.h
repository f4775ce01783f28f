/* SPDX-License-Identifier: Apache-2.0 */
/* header_decoder.h - the decoder of header_params.h's backend: what coded/gemv_tmpl.h asks of DECODER_H. */
#ifndef KT_TESTS_HEADER_DECODER_H
#define KT_TESTS_HEADER_DECODER_H

#include "plugins/common/simd/simd.h"

struct decoder {
    int encoding;
};

INLINE struct decoder make_decoder(int encoding)
{
    return (struct decoder){encoding};
}

INLINE void decode(vi codes, const struct decoder *decoder, int encoding, vi *w)
{
    (void)encoding;
    w[decoder->encoding] = codes;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - a random number for each place, without a state: Philox4x32-10 (Salmon et al., SC 2011). */
#include <kt/sampling.h>

double kt_sampling_random(uint64_t seed, uint64_t position, uint32_t stream)
{
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), stream, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)counter[0] * 0xD2511F53u;
        uint64_t b = (uint64_t)counter[2] * 0xCD9E8D57u;
        counter[0] = (uint32_t)(b >> 32) ^ counter[1] ^ key[0];
        counter[1] = (uint32_t)b;
        counter[2] = (uint32_t)(a >> 32) ^ counter[3] ^ key[1];
        counter[3] = (uint32_t)a;
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return (double)(((uint64_t)counter[0] << 32 | counter[1]) >> 11) * 0x1p-53;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_activations.c - vectors' activations against float64, and float64 against other programs' results. */
#define SIMD scalar
#include "plugins/common/gemm/glu.h"
#include "tools/check/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

static int n_wrong;

static float glu(const struct kt_shape *shape, float g, float u)
{
    float lanes[VEC_ROWS];
    vf gate = vf_set(g), up = vf_set(u);
    vf_store(lanes, shape->activation == KT_ACTIVATION_RELU2 ? vf_relu2(up)
                    : is_rare(shape)                         ? vf_glu_rare(shape, gate, up)
                                                             : vf_glu(shape, gate, up));
    return lanes[0];
}

static struct value exact(const struct kt_shape *shape, float g, float u)
{
    return value_activation(shape, (struct value){(double)g, 0}, (struct value){(double)u, 0});
}

static void expect(bool right, const struct kt_shape *shape, float g, float u, double have, double want)
{
    if (right)
        return;
    printf("%s of %.9g and %.9g is %.9g, not %.17g\n", kt_activation_name(shape->activation), (double)g,
           (double)u, have, want);
    n_wrong++;
}

/* Results of PyTorch 2.13 in float64, by transformers 5.24's functions. */
static void check_known(void)
{
    static const float gate[] = {-3.0f, -0.75f, 0.0009765625f, 0.5f, 2.0f, 6.0f};
    static const float up[] = {-4.0f, 0.25f, -2.0f, 30.0f, -0.5f, 3.0f};
    static const struct {
        uint32_t activation;
        float limit, alpha;
        double results[6];
    } known[] = {
        {KT_ACTIVATION_GELU_TANH,
         0.0f,
         0.0f,
         {0.014549568327091977, -0.042509861208594915, -0.00097732342189155077, 10.371420294754317,
          -0.97729884704388748, 17.999999999746812}},
        {KT_ACTIVATION_SWIGLU,
         1.75f,
         0.0f,
         {0.24898583418222561, -0.060153993904613817, -0.00085490941998026904, 0.54465191480162278,
          -0.7454587017222718, 2.6091054560279514}},
        {KT_ACTIVATION_SWIGLUSTEP,
         1.75f,
         0.0f,
         {0.24898583418222561, -0.060153993904613817, -0.00085490941998026904, 0.54465191480162278, -0.875,
          3.0625}},
        {KT_ACTIVATION_SWIGLUOAI,
         1.75f,
         1.5f,
         {0.024720620918834653, -0.22976719981159849, -0.00036647915835352762, 0.93387071136616528,
          0.81589664525282457, 4.4874315488905347}},
        {KT_ACTIVATION_SITU,
         2.0f,
         4.0f,
         {0.23231131738808589, -0.05915108017627272, -0.00074410743450563409, 0.61923749052541066,
          -0.79751677025147649, 6.5381404587174154}},
        {KT_ACTIVATION_SITU,
         0.0f,
         4.0f,
         {0.48195989863654221, -0.059458838280516256, -0.00097703931770828033, 9.2885623578828991,
          -0.81406288359612422, 10.8349219573526}},
        {KT_ACTIVATION_RELU2, 0, 0, {0, 0.0625, 0, 900, 0, 9}},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (int i = 0; i < 6; i++) {
            const struct kt_shape shape = {.activation = known[k].activation,
                                           .limit = known[k].limit,
                                           .alpha = known[k].alpha};
            double have = exact(&shape, gate[i], up[i]).value, want = known[k].results[i];
            expect(fabs(have - want) <= 1e-14 * (1 + fabs(want)), &shape, gate[i], up[i], have, want);
        }
}

/* Over the exponents of float32, more densely where functions bend; the bound is that of all levels. */
static void check_range(uint32_t activation, float limit, float alpha)
{
    const struct kt_shape shape = {.activation = activation, .limit = limit, .alpha = alpha};
    for (int i = -4000; i <= 4000; i++) {
        float g = (float)i * 0x1.1p-7f, far = ldexpf(i < 0 ? -1.3f : 1.3f, i / 40);
        const float pairs[][2] = {{g, 1.7f}, {g, -0.9f * g}, {far, 1e-3f}, {1.3f, far}};
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
            struct value want = exact(&shape, pairs[p][0], pairs[p][1]);
            double have = (double)glu(&shape, pairs[p][0], pairs[p][1]);
            bool right = fabs(have - want.value) <= want.bound || (isinf(have) && want.value > FLT_MAX);
            expect(right, &shape, pairs[p][0], pairs[p][1], have, want.value);
        }
    }
    if (activation != KT_ACTIVATION_RELU2)
        expect(isnan(glu(&shape, NAN, 1.0f)), &shape, NAN, 1.0f, 0, NAN);
    expect(isnan(glu(&shape, 1.0f, NAN)), &shape, 1.0f, NAN, 0, NAN);
}

int main(void)
{
    check_known();
    check_range(KT_ACTIVATION_SILU, 0, 0);
    check_range(KT_ACTIVATION_SWIGLU, 2.5f, 0);
    check_range(KT_ACTIVATION_SWIGLUOAI, 7.0f, 1.702f);
    check_range(KT_ACTIVATION_GELU_TANH, 0, 0);
    check_range(KT_ACTIVATION_SWIGLUSTEP, 2.5f, 0);
    check_range(KT_ACTIVATION_SITU, 25.0f, 4.0f);
    check_range(KT_ACTIVATION_SITU, 0, 1.5f);
    check_range(KT_ACTIVATION_RELU2, 0, 0);
    return n_wrong != 0;
}

#include <climits>
#include <float.h>
#include <limits.h>
#include <limits>

extern "C" __global__ void extremes(int *i, float *f, double *d, long long *l)
{
    i[0] = INT_MAX, i[1] = INT_MIN + CHAR_BIT, i[2] = std::numeric_limits<short>::max();
    f[0] = FLT_MAX, f[1] = FLT_EPSILON, f[2] = -std::numeric_limits<float>::infinity();
    d[0] = DBL_MIN, d[1] = std::numeric_limits<double>::epsilon();
    l[0] = LLONG_MAX, l[1] = UINT_MAX;
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "build_bundle.h"
#include "ops/gdn.h"
#include "ops/w8a16.h"
#include "runtime_fixture.h"

static void keep(void *user, kpk_severity severity, const char *text)
{
    (void)severity;
    strncpy(user, text, 255);
}

/* A launcher that bound to a bundle without a part would find no kernel, and say so of each. */
static void test_launchers_want_a_bound_bundle(void **state)
{
    (void)state;
    struct build_bytes bytes = build_two();
    kpk_open_desc desc = {.symbol = fake_cuda_symbol};
    char text[256] = "";
    struct gdn_desc gdn_desc = {.message = keep, .message_user = text};
    struct w8a16_desc w8a16_desc = {.message = keep, .message_user = text};
    struct gdn gdn;
    struct w8a16 w8a16;
    kpk_image *image;
    fake_cuda_reset();
    assert_int_equal(kpk_open_memory(bytes.data, bytes.size, &desc, &image), KPK_OK);
    assert_int_equal(gdn_bind(image, &gdn_desc, &gdn), KPK_ERR_NOT_BOUND);
    assert_string_equal(text, "gdn_bind: the bundle is not bound to a device: call kpk_bind first, "
                              "or open it with a target");
    assert_int_equal(w8a16_bind(image, &w8a16_desc, &w8a16), KPK_ERR_NOT_BOUND);
    assert_non_null(strstr(text, "w8a16_bind: the bundle is not bound"));
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    assert_int_equal(gdn_bind(image, &gdn_desc, &gdn), KPK_OK);
    assert_int_equal(w8a16_bind(image, &w8a16_desc, &w8a16), KPK_OK);
    kpk_close(image);
    free(bytes.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launchers_want_a_bound_bundle)};
    return cmocka_run_group_tests_name("ops_bundle", tests, NULL, NULL);
}

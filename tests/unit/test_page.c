#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/html.h"
#include "cli/treemap.h"

/* What a report's page is made of: treemaps, and texts that stay texts. */

enum {
    MOST = 400
};

static int largest_first(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

static bool overlap(struct treemap_box a, struct treemap_box b)
{
    const double slack = 1e-6;
    return a.x + a.width > b.x + slack && b.x + b.width > a.x + slack &&
           a.y + a.height > b.y + slack && b.y + b.height > a.y + slack;
}

/* Areas as the weights (1e-9: what rounding of coordinates is worth), nothing outside the frame, no
 * two on one place: so they tile it. */
static void check_layout(const uint64_t *weights, size_t count, struct treemap_box frame)
{
    static struct treemap_box boxes[MOST];
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += (double)weights[i];
    treemap_layout(weights, count, frame, boxes);
    for (size_t i = 0; i < count; i++) {
        struct treemap_box box = boxes[i];
        double area = frame.width * frame.height * (double)weights[i] / total;
        assert_true(fabs(box.width * box.height - area) <= area * 1e-6 + 1e-9);
        assert_true(box.x >= frame.x - 1e-6 && box.y >= frame.y - 1e-6);
        assert_true(box.x + box.width <= frame.x + frame.width + 1e-6);
        assert_true(box.y + box.height <= frame.y + frame.height + 1e-6);
        for (size_t j = 0; j < i; j++)
            assert_false(overlap(box, boxes[j]));
    }
    assert_true(count == 0 || (boxes[0].x == frame.x && boxes[0].y == frame.y));
}

static void test_areas(void **state)
{
    (void)state;
    static uint64_t weights[MOST];
    const struct treemap_box frames[] = {{0, 0, 1200, 500}, {7.5, 3, 40, 900}, {1, 1, 1, 1}};
    uint64_t seed = 1;
    for (size_t count = 0; count <= MOST; count += count < 20 ? 1 : 95) {
        for (size_t i = 0; i < count; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            weights[i] = 1 + (seed >> 40) % (i % 3 ? 900 : 90000);
        }
        qsort(weights, count, sizeof *weights, largest_first);
        for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
            check_layout(weights, count, frames[i]);
    }
}

static void test_squarified(void **state)
{
    (void)state;
    /* The example of the paper: 6 6 4 3 2 2 1 in 6 x 4. */
    const uint64_t weights[] = {6, 6, 4, 3, 2, 2, 1};
    struct treemap_box boxes[7];
    treemap_layout(weights, 7, (struct treemap_box){0, 0, 6, 4}, boxes);
    const double expected[][4] = {{0, 0, 3, 2}, {0, 2, 3, 2}, {3, 0, 12 / 7.0, 7 / 3.0}};
    for (size_t i = 0; i < 3; i++) {
        assert_true(fabs(boxes[i].x - expected[i][0]) < 1e-9);
        assert_true(fabs(boxes[i].y - expected[i][1]) < 1e-9);
        assert_true(fabs(boxes[i].width - expected[i][2]) < 1e-9);
        assert_true(fabs(boxes[i].height - expected[i][3]) < 1e-9);
    }
    assert_true(fabs(boxes[3].x - boxes[2].x - boxes[2].width) < 1e-9);
}

static void test_extremes(void **state)
{
    (void)state;
    const uint64_t one[] = {UINT64_MAX}, steep[] = {UINT64_C(1) << 40, 1 << 20, 1, 1};
    check_layout(one, 1, (struct treemap_box){0, 0, 10, 10});
    check_layout(steep, 4, (struct treemap_box){0, 0, 1200, 500});
}

static void expect(void (*add)(struct str *, const char *), const char *text, const char *html)
{
    struct str out = {0};
    add(&out, text);
    assert_string_equal(str_text(&out), html);
    str_free(&out);
}

static void test_text(void **state)
{
    (void)state;
    expect(html_text, "", "");
    expect(html_text, "a_b:c", "a_b:c");
    expect(html_text, "</script><img src=x onerror='f(\"&\")'>",
           "&lt;/script&gt;&lt;img src=x onerror=&#39;f(&quot;&amp;&quot;)&#39;&gt;");
    expect(html_text, "\033[31m\n\xff\xc3\xa9", "\\x1B[31m\\x0A\\xFF\xc3\xa9");
    expect(html_name, "a_b:c", "<bdi>a_<wbr>b:<wbr>c</bdi>");
    expect(html_name, "<_>", "<bdi>&lt;_<wbr>&gt;</bdi>");
}

static void test_count(void **state)
{
    (void)state;
    const struct {
        uint64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {123456, "123,456"},
                 {1234567, "1,234,567"},
                 {UINT64_MAX, "18,446,744,073,709,551,615"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str out = {0};
        html_count(&out, cases[i].value);
        assert_string_equal(str_text(&out), cases[i].text);
        str_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_areas),    cmocka_unit_test(test_squarified),
        cmocka_unit_test(test_extremes), cmocka_unit_test(test_text),
        cmocka_unit_test(test_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

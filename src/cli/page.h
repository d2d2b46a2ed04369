#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "cli/compare.h"
#include "cli/sizes.h"
#include "cli/twins.h"
#include "cli/view.h"

/* The page that `kpack report` writes: HTML with its style and script inside, of use without the
 * script, which makes tables sortable and searchable. */

struct page_pair {
    struct view_pair views;
    struct comparison diff; /* empty where one side has none */
};

struct page {
    struct arena *arena;
    struct view *views; /* the parts of bundles among them; borrowed */
    size_t count;
    const char **labels;     /* by image: its target, numbered when two have the same */
    struct sizes *sizes;     /* by image */
    struct twins twins;      /* of all images */
    struct page_pair *pairs; /* what is compared: two images, or the parts of two files by target */
    size_t pair_count;
    const char *before, *after; /* what the pairs are of, for people */
    struct str html;
};

/* SHA-256 of the style and of the script, in base 64. */
extern const char page_style_digest[], page_script_digest[];

/* The whole page. */
void page_write(struct page *page);

/* Its sections, in their order. */
void page_summary(struct page *page);
void page_bytes(struct page *page);
void page_entries(struct page *page);
void page_twins(struct page *page);
void page_levers(struct page *page);
void page_absent(struct page *page);
void page_diff(struct page *page);

/* The begin of a section with its heading, and of a table in a box that scrolls: `tools` names the
 * rows for the search above it ("entries"), NULL: none. `label` names the box to those who cannot
 * see it. Heads are HTML, each a whole <th>. */
void page_section(struct page *page, const char *id, const char *title);
void page_table(struct page *page, const char *id, const char *label, const char *tools);
void page_end_table(struct page *page);
/* A <th> of a column by image, for each. */
void page_image_heads(struct page *page);

/* The treemap of an image, once for wide windows and once for narrow ones. */
void page_treemap(struct page *page, size_t image);

#endif

#!/bin/sh
# Prints C source with the digests by which a report's Content-Security-Policy names its own style
# and script: nothing else in the page is obeyed, whatever an image's names hold.
set -eu
digest() {
    hex=$(sha256sum <"src/cli/report/$1" | cut -c1-64 | sed 's/../\\x&/g')
    env printf "$hex" | base64
}
echo '#include "cli/page.h"'
echo "const char page_style_digest[] = \"$(digest page.css)\";"
echo "const char page_script_digest[] = \"$(digest page.js)\";"

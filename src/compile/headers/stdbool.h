// <stdbool.h> for kernels: bool, true and false are words of the language.
#pragma once

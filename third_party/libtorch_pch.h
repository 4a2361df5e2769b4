// What is precompiled for the sources that use LibTorch. They include what
// they need all the same, as if this did not exist: clang-tidy reads them
// without it.

#pragma once

#include <torch/script.h>

// The only precompiled header: without it, <torch/types.h> alone costs eight seconds per file.
// <torch/torch.h> is included nowhere: each file that includes it instantiates all of LibTorch's
// layers and data sets, which doubles a test's compile time.
#pragma once

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

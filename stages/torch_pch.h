// The only precompiled header. Without it, <torch/types.h> alone costs eight seconds per file. No
// file includes <torch/torch.h>, which would instantiate all of LibTorch's layers and datasets and
// double the compile time of a test.
#pragma once

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

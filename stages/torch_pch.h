// The one precompiled header: <torch/types.h> alone costs eight seconds a file without it.
// <torch/torch.h> is in no file: with it each instantiates all of LibTorch's layers and data sets,
// which doubles the time that a test compiles.
#pragma once

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

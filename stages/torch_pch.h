// The one precompiled header: <torch/torch.h> costs fifteen seconds a file without it.
#pragma once

#include <torch/torch.h>
